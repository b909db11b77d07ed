package ops

import (
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Describe names a node for an error message: its op with the shapes of its operands,
// "aten::add.Tensor(f32[2,3], f32[3])".
func Describe(g *ir.Graph, id ir.ID) string {
	var b strings.Builder
	b.WriteString(Name(g.At(id).Op))
	b.WriteByte('(')
	for i, in := range g.In(id) {
		if i > 0 {
			b.WriteString(", ")
		}
		if in == ir.None {
			b.WriteString("None")
			continue
		}
		if n, ok := g.Number(in); ok {
			b.WriteString(n.String())
			continue
		}
		b.WriteString(g.Shape(in).String())
	}
	b.WriteByte(')')
	return b.String()
}

// At names the op of a node and the line that recorded it, "aten::add.Tensor at model.py:12"; where is "" for an
// unknown line.
func At(op ir.Op, where string) string {
	if where == "" {
		return Name(op)
	}
	return Name(op) + " at " + where
}

// dimsText prints dimensions as torch does: [2, 3].
func dimsText(dims []int64) string { return shape.TorchDims(dims) }

// expandable reports that dims broadcast to exactly want.
func expandable(dims, want []int64) bool {
	k := len(want) - len(dims)
	if k < 0 {
		return false
	}
	for i, n := range dims {
		if n != want[k+i] && n != 1 {
			return false
		}
	}
	return true
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// notFor is torch's error of a kernel that does not exist for a type.
func notFor(kernel string, d dtype.DType) error {
	return errs.New(errs.NotImpl, "\"%s\" not implemented for '%s'", kernel, d.C10())
}
