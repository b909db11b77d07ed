package stablehlo_test

import (
	"slices"
	"strings"
	"testing"

	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// TestBisectOfAllResults: divided and put together again, a module is what it was, but for unused parameters.
func TestBisectOfAllResults(t *testing.T) {
	body := func(module string) string { return module[strings.Index(module, " {\n    "):] }
	whole := 0
	for _, c := range allCases() {
		module := string(build(t, c))
		parts, ok := hlo.Bisect([]byte(module))
		if !ok { // of several devices
			continue
		}
		whole++
		var all []int
		for i := range c.build(hlo.NewModule(c.name)) {
			all = append(all, i)
		}
		if got := string(parts.Module(all)); body(got) != body(module) {
			t.Errorf("%s:\n%s\nis put together as\n%s", c.name, module, got)
		}
	}
	if whole < 150 {
		t.Errorf("only %d modules were taken apart", whole)
	}
}

const whole = `module @step {
  func.func public @main(%0: tensor<2xf32> {tf.aliasing_output = 1 : i32}, %1: tensor<f32>, %2: tensor<3xf64> {jax.buffer_donor = true}) -> (tensor<3xf64>, tensor<2xf32>, tensor<2xf32>) {
    %3 = "stablehlo.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %7, %8 = "stablehlo.if"(%1) ({
    ^bb0():
      %4 = "func.call"(%3) {callee = @twice} : (tensor<2xf32>) -> tensor<2xf32>
      "stablehlo.return"(%4, %4) : (tensor<2xf32>, tensor<2xf32>) -> ()
    }, {
    ^bb0():
      "stablehlo.return"(%3, %0) : (tensor<2xf32>, tensor<2xf32>) -> ()
    }) : (tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
    %9 = "stablehlo.negate"(%2) : (tensor<3xf64>) -> tensor<3xf64>
    "func.return"(%9, %7, %3) : (tensor<3xf64>, tensor<2xf32>, tensor<2xf32>) -> ()
  }
  func.func private @twice(%5: tensor<2xf32>) -> (tensor<2xf32>) {
    %6 = "stablehlo.add"(%5, %5) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%6) : (tensor<2xf32>) -> ()
  }
}
`

func TestBisect(t *testing.T) {
	for _, tc := range []struct {
		results, params []int
		ops             int
		module          string
	}{
		{[]int{0}, []int{2}, 1, `module @step {
  func.func public @main(%2: tensor<3xf64>) -> (tensor<3xf64>) {
    %9 = "stablehlo.negate"(%2) : (tensor<3xf64>) -> tensor<3xf64>
    "func.return"(%9) : (tensor<3xf64>) -> ()
  }
}
`},
		{[]int{2, 0}, []int{0, 2}, 2, `module @step {
  func.func public @main(%0: tensor<2xf32>, %2: tensor<3xf64>) -> (tensor<2xf32>, tensor<3xf64>) {
    %3 = "stablehlo.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %9 = "stablehlo.negate"(%2) : (tensor<3xf64>) -> tensor<3xf64>
    "func.return"(%3, %9) : (tensor<2xf32>, tensor<3xf64>) -> ()
  }
}
`},
		{[]int{1}, []int{0, 1}, 2, strings.NewReplacer(" {tf.aliasing_output = 1 : i32}", "", ", %2: tensor<3xf64> {jax.buffer_donor = true}", "",
			"(tensor<3xf64>, tensor<2xf32>, tensor<2xf32>) {", "(tensor<2xf32>) {",
			"    %9 = \"stablehlo.negate\"(%2) : (tensor<3xf64>) -> tensor<3xf64>\n", "",
			"(%9, %7, %3) : (tensor<3xf64>, tensor<2xf32>, tensor<2xf32>)", "(%7) : (tensor<2xf32>)").Replace(whole)},
	} {
		parts, ok := hlo.Bisect([]byte(whole))
		if !ok {
			t.Fatal("not taken apart")
		}
		params, ops := parts.Need(tc.results)
		if !slices.Equal(params, tc.params) || ops != tc.ops {
			t.Errorf("results %v need parameters %v and %d operations", tc.results, params, ops)
		}
		if got := string(parts.Module(tc.results)); got != tc.module {
			t.Errorf("the part for results %v is\n%s\nwant\n%s", tc.results, got, tc.module)
		}
	}
}

// usual is what MLIR prints, and its part for the second result.
const usual = `#loc = loc("a \"module\" {")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} { // a comment (
  func.func public @main(%arg0: tensor<2xf32> {jax.buffer_donor = true} loc("x"), %arg1: tensor<i32>) -> (tensor<2xf32> {jax.result_info = ""}, tensor<2xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
    %0:2 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg0) : tensor<i32>, tensor<2xf32>
     cond {
      %3 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @twice(%iterArg_0) : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %iterArg, %3 : tensor<i32>, tensor<2xf32>
    } loc(#loc)
    %1 = stablehlo.add %arg0, %cst : tensor<2xf32>
    return %0#1, %1 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @twice(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
`

const usualSecond = `#loc = loc("a \"module\" {")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} { // a comment (
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
    %1 = stablehlo.add %arg0, %cst : tensor<2xf32>
    "func.return"(%1) : (tensor<2xf32>) -> ()
  }
}
`

func TestBisectOfMLIRsForm(t *testing.T) {
	parts, ok := hlo.Bisect([]byte(usual))
	if !ok {
		t.Fatal("not taken apart")
	}
	if params, results := parts.Size(); params != 2 || results != 2 {
		t.Fatalf("%d parameters, %d results", params, results)
	}
	if params, ops := parts.Need([]int{0}); !slices.Equal(params, []int{0, 1}) || ops != 1 {
		t.Errorf("the loop needs parameters %v and %d operations", params, ops)
	}
	if first := string(parts.Module([]int{0})); !strings.Contains(first, `"func.return"(%0#1) : (tensor<2xf32>) -> ()`) || !strings.Contains(first, "@twice(%arg0") {
		t.Errorf("the part for the first result is\n%s", first)
	}
	if got := string(parts.Module([]int{1})); got != usualSecond {
		t.Errorf("the part for the second result is\n%s\nwant\n%s", got, usualSecond)
	}
}

// TestBisectOfOneResult: a single result has no parentheses.
func TestBisectOfOneResult(t *testing.T) {
	parts, ok := hlo.Bisect([]byte("func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n    return %arg0 : tensor<2xf32>\n}\n"))
	if !ok {
		t.Fatal("not taken apart")
	}
	if _, results := parts.Size(); results != 1 {
		t.Errorf("%d results", results)
	}
	parts.Module([]int{0})
}

// FuzzBisect takes any text apart without harm.
func FuzzBisect(f *testing.F) {
	f.Add(whole)
	f.Add(usual)
	f.Fuzz(func(t *testing.T, module string) {
		parts, ok := hlo.Bisect([]byte(module))
		if !ok {
			return
		}
		_, results := parts.Size()
		for r := range results {
			parts.Need([]int{r})
			parts.Module([]int{r})
		}
	})
}
