// Package ops is the table of ATen ops: one row per functional overload, with its shape rule and its
// lowering to StableHLO.
//
// In-place, out= and foreach forms have no rows: they are derived from torch's own schemas when the
// kernels are registered. A row's schema is compared with torch's at that time.
//
// To add an op, add a row to its family's file: name, schema, Infer, Lower. Infer sees the arguments and returns the
// shapes of the results, or the error that torch raises; errs.NotLower is a use that is not lowered. Lower sees the
// same arguments as StableHLO values and must produce exactly those shapes: the lowering checks it.
//
// The package imports ir, shape, dtype, stablehlo and errs.
package ops

import (
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// Row is one op.
type Row struct {
	// Name is the overload as torch spells it without the namespace: "add.Tensor", or "relu" for the
	// default overload.
	Name string
	// Schema is the argument list and results: "(Tensor self) -> Tensor".
	Schema string
	// Since is the first release of torch with this schema, if a supported one is older. There the op is absent, or
	// its arguments have other names.
	Since string
	// Infer is the shape rule.
	Infer func(c *Ctx) error
	// Lower emits the op.
	Lower func(l *Lowering)
	// Static lists the Scalar arguments (positions in the schema) whose value the shape rule or the
	// lowering looks at. Every other number may change from step to step without a new compile.
	Static []int
	// Offsets lists the int and int[] arguments that say where something is, and not how much of it there is. They
	// become arguments of the program, so that x[i] in a loop compiles once. The shape rule bakes those whose value
	// the lowering needs.
	Offsets []int
	// ShapeOnly lists the Tensor arguments (positions in the schema) of which only the shape counts, such as the self
	// of fill. Their value is not read, and may be lost.
	ShapeOnly []int
	// Strides says how the results lie in memory, StridesOf by which operand (its position in the schema).
	Strides   Strides
	StridesOf int
	// Uniform marks an op whose result has equal elements: writing it to a view that has an element several
	// times is not a conflict.
	Uniform bool
	// Expanded marks an op that torch lets write in place to a view that has an element several times, with a
	// warning. _backend/expanded.py composes such a call of others.
	Expanded bool
	// Overlap is which operands may overlap with what the op writes.
	Overlap Overlap
	// ExactOut marks an op whose out= argument must have the result's own type; others write to any type that the
	// result can be cast to. Torch states it in each of its kernels: `python -m tests.conformance --kinds out`
	// compares.
	ExactOut bool
	// OutType is torch's error for the type of an out= argument, given that of the result, where it is not the usual
	// one; nil: the usual one.
	OutType func(given, computed dtype.DType) error
	// TypedByOut marks an op whose last argument is the type to compute in: if it is not given, that of out= is.
	TypedByOut bool
	// Quiet marks an op that resizes an out= argument of another shape without torch's warning.
	Quiet bool
	// Flat marks an op that fills an out= argument of as many elements in their order, whatever its shape.
	Flat bool
	// Random marks an op that draws random numbers: tracing appends the key (see rng.go).
	Random bool
	// Torch says how torch's own CPU kernel computes the op, and where it is the faster; nil if programs never call it.
	Torch *Kernel
	// Multiplications counts those of a node of a product of matrices or a convolution; nil: the op is neither. Compiled
	// programs and torch's kernels spend the same time on them.
	Multiplications func(g *ir.Graph, node ir.ID) int64
	// Unsafe marks an op whose kernel of torch's on the CPU may end the process, or reads or writes memory that it was
	// not given. Such a kernel takes indices, lengths or pivots on trust. Package interp does not call it.
	Unsafe bool
	// Bounds are the values that the op accepts of its indices, which it does not look at by itself; nil: it has none.
	Bounds func(c *Ctx) []Bounds
	// Shortcut names the calls of Python that lead to the op and nothing else; nil for none.
	Shortcut *Shortcut
	// Also is the base name of in-place and out= forms that have another name than the row.
	Also string
	// Collective marks an op that is about all devices: it exchanges data between them or tells them apart.
	Collective bool
	// Exchanges marks a collective that moves data between devices.
	Exchanges bool
	// Internal marks a row that is not an ATen op (a step of a strided view).
	Internal bool

	operands uint64 // a bit for each argument that is an operand of torch's iterator, also where it is a number
}

// Shortcut says by which names Python calls an op with its operands only. Such a call goes past torch's dispatcher
// where nothing but the kernel would act (gocore/pyfast/shortcut.c).
type Shortcut struct {
	// Names are those of torch's functions and of Tensor's methods, apart by spaces. An in-place form ends in "_" or
	// begins with "__i".
	Names string `json:"names"`
	// Number is the overload that is called if the last operand is a number; "" if there is none.
	Number string `json:"number"`
	// Rank is the number of dimensions that all operands must have; 0 for any.
	Rank int `json:"rank"`
}

// Table is every row; the number of an op is ir.FirstRow + its place. The order is fixed by families.
var Table = join(
	viewRows,
	shardingRows,
	elementwise(pointwiseRows),
	elementwise(activationRows),
	elementwise(specialRows),
	elementwise(complexRows),
	randomRows,
	reduceRows,
	normRows,
	lossRows,
	matmulRows,
	attentionRows,
	convRows,
	poolRows,
	indexRows,
	shapeRows,
	sortRows,
	factoryRows,
	linalgRows,
	compilerRows,
	controlRows,
)

var index = func() map[string]ir.Op {
	m := make(map[string]ir.Op, len(Table))
	for i := range Table {
		if _, dup := m[Table[i].Name]; dup {
			panic("ops: two rows named " + Table[i].Name)
		}
		m[Table[i].Name] = ir.FirstRow + ir.Op(i)
	}
	return m
}()

// elementwise are the rows of a family whose ops compute element by element: Aligned and Iterated, where they do not
// say otherwise.
func elementwise(rows []Row) []Row {
	for i := range rows {
		if rows[i].Overlap == Unstated {
			rows[i].Overlap = Aligned
		}
		if rows[i].Strides == Unlaid {
			rows[i].Strides = Iterated
		}
		if rows[i].Strides == Iterated {
			rows[i].operands = operands(rows[i].Schema)
		}
	}
	return rows
}

// operands has a bit for each tensor of a schema, and for a Scalar that torch computes as one: all that are named
// other.
func operands(schema string) (bits uint64) {
	list, _, _ := strings.Cut(strings.TrimPrefix(schema, "("), ")")
	for i, a := range strings.Split(list, ", ") {
		if a == "*" {
			break
		}
		if strings.HasPrefix(a, "Tensor ") || a == "Scalar other" {
			bits |= 1 << i
		}
	}
	return bits
}

// Iterates reports whether torch's iterator sees a number, given as an argument, as a tensor of no dimensions.
func (r *Row) Iterates(arg int) bool { return r.operands>>arg&1 != 0 }

// unsafe sets Unsafe of a row that a function makes.
func (r Row) unsafe() Row {
	r.Unsafe = true
	return r
}

// overlapping states Overlap of a row that a function makes.
func (r Row) overlapping(o Overlap) Row {
	r.Overlap = o
	return r
}

// exactOut sets ExactOut of a row that a function makes.
func (r Row) exactOut() Row {
	r.ExactOut = true
	return r
}

// shortcut states the names by which Python calls a row that a function makes.
func (r Row) shortcut(names string) Row {
	r.Shortcut = &Shortcut{Names: names}
	return r
}

// also states Also of a row that a function makes.
func (r Row) also(base string) Row {
	r.Also = base
	return r
}

// byTorch states the kernel of torch of a row that a function makes.
func (r Row) byTorch(k *Kernel) Row {
	r.Torch = k
	return r
}

func join(families ...[]Row) (all []Row) {
	for _, f := range families {
		all = append(all, f...)
	}
	return
}

// Lookup returns the op of a row's name.
func Lookup(name string) (op ir.Op, ok bool) {
	op, ok = index[name]
	return
}

// Of is the row of an op, nil for the built-in ops of package ir.
func Of(op ir.Op) *Row {
	if i := int(op) - int(ir.FirstRow); i >= 0 && i < len(Table) {
		return &Table[i]
	}
	return nil
}

// Name is the printed name of any op: "aten::add.Tensor", "xla::data".
func Name(op ir.Op) string {
	switch op {
	case ir.OpData:
		return "xla::data"
	case ir.OpScalar:
		return "xla::scalar"
	case ir.OpResult:
		return "xla::result"
	}
	if r := Of(op); r != nil {
		if r.Internal {
			return r.Name
		}
		return "aten::" + r.Name
	}
	return fmt.Sprintf("xla::op%d", op)
}
