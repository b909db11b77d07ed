package stablehlo

import (
	"strings"

	"fmt"
	"strconv"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Precision asks a backend to keep bits in products of floats; the zero value is DEFAULT.
type Precision uint8

// The precisions of the specification.
const (
	PrecisionDefault Precision = iota
	PrecisionHigh
	PrecisionHighest
)

// String is the name in the text.
func (p Precision) String() string {
	switch p {
	case PrecisionHigh:
		return "HIGH"
	case PrecisionHighest:
		return "HIGHEST"
	}
	return "DEFAULT"
}

// ParsePrecision is the precision of a name, in capitals or not.
func ParsePrecision(name string) (Precision, bool) {
	for p := PrecisionDefault; p <= PrecisionHighest; p++ {
		if strings.EqualFold(name, p.String()) {
			return p, true
		}
	}
	return PrecisionDefault, false
}

// attrPrecision appends precision_config, unless both operands have the default.
func (b *Builder) attrPrecision(p Precision) {
	if p == PrecisionDefault {
		return
	}
	s := "#stablehlo<precision " + p.String() + ">"
	b.attrRaw("precision_config", "[", s, ", ", s, "]")
}

// DotDims are the dimension numbers of DotGeneral, and its options.
type DotDims struct {
	LhsBatch, RhsBatch       []int64
	LhsContract, RhsContract []int64
	Precision                Precision
	Result                   dtype.DType // element type of the result; Invalid: lhs's
}

// DotGeneral sums products over the contracting dimensions. The result has the batch dimensions,
// then the others of lhs, then the others of rhs. The operands' element types may differ where a
// backend multiplies them (fp8).
func (b *Builder) DotGeneral(lhs, rhs Value, d DotDims) Value {
	const op = "stablehlo.dot_general"
	pair := func(l, r []int64) bool {
		if len(l) != len(r) {
			return false
		}
		for i := range l {
			if lhs.Dims()[l[i]] != rhs.Dims()[r[i]] {
				return false
			}
		}
		return true
	}
	all := func(x, y []int64) []int64 { return append(x[:len(x):len(x)], y...) }
	if !distinct(all(d.LhsBatch, d.LhsContract), int64(lhs.Rank())) || !distinct(all(d.RhsBatch, d.RhsContract), int64(rhs.Rank())) ||
		!pair(d.LhsBatch, d.RhsBatch) || !pair(d.LhsContract, d.RhsContract) {
		return b.fail(op, fmt.Sprintf("batch %v x %v, contracting %v x %v do not fit", d.LhsBatch, d.RhsBatch, d.LhsContract, d.RhsContract), lhs, rhs)
	}
	if lhs.DType() != rhs.DType() && !(lhs.DType().IsFloat() && rhs.DType().IsFloat()) {
		return b.fail(op, "element types differ", lhs, rhs)
	}
	if d.Result == dtype.Invalid {
		d.Result = lhs.DType()
	}
	var dims []int64
	for _, i := range d.LhsBatch {
		dims = append(dims, lhs.Dims()[i])
	}
	for i, n := range lhs.Dims() {
		if !contains(d.LhsBatch, int64(i)) && !contains(d.LhsContract, int64(i)) {
			dims = append(dims, n)
		}
	}
	for i, n := range rhs.Dims() {
		if !contains(d.RhsBatch, int64(i)) && !contains(d.RhsContract, int64(i)) {
			dims = append(dims, n)
		}
	}
	b.attrName("dot_dimension_numbers")
	b.attrs = append(b.attrs, "#stablehlo.dot<"...)
	first := true
	b.field(&first, "lhs_batching_dimensions", d.LhsBatch)
	b.field(&first, "rhs_batching_dimensions", d.RhsBatch)
	b.field(&first, "lhs_contracting_dimensions", d.LhsContract)
	b.field(&first, "rhs_contracting_dimensions", d.RhsContract)
	b.attrs = append(b.attrs, '>')
	b.attrPrecision(d.Precision)
	return b.op1(op, shape.Of(d.Result, dims), lhs, rhs)
}

// MatMul is the product of two matrices [m,k] and [k,n].
func (b *Builder) MatMul(x, y Value, p Precision) Value {
	return b.DotGeneral(x, y, DotDims{LhsContract: []int64{1}, RhsContract: []int64{0}, Precision: p})
}

// ConvDims are the dimension numbers of Convolution, and its options. Nil lists stand for strides
// and dilations of 1, no padding, no reversal; zero counts stand for 1.
type ConvDims struct {
	InputBatch, InputFeature   int64
	InputSpatial               []int64
	KernelInput, KernelOutput  int64
	KernelSpatial              []int64
	OutputBatch, OutputFeature int64
	OutputSpatial              []int64
	Strides                    []int64
	Padding                    [][2]int64
	LhsDilation                []int64 // distance of the input's elements (transposed convolution)
	RhsDilation                []int64 // distance of the kernel's elements
	Reverse                    []bool  // flips the kernel
	FeatureGroups, BatchGroups int64
	Precision                  Precision
	Result                     dtype.DType // element type of the result; Invalid: the input's
}

// ConvNCHW are the dimension numbers of torch's layout with n spatial dimensions: input [N,C,…],
// kernel [O,I,…], output [N,C,…].
func ConvNCHW(n int) ConvDims {
	var d ConvDims
	d.InputFeature, d.KernelInput, d.OutputFeature = 1, 1, 1
	for i := int64(0); i < int64(n); i++ {
		d.InputSpatial = append(d.InputSpatial, i+2)
	}
	d.KernelSpatial, d.OutputSpatial = d.InputSpatial, d.InputSpatial
	return d
}

// fill puts defaults in and reports whether the lists have n entries and positive numbers.
func (d *ConvDims) fill(n int) bool {
	for _, l := range []*[]int64{&d.Strides, &d.LhsDilation, &d.RhsDilation} {
		if *l == nil {
			*l = filled(n, 1)
		}
		if len(*l) != n {
			return false
		}
		for _, x := range *l {
			if x < 1 {
				return false
			}
		}
	}
	if d.Padding == nil {
		d.Padding = make([][2]int64, n)
	}
	d.FeatureGroups, d.BatchGroups = max(d.FeatureGroups, 1), max(d.BatchGroups, 1)
	return len(d.Padding) == n && (d.Reverse == nil || len(d.Reverse) == n)
}

// output infers the result's dimensions; ok is false if the numbers do not fit.
func (d *ConvDims) output(x, k []int64) (dims []int64, ok bool) {
	n := len(x) - 2
	r := int64(len(x))
	if n < 0 || len(k) != len(x) || len(d.InputSpatial) != n || len(d.KernelSpatial) != n || len(d.OutputSpatial) != n || !d.fill(n) {
		return nil, false
	}
	with := func(a, b int64, rest []int64) bool { return distinct(append([]int64{a, b}, rest...), r) }
	if !with(d.InputBatch, d.InputFeature, d.InputSpatial) || !with(d.KernelInput, d.KernelOutput, d.KernelSpatial) ||
		!with(d.OutputBatch, d.OutputFeature, d.OutputSpatial) {
		return nil, false
	}
	batch, out := x[d.InputBatch], k[d.KernelOutput]
	if x[d.InputFeature] != k[d.KernelInput]*d.FeatureGroups || out%d.FeatureGroups != 0 ||
		batch%d.BatchGroups != 0 || out%d.BatchGroups != 0 || d.FeatureGroups > 1 && d.BatchGroups > 1 {
		return nil, false
	}
	dims = make([]int64, r)
	dims[d.OutputBatch], dims[d.OutputFeature] = batch/d.BatchGroups, out
	for i := range n {
		dims[d.OutputSpatial[i]] = windowed(x[d.InputSpatial[i]], k[d.KernelSpatial[i]], d.Strides[i], d.LhsDilation[i], d.RhsDilation[i], d.Padding[i])
	}
	return dims, true
}

// Convolution slides the kernel over the input's spatial dimensions.
func (b *Builder) Convolution(x, kernel Value, d ConvDims) Value {
	const op = "stablehlo.convolution"
	dims, ok := d.output(x.Dims(), kernel.Dims())
	if !ok || x.DType() != kernel.DType() {
		return b.fail(op, fmt.Sprintf("the dimension numbers %+v do not fit", d), x, kernel)
	}
	if d.Result == dtype.Invalid {
		d.Result = x.DType()
	}
	b.attrName("dimension_numbers")
	b.attrs = append(b.attrs, "#stablehlo.conv<"...)
	b.convSide("b", "f", d.InputBatch, d.InputFeature, d.InputSpatial)
	b.attrs = append(b.attrs, 'x')
	b.convSide("i", "o", d.KernelInput, d.KernelOutput, d.KernelSpatial)
	b.attrs = append(b.attrs, "->"...)
	b.convSide("b", "f", d.OutputBatch, d.OutputFeature, d.OutputSpatial)
	b.attrs = append(b.attrs, '>')
	b.attrDims("window_strides", d.Strides)
	b.attrPadding(d.Padding)
	b.attrDims("lhs_dilation", d.LhsDilation)
	b.attrDims("rhs_dilation", d.RhsDilation)
	if d.Reverse != nil {
		b.attrBools("window_reversal", d.Reverse)
	}
	b.attrInt("feature_group_count", d.FeatureGroups)
	b.attrInt("batch_group_count", d.BatchGroups)
	b.attrPrecision(d.Precision)
	return b.op1(op, shape.Of(d.Result, dims), x, kernel)
}

func (b *Builder) attrBools(name string, xs []bool) {
	b.attrName(name)
	b.attrs = append(b.attrs, "array<i1"...)
	for i, x := range xs {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		} else {
			b.attrs = append(b.attrs, ": "...)
		}
		b.attrs = strconv.AppendBool(b.attrs, x)
	}
	b.attrs = append(b.attrs, '>')
}

// convSide prints [b, f, 0, 1]: what each dimension of one operand is.
func (b *Builder) convSide(first, second string, p, q int64, spatial []int64) {
	b.attrs = append(b.attrs, '[')
	for i := int64(0); i < int64(len(spatial)+2); i++ {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		}
		switch i {
		case p:
			b.attrs = append(b.attrs, first...)
		case q:
			b.attrs = append(b.attrs, second...)
		default:
			for k, s := range spatial {
				if s == i {
					b.attrs = strconv.AppendInt(b.attrs, int64(k), 10)
				}
			}
		}
	}
	b.attrs = append(b.attrs, ']')
}
