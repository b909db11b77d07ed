package interp

import (
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
)

func TestRulesAreOfRows(t *testing.T) {
	for name := range rules {
		if op, ok := ops.Lookup(name); !ok {
			t.Errorf("there is no row %s", name)
		} else if ops.Of(op).Unsafe {
			t.Errorf("%s is Unsafe, so that its rule is never asked", name)
		}
	}
}
