package engine

import (
	"fmt"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Functions that no caller holds and nothing recorded calls are dropped, the oldest first.
func TestFunctionsAreBounded(t *testing.T) {
	e := open(t)
	const module = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}"
	var held *Signature
	for range 2 {
		var err error
		if held, err = e.Define(module); err != nil {
			t.Fatal(err)
		}
	}
	e.DropFunction(held.Name)
	for i := range 2000 {
		e.keep(&stablehlo.Function{Name: fmt.Sprint(i)})
		e.keep(&stablehlo.Function{Name: "used"})
	}
	if n := len(e.ctx.Functions); n > idleFunctions || n != len(e.functions.names) {
		t.Errorf("%d functions, %d in order", n, len(e.functions.names))
	}
	for _, name := range []string{"used", "1999", "1900", held.Name} {
		if e.ctx.Functions[name] == nil {
			t.Errorf("%s is gone", name)
		}
	}
	e.DropFunction(held.Name)
	for i := range 2000 {
		e.keep(&stablehlo.Function{Name: fmt.Sprint(i)})
	}
	if e.ctx.Functions[held.Name] != nil || len(e.functions.held)+len(e.defined)+len(e.texts) > 0 {
		t.Errorf("%s is still there: held %v, defined %v, texts %v", held.Name, e.functions.held, e.defined, e.texts)
	}
}
