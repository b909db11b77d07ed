package ops

import "github.com/torch-go-xla/torch-go-xla/gocore/dtype"

// types is a set of element types: those that a torch kernel is compiled for.
type types uint32

// The sets that torch's dispatch macros name.
const (
	bools     types = 1 << dtype.Bool
	ints      types = 1<<dtype.U8 | 1<<dtype.I8 | 1<<dtype.I16 | 1<<dtype.I32 | 1<<dtype.I64
	unsigned  types = 1<<dtype.U16 | 1<<dtype.U32 | 1<<dtype.U64
	halves    types = 1<<dtype.F16 | 1<<dtype.BF16
	wide      types = 1<<dtype.F32 | 1<<dtype.F64
	floats    types = halves | wide
	complexes types = 1<<dtype.C64 | 1<<dtype.C128
	f8s       types = 1<<dtype.F8E4M3FN | 1<<dtype.F8E5M2 | 1<<dtype.F8E4M3FNUZ | 1<<dtype.F8E5M2FNUZ // F8E8M0FNU has no arithmetic
)

func (t types) has(d dtype.DType) bool { return t>>d&1 != 0 }

// implemented refuses results of a type that torch's kernel of this name does not compute in.
func implemented(kernel string, t types, infer func(c *Ctx) error) func(c *Ctx) error {
	return func(c *Ctx) error {
		if err := infer(c); err != nil {
			return err
		}
		if d := c.outs[0].DType; !t.has(d) {
			return notFor(kernel, d)
		}
		return nil
	}
}

// checked makes a row test its arguments first.
func (r Row) checked(check func(c *Ctx) error) Row {
	infer := r.Infer
	r.Infer = func(c *Ctx) error {
		if err := check(c); err != nil {
			return err
		}
		return infer(c)
	}
	return r
}
