package engine

import (
	"fmt"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Functions that nothing recorded calls are dropped, the oldest first.
func TestFunctionsAreBounded(t *testing.T) {
	e := open(t)
	for i := range 2000 {
		e.keep(&stablehlo.Function{Name: fmt.Sprint(i)})
		e.keep(&stablehlo.Function{Name: "used"})
	}
	if n := len(e.ctx.Functions); n > idleFunctions || n != len(e.functions.names) {
		t.Errorf("%d functions, %d in order", n, len(e.functions.names))
	}
	for _, name := range []string{"used", "1999", "1900"} {
		if e.ctx.Functions[name] == nil {
			t.Errorf("%s is gone", name)
		}
	}
}
