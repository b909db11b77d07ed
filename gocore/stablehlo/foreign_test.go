package stablehlo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

func shapes(list []*shape.Shape) string {
	var names []string
	for _, s := range list {
		names = append(names, s.String())
	}
	return strings.Join(names, " ")
}

func TestForeignReadsSignatures(t *testing.T) {
	main := func(signature string) string {
		return "module @m {\n  func.func public @main" + signature + " {\n    return\n  }\n}\n"
	}
	for text, want := range map[string]string{
		main("()"):                           " -> ",
		main("() -> ()"):                     " -> ",
		main("(%0: tensor<2x3xf32>) -> i32"): "",
		main("(%0: tensor<2x3xf32>, %arg_1: tensor<complex<f32>> {jax.arg_info = \"(\"} loc(\"x\")) -> tensor<0xui8>"): "f32[2,3] complex<f32>[] -> ui8[0]",
		main("(%0: tensor<?xf32>)"):                        "",
		main("(%0: tensor<2xf32, #stablehlo.bounds<4>>)"):  "",
		main("(%0: tensor<-2xf32>)"):                       "",
		main("(%0: tensor<2xf31>)"):                        "",
		main("(%0: tensor<99999999999999999999xf32>)"):     "",
		main("(%0: tensor<4294967296x4294967296xf32>)"):    "",
		main("(%0: tensor<2xf32>"):                         "",
		main("(%0 tensor<2xf32>)"):                         "",
		main("(%0: tensor<2xf32>) -> (tensor<1xi1>, )"):    "",
		main("(tensor<2xf32>)"):                            "",
		main("()") + main("()"):                            "",
		"":                                                 "",
		"ML\xefR\x01":                                      "",
		"module @\"ma in\" { func.func @\"main\"() { } }":  " -> ",
		"module { module { func.func @main() { } } }":      " -> ",
		"// func.func @main() -> tensor<1xf32> {}\n":       "",
		"\"func.func @main() {}\"":                         "",
		"func.func @main(%0: tensor<1xf32>) { return } //": "f32[1] -> ",
	} {
		s, err := hlo.Foreign([]byte(text))
		if got := shapes(s.Params) + " -> " + shapes(s.Results); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s\n has %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestForeignRefuses(t *testing.T) {
	main := func(line string) string { return "func.func @main() {\n" + line + "\n return }" }
	for text, ok := range map[string]bool{
		main(`%0 = stablehlo.constant dense<1> : tensor<i32>`):                                true,
		main(`// stablehlo.custom_call @f() : () -> ()`):                                      true,
		main(`stablehlo.custom_call @f() : () -> ()`):                                         false,
		main(`"stablehlo.custom_call"() {x = 1} : () -> ()`):                                  false,
		main(`"stablehlo.custom\5fcall"() : () -> ()`):                                        false,
		main(`"vhlo.custom_call_v1"() : () -> ()`):                                            false,
		main(`"mhlo.infeed"() : () -> ()`):                                                    false,
		main(`"stablehlo.all_reduce"() : () -> ()`):                                           false,
		"func.func @main(%0: tensor<1xf32> {tf.aliasing_output = 0 : i32}) { return }":        false,
		"func.func @main(%0: tensor<1xf32> {\"tf.aliasing\\5foutput\" = 0 : i32}) { return }": false,
		"module attributes {mhlo.xla_entry_computation_parameter_layouts = [dense<0> : tensor<1xindex>]} { func.func @main() { return } }": false,
	} {
		if _, err := hlo.Foreign([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestForeignReadsOurs: what the builder writes is read as it was meant, unless it reaches out of itself.
func TestForeignReadsOurs(t *testing.T) {
	read := 0
	for _, c := range allCases() {
		module := build(t, c)
		var want []*shape.Shape
		for _, v := range c.build(hlo.NewModule(c.name)) {
			want = append(want, v.Shape())
		}
		s, err := hlo.Foreign(module)
		if err != nil {
			continue
		}
		read++
		if !slices.Equal(s.Results, want) {
			t.Errorf("%s: results %s, want %s", c.name, shapes(s.Results), shapes(want))
		}
	}
	if read < 140 {
		t.Errorf("only %d modules were read", read)
	}
}

// FuzzForeign reads any text without harm.
func FuzzForeign(f *testing.F) {
	f.Add(whole)
	f.Add(usual)
	f.Fuzz(func(t *testing.T, module string) {
		s, err := hlo.Foreign([]byte(module))
		if err == nil && slices.Contains(slices.Concat(s.Params, s.Results), nil) {
			t.Error("an array without a shape")
		}
	})
}
