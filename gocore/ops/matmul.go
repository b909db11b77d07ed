package ops

import (
	"slices"

	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// matmulRows are matrix products. Each is one dot_general that accumulates in dtype.Accumulate of its
// operands' type, then the scaled sum with self, then one rounding to the result's type.
var matmulRows = join(
	[]Row{
		{Name: "mm", Shortcut: &Shortcut{Names: "mm matmul __matmul__", Rank: 2}, Schema: "(Tensor self, Tensor mat2) -> Tensor", ExactOut: true, Torch: &Kernel{Out: "out", When: multipliesFaster}, Multiplications: rowsOf(0),
			Infer: func(c *Ctx) error { return inferMM(c, 0, 1, c.In(0).DType) },
			Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
		{Name: "mm.dtype", Schema: "(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", ExactOut: true, Multiplications: rowsOf(0),
			Infer: func(c *Ctx) error { return inferMM(c, 0, 1, c.Type(2)) },
			Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
		{Name: "bmm", Shortcut: &Shortcut{Names: "bmm", Rank: 3}, Schema: "(Tensor self, Tensor mat2) -> Tensor", ExactOut: true, Torch: &Kernel{Out: "out", When: multipliesFaster}, Multiplications: rowsOf(0),
			Infer: func(c *Ctx) error { return inferBMM(c, 0, 1, c.In(0).DType) },
			Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
		{Name: "bmm.dtype", Schema: "(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", ExactOut: true, Multiplications: rowsOf(0),
			Infer: func(c *Ctx) error { return inferBMM(c, 0, 1, c.Type(2)) },
			Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
		{Name: "addmm", Schema: "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: rowsOf(1),
			Infer: func(c *Ctx) error { return inferAddMM(c, c.In(1).DType) },
			Lower: func(l *Lowering) { lowerAddProduct(l, 3, 4) }},
		{Name: "addmm.dtype", Schema: "(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: rowsOf(1),
			Infer: func(c *Ctx) error { return inferAddMM(c, c.Type(3)) },
			Lower: func(l *Lowering) { lowerAddProduct(l, 4, 5) }},
		{Name: "baddbmm", Schema: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: rowsOf(1),
			Infer: func(c *Ctx) error { return inferBAddBMM(c, c.In(1).DType) },
			Lower: func(l *Lowering) { lowerAddProduct(l, 3, 4) }},
		{Name: "baddbmm.dtype", Schema: "(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: rowsOf(1),
			Infer: func(c *Ctx) error { return inferBAddBMM(c, c.Type(3)) },
			Lower: func(l *Lowering) { lowerAddProduct(l, 4, 5) }},
		{Name: "addbmm", Schema: "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: sumOfProducts,
			Infer: inferAddBMM,
			Lower: func(l *Lowering) {
				p := l.dot(l.In(1), l.In(2), stablehlo.DotDims{LhsContract: []int64{0, 2}, RhsContract: []int64{0, 1}})
				l.addScaled(p, 3, 4)
			}},
		{Name: "addr", Schema: "(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", Strides: Iterated, Overlap: Aligned,
			Infer: inferAddR, Lower: lowerAddR},
		{Name: "_addmm_activation", Schema: "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) -> Tensor", Multiplications: rowsOf(1),
			Infer: func(c *Ctx) error { return inferAddMM(c, c.In(1).DType) },
			Lower: lowerAddMMActivation},
	},
	vectorProductRows, scaledProductRows, groupedProductRows,
)

var vectorProductRows = []Row{
	{Name: "mv", Schema: "(Tensor self, Tensor vec) -> Tensor", ExactOut: true, Multiplications: rowsOf(0),
		Infer: func(c *Ctx) error { return inferMV(c, nil, c.In(0), c.In(1)) },
		Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
	{Name: "addmv", Schema: "(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", ExactOut: true, Multiplications: rowsOf(1),
		Infer: func(c *Ctx) error { return inferMV(c, c.In(0), c.In(1), c.In(2)) },
		Lower: func(l *Lowering) { lowerAddProduct(l, 3, 4) }},
	{Name: "dot", Schema: "(Tensor self, Tensor tensor) -> Tensor", ExactOut: true, Multiplications: rowsOf(0),
		Infer: inferDot, Lower: func(l *Lowering) { lowerProduct(l, 0, 1) }},
	{Name: "vdot", Schema: "(Tensor self, Tensor other) -> Tensor", ExactOut: true, Multiplications: rowsOf(0),
		Infer: inferDot, Lower: func(l *Lowering) {
			x := l.In(0)
			if x.DType().IsComplex() {
				x = l.B.Conj(x)
			}
			l.Return(l.Convert(l.product(x, l.In(1)), l.Out(0).DType))
		}},
}

// dot is the dot_general of x and y with the program's precision, in the type in which torch accumulates. f16 and bf16
// give f32, and so does fp8.
func (l *Lowering) dot(x, y value, d stablehlo.DotDims) value {
	d.Precision, d.Result = l.Precision, x.DType().Accumulate()
	if d.Result.IsF8() {
		d.Result = dtype.F32
	}
	return l.B.DotGeneral(x, y, d)
}

// product multiplies the last dimension of x with the last but one of y (the only one of a vector);
// the dimensions before the last two are batches. It has the type of dot.
func (l *Lowering) product(x, y value) value {
	n, m := int64(x.Rank()), int64(y.Rank())
	var batch []int64
	for i := int64(0); i < n-2 && i < m-2; i++ {
		batch = append(batch, i)
	}
	return l.dot(x, y, stablehlo.DotDims{LhsBatch: batch, RhsBatch: batch,
		LhsContract: []int64{n - 1}, RhsContract: []int64{max(m-2, 0)}})
}

// transposeOp is the step of a view that permutes dimensions.
var transposeOp ir.Op

func init() { transposeOp, _ = Lookup("xla::transpose") }

// productOf is the product of Tensor arguments x and y. It computes a single row by a transposed matrix as the matrix
// by a vector. For the other order XLA:CPU copies the whole matrix at every call.
func (l *Lowering) productOf(x, y int) value {
	s, n := l.Shape(x), l.Graph.At(l.ID(y))
	if s.Rank() != 2 || s.Dims[0] != 1 || n.Op != transposeOp || n.Shape.Rank() != 2 {
		return l.product(l.In(x), l.In(y))
	}
	weight := l.Src.Value(l.Graph.In(l.ID(y))[0])
	if weight == l.In(y) { // the identity permutation
		return l.product(l.In(x), l.In(y))
	}
	return l.B.Reshape(l.product(weight, l.B.Reshape(l.In(x), s.Dims[1:])), []int64{1, weight.Dim(0)})
}

func lowerProduct(l *Lowering, x, y int) {
	a, c := l.In(x), l.In(y)
	s, n := batches(l.B, a)
	if t, m := batches(l.B, c); n > 1 && n == m && slices.Equal(s.Dims()[:n], t.Dims()[:n]) {
		a, c = s, t
	}
	p := value{}
	if a.Rank() == 2 {
		p = l.productOf(x, y)
	} else {
		p = l.product(a, c)
	}
	l.Return(l.B.Reshape(l.Convert(p, l.Out(0).DType), l.Out(0).Dims))
}

// batches is x before its first dimension was made of several, and their number; x and 1 if it was not. The
// partitioner cannot follow a sharding into the middle of a dimension: batches and heads stay apart.
func batches(b *stablehlo.Builder, x value) (value, int) {
	s := b.Unreshaped(x)
	n := s.Rank() - x.Rank() + 1
	if n > 1 && x.Rank() > 1 && slices.Equal(s.Dims()[n:], x.Dims()[1:]) {
		return s, n
	}
	return x, 1
}

func lowerAddProduct(l *Lowering, beta, alpha int) {
	l.addScaled(l.productOf(1, 2), beta, alpha)
}

// addScaled returns beta · self + alpha · p, self being argument 0.
func (l *Lowering) addScaled(p value, beta, alpha int) {
	l.Return(l.Convert(l.affine(p, beta, alpha), l.Out(0).DType))
}

// affine is beta · self + alpha · p in p's type. A beta of zero leaves self out, NaN and all, as BLAS
// does.
func (l *Lowering) affine(p value, beta, alpha int) value {
	b := l.B
	if !l.literal(alpha, 1) {
		p = mul(b, l.Like(alpha, p), p)
	}
	if l.literal(beta, 0) {
		return p
	}
	self := l.Full(0, p.DType(), p.Dims())
	if !l.literal(beta, 1) {
		self = mul(b, l.Like(beta, self), self)
	}
	return add(b, self, p)
}

// literal reports that Scalar argument i is the number x and part of the program.
func (l *Lowering) literal(i int, x float64) bool {
	n, ok := l.Number(i)
	return ok && l.Graph.At(l.ID(i)).Flags&ir.Param == 0 && n.Float() == x && n.Im == 0
}

func lowerAddR(l *Lowering) {
	o := l.Out(0)
	d := o.DType.Accumulate()
	v1 := l.B.BroadcastInDim(l.As(1, d), o.Dims, []int64{0})
	v2 := l.B.BroadcastInDim(l.As(2, d), o.Dims, []int64{1})
	l.addScaled(mul(l.B, v1, v2), 3, 4)
}

// lowerAddMMActivation is relu, or the exact gelu, of addmm.
func lowerAddMMActivation(l *Lowering) {
	b := l.B
	x := l.affine(l.productOf(1, 2), 3, 4)
	if l.Bool(5) {
		half := b.Multiply(x, b.ConstLike(x, 0.5))
		x = b.Multiply(half, b.Add(b.ConstLike(x, 1), b.Erf(b.Multiply(x, b.ConstLike(x, math.Sqrt2/2)))))
	} else {
		x = b.Maximum(x, b.ConstLike(x, 0))
	}
	l.Return(l.Convert(x, l.Out(0).DType))
}

func inferMM(c *Ctx, x, y int, d dtype.DType) error {
	a, b := c.In(x), c.In(y)
	if err := checkMatrices(c.Row.Name, a, b); err != nil {
		return err
	}
	if a.DType != b.DType {
		return errs.New(errs.Runtime, "expected m1 and m2 to have the same dtype, but got: %s != %s", cppName(a.DType), cppName(b.DType))
	}
	if a.DType == dtype.Bool || a.DType == dtype.F8E8M0FNU {
		return notFor("addmm_impl_cpu_", a.DType)
	}
	return c.Return(d, a.Dims[0], b.Dims[1])
}

// checkMatrices checks the shapes of a product of two matrices.
func checkMatrices(name string, a, b *shape.Shape) error {
	switch {
	case a.Rank() != 2:
		return errs.New(errs.Runtime, "%s: self must be a matrix, got %d-D tensor", name, a.Rank())
	case b.Rank() != 2:
		return errs.New(errs.Runtime, "%s: mat2 must be a matrix, got %d-D tensor", name, b.Rank())
	case a.Dims[1] != b.Dims[0]:
		return errs.New(errs.Runtime, "%s: mat1 and mat2 shapes cannot be multiplied (%dx%d and %dx%d)", name, a.Dims[0], a.Dims[1], b.Dims[0], b.Dims[1])
	}
	return nil
}

// cppName is the C++ type in which torch's matrix product names a dtype.
func cppName(d dtype.DType) string {
	switch d {
	case dtype.U8:
		return "unsigned char"
	case dtype.I8:
		return "signed char"
	case dtype.I16:
		return "short"
	case dtype.I32:
		return "int"
	case dtype.I64:
		return "long"
	case dtype.F16:
		return "c10::Half"
	case dtype.BF16:
		return "c10::BFloat16"
	case dtype.F32:
		return "float"
	case dtype.F64:
		return "double"
	case dtype.C64:
		return "c10::complex<float>"
	case dtype.C128:
		return "c10::complex<double>"
	}
	return d.Torch()
}

// checkExpand is the error of self.expand(dims) for the addend of a product.
func checkExpand(self *shape.Shape, dims ...int64) error {
	if len(self.Dims) > len(dims) {
		return errs.New(errs.Runtime, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
			self.DType.C10(), dimsText(self.Dims), dimsText(dims), len(dims), len(self.Dims))
	}
	for i := len(self.Dims) - 1; i >= 0; i-- {
		k := i + len(dims) - len(self.Dims)
		if n := self.Dims[i]; n != dims[k] && n != 1 {
			return errs.New(errs.Runtime, "The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
				dims[k], n, k, dimsText(dims), dimsText(self.Dims))
		}
	}
	return nil
}

func inferAddMM(c *Ctx, d dtype.DType) error {
	self, a, b := c.In(0), c.In(1), c.In(2)
	if err := checkMatrices(c.Row.Name, a, b); err != nil {
		return err
	}
	if err := checkExpand(self, a.Dims[0], b.Dims[1]); err != nil {
		return err
	}
	return returnSum(c, d, a.Dims[0], b.Dims[1])
}

// returnSum checks the types of an addend and two matrices, and returns the sum.
func returnSum(c *Ctx, d dtype.DType, dims ...int64) error {
	self, a, b := c.In(0).DType, c.In(1).DType, c.In(2).DType
	switch {
	case self != b && self != d:
		return errs.New(errs.Runtime, "self and mat2 must have the same dtype, but got %s and %s", self.C10(), b.C10())
	case a != b:
		return errs.New(errs.Runtime, "expected m1 and m2 to have the same dtype, but got: %s != %s", cppName(a), cppName(b))
	case a == dtype.Bool || a == dtype.F8E8M0FNU:
		return notFor("addmm_impl_cpu_", a)
	}
	return c.Return(d, dims...)
}

// checkBatches checks the shapes of a product of two batches of matrices.
func checkBatches(a, b *shape.Shape) error {
	switch {
	case a.Rank() != 3:
		return errs.New(errs.Runtime, "batch1 must be a 3D tensor")
	case b.Rank() != 3:
		return errs.New(errs.Runtime, "batch2 must be a 3D tensor")
	case a.Dims[0] != b.Dims[0] || a.Dims[2] != b.Dims[1]:
		return errs.New(errs.Runtime, "Expected size for first two dimensions of batch2 tensor to be: [%d, %d] but got: [%d, %d].", a.Dims[0], a.Dims[2], b.Dims[0], b.Dims[1])
	case a.DType != b.DType:
		return errs.New(errs.Runtime, "expected scalar type %s but found %s", a.DType.C10(), b.DType.C10())
	}
	return nil
}

func inferBMM(c *Ctx, x, y int, d dtype.DType) error {
	a, b := c.In(x), c.In(y)
	if err := checkBatches(a, b); err != nil {
		return err
	}
	if a.DType == dtype.Bool {
		return notFor("bmm", a.DType)
	}
	return c.Return(d, a.Dims[0], a.Dims[1], b.Dims[2])
}

func inferBAddBMM(c *Ctx, d dtype.DType) error {
	self, a, b := c.In(0), c.In(1), c.In(2)
	if err := checkBatches(a, b); err != nil {
		return err
	}
	if err := checkExpand(self, a.Dims[0], a.Dims[1], b.Dims[2]); err != nil {
		return err
	}
	if self.DType != a.DType && self.DType != d {
		return errs.New(errs.Runtime, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s", cppName(self.DType), cppName(a.DType), cppName(b.DType))
	}
	if a.DType == dtype.Bool {
		return notFor("baddbmm", a.DType)
	}
	return c.Return(d, a.Dims[0], a.Dims[1], b.Dims[2])
}

func inferAddBMM(c *Ctx) error {
	self, a, b := c.In(0), c.In(1), c.In(2)
	switch {
	case a.Rank() != 3:
		return errs.New(errs.Runtime, "batch1 must be a 3D tensor")
	case b.Rank() != 3:
		return errs.New(errs.Runtime, "batch2 must be a 3D tensor")
	case a.Dims[0] != b.Dims[0]:
		return errs.New(errs.Runtime, "batch1 and batch2 must have same number of batches, got %d and %d", a.Dims[0], b.Dims[0])
	case a.Dims[2] != b.Dims[1]:
		return errs.New(errs.Runtime, "Incompatible matrix sizes for bmm (%dx%d and %dx%d)", a.Dims[1], a.Dims[2], b.Dims[1], b.Dims[2])
	}
	if err := checkExpand(self, a.Dims[1], b.Dims[2]); err != nil {
		return err
	}
	return returnSum(c, a.DType, a.Dims[1], b.Dims[2])
}

// inferMV is the rule of mv and addmv; self is nil for mv.
func inferMV(c *Ctx, self, mat, vec *shape.Shape) error {
	selfRank, selfSize := 1, int64(0)
	if mat.Rank() > 0 {
		selfSize = mat.Dims[0]
	}
	if self != nil {
		selfRank = self.Rank()
		selfSize = self.Numel()
	}
	switch {
	case mat.Rank() != 2 || vec.Rank() != 1 || selfRank > 1:
		return errs.New(errs.Runtime, "vector + matrix @ vector expected, got %d, %d, %d", selfRank, mat.Rank(), vec.Rank())
	case mat.Dims[1] != vec.Dims[0] || selfSize != mat.Dims[0] && selfSize != 1:
		return errs.New(errs.Runtime, "size mismatch, got input (%d), mat (%dx%d), vec (%d)", selfSize, mat.Dims[0], mat.Dims[1], vec.Dims[0])
	case mat.DType != vec.DType || self != nil && self.DType != mat.DType:
		first := vec
		if self != nil {
			first = self
		}
		return errs.New(errs.Runtime, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
			first.DType.C10(), mat.DType.C10(), vec.DType.C10())
	case mat.DType == dtype.Bool:
		return notFor("addmv_impl_cpu", mat.DType)
	}
	return c.Return(mat.DType, mat.Dims[0])
}

func inferDot(c *Ctx) error {
	a, b := c.In(0), c.In(1)
	switch {
	case a.Rank() != 1 || b.Rank() != 1:
		return errs.New(errs.Runtime, "1D tensors expected, but got %dD and %dD tensors", a.Rank(), b.Rank())
	case a.DType != b.DType:
		return errs.New(errs.Runtime, "dot : expected both vectors to have same dtype, but found %s and %s", a.DType.C10(), b.DType.C10())
	case a.Dims[0] != b.Dims[0]:
		return errs.New(errs.Runtime, "inconsistent tensor size, expected tensor [%d] and src [%d] to have the same number of elements, but got %d and %d elements respectively",
			a.Dims[0], b.Dims[0], a.Dims[0], b.Dims[0])
	case a.DType == dtype.Bool:
		return notFor("dot", a.DType)
	}
	return c.Return(a.DType)
}

func inferAddR(c *Ctx) error {
	self, a, b := c.In(0), c.In(1), c.In(2)
	for i, v := range []*shape.Shape{a, b} {
		if v.Rank() != 1 {
			return errs.New(errs.Runtime, "addr: Expected 1-D argument vec%d, but got %d-D", i+1, v.Rank())
		}
	}
	if err := checkExpand(self, a.Dims[0], b.Dims[0]); err != nil {
		return err
	}
	d, err := c.Promote(0, 1, 2)
	if err != nil {
		return err
	}
	for i, name := range []string{"beta", "alpha"} {
		n, ok := c.Number(3 + i)
		if ok && n.Type == dtype.Bool && d != dtype.Bool {
			return errs.New(errs.Runtime, "Boolean %s only supported for Boolean results.", name)
		}
		if ok && d.IsIntegral() && !n.Type.IsIntegral() {
			return errs.New(errs.Runtime, "For integral input tensors, argument %s must not be a floating point number.", name)
		}
	}
	return c.Return(d, a.Dims[0], b.Dims[0])
}
