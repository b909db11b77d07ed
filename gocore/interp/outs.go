package interp

import "strings"

// outs are torch's overloads that write into given memory, of the ops that have a kernel for it. Without one the
// result is copied, as torch's own overload does for sum and prod.
var outs = overloads()

func overloads() map[string]string {
	m := make(map[string]string)
	for overload, names := range map[string]string{
		"out": "abs neg floor ceil round trunc frac sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh " +
			"asinh acosh atanh sigmoid erf erfc erfinv reciprocal square sign gelu silu hardswish logit lgamma digamma mul.Tensor div.Tensor " +
			"maximum minimum atan2 hypot logaddexp logical_and logical_or logical_not mean.dim amax amin argmax argmin logsumexp " +
			"var.dim std.dim any.dim all.dim linalg_norm cumsum cumprod logcumsumexp _softmax _log_softmax cat index_select gather mm bmm " +
			"_fft_r2c avg_pool2d upsample_bilinear2d tril triu addcmul addcdiv",
		"Tensor_out":        "fmod.Tensor remainder.Tensor eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor bitwise_and.Tensor bitwise_or.Tensor clamp.Tensor lerp.Tensor index.Tensor",
		"Tensor_Tensor_out": "pow.Tensor_Tensor",
		"self_out":          "where.self",
		"IntList_out":       "sum.dim_IntList",
		"int_out":           "prod.dim_int",
		"unary_out":         "max min",
		"all_out":           "any all",
		"values":            "sort topk kthvalue mode",
		"values_stable":     "sort.stable",
	} {
		for _, name := range strings.Fields(names) {
			m[name] = overload
		}
	}
	return m
}
