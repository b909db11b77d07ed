package stablehlo_test

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// TestMark checks which operations get the sharding, and that marked and plain constants are apart.
func TestMark(t *testing.T) {
	b := hlo.NewModule("m")
	x := b.Param(shape.Make(dtype.F32, 4))
	one := b.ConstLike(x, 1)
	var entered []hlo.Value
	before := b.Mark(&hlo.Marking{Sharding: "{manual}", Constant: func(v hlo.Value) hlo.Value {
		entered = append(entered, v)
		return b.Negate(v)
	}})
	if before != nil {
		t.Error("something was marked from the start")
	}
	y := b.Add(x, b.ConstLike(x, 1))
	sum := b.ReduceSum(y, []int64{0})
	b.Mark(before)
	b.Return(sum, b.Multiply(x, one), b.ConstLike(x, 1))
	text, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		marked := strings.Contains(line, `mhlo.sharding = "{manual}"`)
		if want := strings.Contains(line, "stablehlo.add\"(%0") || strings.HasPrefix(strings.TrimSpace(line), "}) {"); marked != want && !strings.Contains(line, "module") {
			t.Errorf("marked: %v, want %v: %s", marked, want, line)
		}
	}
	if len(entered) != 2 { // 1, and the 0 that the sum starts with
		t.Errorf("%d constants were entered, want 2", len(entered))
	}
}
