package stablehlo

import (
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Value is a result of an operation or an argument of a function or region. It belongs to the
// Builder that made it. The zero Value is none: using it as an operand is an error.
type Value struct {
	id    int32
	scope int32 // the function or region that defines it; 0 for the zero Value
	s     *shape.Shape
}

var noShape = shape.Make(dtype.Invalid)

// Shape is the value's type; for the zero Value, the shape of rank 0 and type Invalid.
func (v Value) Shape() *shape.Shape {
	if v.s == nil {
		return noShape
	}
	return v.s
}

// Dims are the dimensions; do not write to them.
func (v Value) Dims() []int64 { return v.Shape().Dims }

// Dim is the size of dimension i, counted from the end if negative; 1 if there is no such dimension.
func (v Value) Dim(i int) int64 {
	d := v.Shape().Dims
	if i < 0 {
		i += len(d)
	}
	if i < 0 || i >= len(d) {
		return 1
	}
	return d[i]
}

// DType is the element type.
func (v Value) DType() dtype.DType { return v.Shape().DType }

// Rank is the number of dimensions.
func (v Value) Rank() int { return len(v.Shape().Dims) }

// IsZero reports the zero Value.
func (v Value) IsZero() bool { return v.scope == 0 && v.s == nil }

// scopeFrame is one open function or region.
type scopeFrame struct {
	id       int32
	isolated bool // may not use values from around it
	op       string
}

// Builder writes one module. It is not for concurrent use. Get one from NewModule.
type Builder struct {
	name     string
	modAttrs []Attr
	meshes   []mesh

	partitions int
	mark       *Marking
	err        *Error

	out    []byte // body of the innermost open function or region
	attrs  []byte // attributes of the operation being written
	spare  [][]byte
	scopes []scopeFrame
	nextID int32
	nextSc int32
	depth  int // indentation of out, in steps of two spaces

	main      function
	funcs     []*Func
	consts    map[constKey]Value
	reshaped  map[int32]Value // by value of @main: what Reshape has made it of
	extra     []Attr          // attributes for the next operation
	locations bool
	loc       int32 // index+1 into locs
	locs      []location
	locIndex  map[location]int32
}

// function collects the signature of a function while its body is written.
type function struct {
	name     string
	public   bool
	params   []Value
	paramAt  [][]Attr
	results  []Value
	resultAt [][]Attr
	body     []byte
	returned bool
	text     []byte // the whole function, if it was written elsewhere; see Written
}

// NewModule starts a module of this name (any text) whose entry function is @main.
func NewModule(name string) *Builder {
	b := &Builder{name: name, consts: make(map[constKey]Value, 8), reshaped: make(map[int32]Value, 8), out: make([]byte, 0, 4096), depth: 2}
	b.main = function{name: "main", public: true}
	b.push("func.func", true)
	return b
}

func (b *Builder) push(op string, isolated bool) int32 {
	b.nextSc++
	b.scopes = append(b.scopes, scopeFrame{b.nextSc, isolated, op})
	return b.nextSc
}

func (b *Builder) scope() int32 { return b.scopes[len(b.scopes)-1].id }

// fresh makes a value of the innermost scope.
func (b *Builder) fresh(s *shape.Shape) Value {
	v := Value{id: b.nextID, scope: b.scope(), s: s}
	b.nextID++
	return v
}

// Param adds a parameter to @main; parameters are numbered in the order of these calls, which may
// come at any time before Return.
func (b *Builder) Param(s *shape.Shape, attrs ...Attr) Value {
	if !valid(s) {
		return b.fail("func.func", "parameter of type "+s.String())
	}
	if len(b.scopes) != 1 || b.main.returned {
		return b.fail("func.func", "parameter added inside a region or after Return")
	}
	v := b.fresh(s)
	b.main.params = append(b.main.params, v)
	b.main.paramAt = append(b.main.paramAt, attrs)
	return v
}

// NumParams is the number of parameters of @main so far.
func (b *Builder) NumParams() int { return len(b.main.params) }

// Return ends @main with these results. It is called once, last.
func (b *Builder) Return(outs ...Value) {
	switch {
	case len(b.scopes) != 1:
		b.fail("func.return", "Return inside a region: return values from the region's function", outs...)
	case b.main.returned:
		b.fail("func.return", "Return called twice", outs...)
	default:
		b.main.returned = true
		b.main.results = append([]Value(nil), outs...)
		b.emit("func.return", outs, nil)
	}
}

// ResultAttrs adds attributes to result i of @main.
func (b *Builder) ResultAttrs(i int, attrs ...Attr) {
	if i < 0 {
		b.fail("func.func", "negative result index")
		return
	}
	for len(b.main.resultAt) <= i {
		b.main.resultAt = append(b.main.resultAt, nil)
	}
	b.main.resultAt[i] = append(b.main.resultAt[i], attrs...)
}

// SetPartitions says over how many devices the program will be partitioned.
func (b *Builder) SetPartitions(n int) { b.partitions = n }

// Partitions is over how many devices the program will be partitioned, 0 if it will not be.
func (b *Builder) Partitions() int { return b.partitions }

// ModuleAttrs adds attributes to the module, such as Int32Attr("mhlo.num_partitions", 2).
func (b *Builder) ModuleAttrs(attrs ...Attr) { b.modAttrs = append(b.modAttrs, attrs...) }

// Marking is what Mark does to operations.
type Marking struct {
	Sharding string            // of each result; "": the partitioner finds it
	Constant func(Value) Value // made of each value without operands, which has no sharding: compilers merge equal ones
	Apart    *Apart            // how operations are written that the partitioner cannot divide; nil: as others
}

// Apart writes an operation with another marking.
type Apart struct {
	Mark  *Marking
	Into  func(Value) Value // an operand for it
	OutOf func(Value) Value // what its result is with the marking around
}

// undivided reports that the partitioner fails at an operation, or copies it to all devices. Those of CHLO become
// several on the way to it, constants among them. Their marks then count for equal constants in the rest of the
// program too.
func undivided(op string) bool {
	switch op {
	case "stablehlo.cholesky", "stablehlo.custom_call", "stablehlo.fft", "stablehlo.rng", "stablehlo.rng_bit_generator",
		"stablehlo.triangular_solve":
		return true
	case "chlo.erf", "chlo.square":
		return false
	}
	return strings.HasPrefix(op, "chlo.")
}

// Mark changes the operations that follow, but for the bodies of regions, until it is called again; nil ends
// that. The result is what counted before.
func (b *Builder) Mark(m *Marking) *Marking {
	before := b.mark
	b.mark = m
	return before
}

// marks reports whether Mark counts for what is written now.
func (b *Builder) marks() bool { return b.mark != nil && len(b.scopes) == 1 }

// found reports that the partitioner finds the shardings of what is written now. It would take a constant as it stands,
// so constants are written with as few dimensions as they have.
func (b *Builder) found() bool { return b.marks() && b.mark.Sharding == "" }

// NextAttrs adds attributes to the next operation that is written, such as
// StringAttr("mhlo.sharding", "{replicated}"). An operation with regions takes them after its body.
func (b *Builder) NextAttrs(attrs ...Attr) { b.extra = append(b.extra, attrs...) }

// Bytes is the text of the module, or the first error.
func (b *Builder) Bytes() ([]byte, error) {
	if b.err == nil && !b.main.returned {
		b.fail("func.func", "Bytes before Return")
	}
	if b.err == nil && len(b.main.resultAt) > len(b.main.results) {
		b.fail("func.func", "attributes for a result that does not exist", b.main.results...)
	}
	if b.err != nil {
		return nil, b.err
	}
	b.main.body = b.out
	n := len(b.out) + 256
	for _, f := range b.funcs {
		n += len(f.f.body) + 256
	}
	out := make([]byte, 0, n)
	out = append(out, "module @"...)
	out = appendSymbol(out, b.name)
	if len(b.modAttrs) > 0 {
		out = append(out, " attributes"...)
		out = appendAttrs(out, b.modAttrs)
	}
	out = append(out, " {\n"...)
	for _, m := range b.meshes {
		out = m.append(out)
	}
	out = b.main.append(out)
	for _, f := range b.funcs {
		out = f.f.append(out)
	}
	out = append(out, "}\n"...)
	return b.appendLocs(out), nil
}

// append prints the function with its signature.
func (f *function) append(out []byte) []byte {
	if f.text != nil {
		return append(out, f.text...)
	}
	out = append(out, "  func.func "...)
	if f.public {
		out = append(out, "public @"...)
	} else {
		out = append(out, "private @"...)
	}
	out = appendSymbol(out, f.name)
	out = append(out, '(')
	for i, p := range f.params {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = p.append(out)
		out = append(out, ": "...)
		out = appendType(out, p.s)
		if i < len(f.paramAt) {
			out = appendAttrs(out, f.paramAt[i])
		}
	}
	out = append(out, ')')
	if len(f.results) > 0 {
		out = append(out, " -> ("...)
		for i, r := range f.results {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = appendType(out, r.s)
			if i < len(f.resultAt) {
				out = appendAttrs(out, f.resultAt[i])
			}
		}
		out = append(out, ')')
	}
	out = append(out, " {\n"...)
	out = append(out, f.body...)
	return append(out, "  }\n"...)
}

func (v Value) append(out []byte) []byte {
	out = append(out, '%')
	return strconv.AppendInt(out, int64(v.id), 10)
}

// appendType prints tensor<2x3xf32>.
func appendType(out []byte, s *shape.Shape) []byte {
	out = append(out, "tensor<"...)
	for _, d := range s.Dims {
		out = strconv.AppendInt(out, d, 10)
		out = append(out, 'x')
	}
	out = append(out, s.DType.String()...)
	return append(out, '>')
}

// appendSymbol prints a name after an @, quoted where MLIR asks for it.
func appendSymbol(out []byte, name string) []byte {
	if name == "" {
		return append(out, `"-"`...)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '.' || c == '$')) {
			return appendQuoted(out, name)
		}
	}
	return append(out, name...)
}
