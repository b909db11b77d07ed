package stablehlo_test

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const writtenText = `// from elsewhere
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> {jax.arg_info = "@half"}) -> (tensor<2xf32> {jax.result_info = ""}) {
%0 = call @half(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @half(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %c = stablehlo.constant dense<0.5> : tensor<2xf32>
    %0 = stablehlo.multiply %arg0, %c : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
`

// A module that calls the function, twice.
func caller(t *testing.T, f *hlo.Function) string {
	t.Helper()
	b := hlo.NewModule("caller")
	x := b.Param(shape.Of(dtype.F32, []int64{2}))
	y := b.Call(b.Import(f), x)[0]
	b.Return(b.Call(b.Import(f), y)[0])
	text, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWrittenIsCalledUnderANameOfItsOwn(t *testing.T) {
	f, err := hlo.Written([]byte(writtenText))
	if err != nil {
		t.Fatal(err)
	}
	text := caller(t, f)
	for part, want := range map[string]int{
		"func.func private @" + f.Name + "(":      1,
		"func.func private @" + f.Name + "_half(": 1,
		"call @" + f.Name + "_half(":              1,
		"callee = @" + f.Name + "}":               2,
		`jax.arg_info = "@half"`:                  1,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", part, got, want, text)
		}
	}
	again, err := hlo.Written([]byte(writtenText))
	if err != nil || again.Name != f.Name {
		t.Errorf("the same text is %s, then %s (%v)", f.Name, again.Name, err)
	}
}

// A program that is run in parts keeps the functions that the parts call.
func TestWrittenCanBeCut(t *testing.T) {
	f, err := hlo.Written([]byte(writtenText))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := hlo.Bisect([]byte(caller(t, f)))
	if !ok {
		t.Fatal("the module cannot be cut")
	}
	part := string(c.Module([]int{0}))
	if strings.Count(part, "func.func private @"+f.Name) != 2 || strings.Count(part, "\n}\n") != 1 {
		t.Errorf("the part is\n%s", part)
	}
}

func TestWrittenRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":            "no func.func @main",
		"ML\xefR\x01": "not MLIR's text form",
		"func.func @main(%0: tensor<?xf32>) { return }":                     "fixed sizes",
		"#map = loc(\"x\")\nfunc.func @main() { return }":                   "beside its functions",
		"module { func.func @main() { return } sdy.mesh @m = <[\"x\"=2]> }": "beside its functions",
		"func.func @main() { return } func.func private @f(tensor<1xf32>)":  "usual form",
		"func.func @main() { return } func.func @main() { return }":         "two @main",
	} {
		if _, err := hlo.Written([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzWritten(f *testing.F) {
	f.Add(writtenText)
	f.Add("func.func @main(%0: tensor<1xf32>) -> tensor<1xf32> { return %0 : tensor<1xf32> }")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = hlo.Written([]byte(text)) // an error, or not: no panic
	})
}
