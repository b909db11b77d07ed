package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// kernels are the rows that torch's CPU kernels compute, by name, with the conditions under which they are the faster
// ones. They are measured; docs/performance.md has the figures. Pointwise ops are not among them: a call ends a fusion.
var kernels = map[string]*Kernel{
	"convolution":          {When: convolvesFaster},
	"convolution_backward": {When: convolvesBackFaster, Asked: func(l *Lowering) []bool { return truths(l.Ints(10)) }, Check: "convolution_gradient"},
	"max_pool2d_with_indices": {Out: "out",
		When: func(l *Lowering) bool { return poolsFaster(l.Out(0)) }},
	"max_pool2d_with_indices_backward": {Out: "grad_input", Like: map[int]int{1: 0}, Check: "pool_gradient",
		When: func(l *Lowering) bool { return poolsFaster(l.Shape(0)) }},

	// linear algebra: LAPACK's, with its pivots and signs
	"linalg_cholesky_ex":         {Out: "L", When: func(l *Lowering) bool { return l.Shape(0).Numel() >= 64*order(l.Shape(0)) }},
	"cholesky_inverse":           {Out: "out", When: ofOrder(0, 64)},
	"_cholesky_solve_helper":     {Check: "cholesky_factor", When: ofOrder(1, 64)},
	"linalg_lu_factor_ex":        {Out: "out", When: ofOrder(0, 64)},
	"linalg_lu":                  {Out: "out", When: ofOrder(0, 64)},
	"linalg_lu_solve":            {Out: "out", When: ofOrder(0, 64)},
	"_linalg_solve_ex":           {Out: "result", When: ofOrder(0, 64)},
	"linalg_inv_ex":              {Out: "inverse", When: ofOrder(0, 64)},
	"linalg_solve_triangular":    {Out: "out", When: ofOrder(0, 96)},
	"triangular_solve":           {Out: "X", When: ofOrder(1, 96)},
	"geqrf":                      {Out: "a", When: ofOrder(0, 96)},
	"linalg_qr":                  {Out: "out", When: ofOrder(0, 96)},
	"linalg_householder_product": {Out: "out", When: ofOrder(0, 96)},
	"ormqr":                      {Out: "out", When: ofOrder(0, 96)},
	"_linalg_svd":                {Out: "U", When: ofOrder(0, 24)},
	"_linalg_eigh":               {Out: "eigenvalues", When: ofOrder(0, 24)},
	"linalg_matrix_exp":          {When: ofOrder(0, 192)},
	"torch_go_xla::linalg_eig": {Out: "out",
		Op: "linalg_eig(Tensor self) -> (Tensor, Tensor)"},
	"torch_go_xla::_linalg_eigvals": {Check: "finite",
		Op: "_linalg_eigvals(Tensor self) -> Tensor"},
	"torch_go_xla::linalg_ldl_factor_ex": {Out: "out",
		Op: "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor, Tensor, Tensor)"},
	"torch_go_xla::linalg_ldl_solve": {Out: "out", Check: "ldl_pivots",
		Op: "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"},

	// order and scans
	"sort":          {Out: "values", When: many(1 << 12)},
	"sort.stable":   {Out: "values_stable", When: many(1 << 12)},
	"topk":          {Out: "values", When: many(1 << 12)},
	"kthvalue":      {Out: "values", When: many(1 << 12)},
	"median":        {When: many(1 << 12)},
	"nanmedian":     {When: many(1 << 12)},
	"median.dim":    {Out: "dim_values", When: many(1 << 12)},
	"nanmedian.dim": {Out: "dim_values", When: many(1 << 12)},
	"mode":          {Out: "values", When: many(1 << 14)},
	"cumsum":        {Out: "out", When: many(1 << 14)},
	"cumprod":       {Out: "out", When: many(1 << 14)},
	"cummax":        {Out: "out", When: many(1 << 14)},
	"cummin":        {Out: "out", When: many(1 << 14)},
	"logcumsumexp":  {Out: "out", When: many(1 << 14)},
	"_logcumsumexp": {Out: "out", When: many(1 << 14)},

	"_fft_r2c": {Out: "out", When: transformsFaster},
	"_fft_c2c": {Out: "out", When: transformsFaster},
	"_fft_c2r": {Out: "out", When: transformsFaster},

	// products of integers, which XLA's loops compute; those of floats are as fast there
	"mm":  {Out: "out", When: multipliesFaster},
	"bmm": {Out: "out", When: multipliesFaster},

	"_scaled_dot_product_flash_attention_for_cpu": {Check: "attention", Orders: attentionOrders,
		When: func(l *Lowering) bool { return scores(l, 0) >= minScores }},
	"_scaled_dot_product_flash_attention_for_cpu_backward": {Check: "attention_gradient", Orders: attentionBackOrders,
		When: func(l *Lowering) bool { return scores(l, 1) >= minScores }},

	"grid_sampler_2d": {When: func(l *Lowering) bool { return l.Out(0).Numel() >= 1<<17 }},
}

// Work below which a call costs more than the kernel saves.
const (
	minConvWork = 1 << 20 // multiplications of a convolution
	minPoolWork = 1 << 14 // elements of a pooling's result

	minProductWork = 1 << 21 // multiplications of a product of integers

	minScores = 1 << 15 // scores of an attention
)

// withKernels gives the rows their kernels.
func withKernels(rows []Row) []Row {
	known := 0
	for i := range rows {
		if rows[i].Torch = kernels[rows[i].Name]; rows[i].Torch != nil {
			known++
		}
	}
	if known != len(kernels) {
		panic("ops: a kernel of a row that there is not")
	}
	return rows
}

// many tells whether argument 0 has at least n elements.
func many(n int64) func(*Lowering) bool {
	return func(l *Lowering) bool { return l.Shape(0).Numel() >= n }
}

// ofOrder tells whether the matrices of argument i have at least n rows or columns.
func ofOrder(i int, n int64) func(*Lowering) bool {
	return func(l *Lowering) bool { return order(l.Shape(i)) >= n }
}

// order is the larger side of the matrices of a batch.
func order(s *shape.Shape) int64 { return max(sides(s)) }

// convolved are the types for which torch has fast kernels of convolutions.
func convolved(d dtype.DType) bool {
	return d == dtype.F32 || d == dtype.BF16 || d == dtype.F16 || d == dtype.F64
}

func transformsFaster(l *Lowering) bool { return l.Shape(0).Numel() >= 1<<15 && len(l.Ints(1)) > 0 }

func convolvesFaster(l *Lowering) bool {
	x, k, o := l.Shape(0), l.Shape(1), l.Out(0)
	if l.Bool(6) {
		o = x
	}
	return convolved(x.DType) && k.Rank() <= 5 && convWork(o, k) >= minConvWork
}

func convolvesBackFaster(l *Lowering) bool {
	grad, x, k, mask := l.Shape(0), l.Shape(1), l.Shape(2), l.Ints(10)
	return convolved(x.DType) && k.Rank() <= 5 && convWork(grad, k) >= minConvWork && mask[0]+mask[1] > 0
}

// convWork is the number of multiplications if each element of o is made with all of the kernels' elements of one output.
func convWork(o, k *shape.Shape) int64 { return o.Numel() * k.Numel() / max(k.Dims[0], 1) }

// poolsFaster tells it of a max pooling with a result of shape o.
func poolsFaster(o *shape.Shape) bool { return convolved(o.DType) && o.Numel() >= minPoolWork }

// truths are the numbers of a mask.
func truths(mask []int64) []bool {
	t := make([]bool, len(mask))
	for i, m := range mask {
		t[i] = m != 0
	}
	return t
}

func multipliesFaster(l *Lowering) bool {
	x, y := l.Shape(0), l.Shape(1)
	return x.DType.IsInt() && x.DType != dtype.I32 && x.Numel()*y.Dims[y.Rank()-1] >= minProductWork
}
