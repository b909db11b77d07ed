package ops

import "strings"

// exactOut names the ops, by base or by overload, whose out= argument must have the type of the result. All
// others write to any type that the result can be cast to. Torch states it in each of its kernels:
// `python -m tests.conformance --kinds out` compares.
var exactOut = fields(`
_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd _log_softmax _native_batch_norm_legit _softmax abs
addbmm addmm addmv alias_copy amax amin aminmax argmax argmin avg_pool2d avg_pool3d baddbmm bitwise_not bmm bucketize ceil
complex cummax cummin dot expand_copy floor frac frexp gather gelu hardshrink heaviside histc histogram index_add
index_copy index_reduce index_select isin isneginf isposinf kthvalue linalg_cholesky_ex linalg_inv_ex linalg_lu
linalg_lu_factor_ex linalg_lu_solve linalg_polar linalg_qr linalg_solve_triangular linalg_vector_norm log_sigmoid_forward
logcumsumexp lu_unpack max.dim min.dim mm mode multinomial mv nan_to_num narrow_copy neg ormqr permute_copy polar renorm
round scatter scatter_add scatter_reduce searchsorted sgn sign signbit slice_scatter softplus softshrink sort
squeeze_copy t_copy take topk transpose_copy triangular_solve tril triu trunc unsqueeze_copy vdot view_copy where
`)

func fields(text string) map[string]bool {
	m := make(map[string]bool)
	for _, name := range strings.Fields(text) {
		m[name] = true
	}
	return m
}

// markOut sets ExactOut of the rows that exactOut names.
func markOut(rows []Row) []Row {
	for i := range rows {
		base, _, _ := strings.Cut(rows[i].Name, ".")
		rows[i].ExactOut = exactOut[base] || exactOut[rows[i].Name]
	}
	return rows
}
