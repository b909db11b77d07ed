package interp

import (
	"maps"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// rule writes the node that w is at; false if it cannot be run op by op with these arguments. The reasons for a rule
// are that torch's stable interface passes no Scalar, so that another op takes the number as a tensor; that the kernel
// takes values on trust, or ends the process for some; or that the row is a step of a strided view.
type rule func(w *writer) bool

// rules are the rows that are not run by direct, by name.
var rules = known()

const binary = "(Tensor self, Tensor other) -> Tensor"

// known makes them.
func known() map[string]rule {
	r := map[string]rule{
		"xla::reshape":        func(w *writer) bool { return w.view(opReshape, w.Ints(1)) },
		"xla::transpose":      func(w *writer) bool { return w.view(opTranspose, w.Ints(1)) },
		"xla::slice":          func(w *writer) bool { return w.view(opSlice, w.Ints(1), w.Ints(2), w.Ints(3)) },
		"xla::broadcast":      broadcast,
		"xla::gather":         strided,
		"xla::pad":            pad,
		"xla::update":         func(w *writer) bool { return update(w, slices.Repeat(list(1), len(w.Ints(2)))) },
		"xla::update_strided": func(w *writer) bool { return update(w, w.Ints(3)) },
		"xla::scatter":        scatterFlat,
		"xla::cast":           func(w *writer) bool { return w.call(toCopy, arg(0), w.Type(1)) },
		"xla::zeros":          func(w *writer) bool { return w.full(w.constant(ir.Number{Type: dtype.I64})) },
		"xla::dynamic_slice":  dynamicSlice,
		"xla::dynamic_update": dynamicUpdate,
		"xla::bitcast":        bitcast,

		"clone": same, "alias_copy": same, "detach_copy": same, "lift_fresh_copy": same,
		"copy": copyTo, "zeros": zeros, "ones": ones, "zero": zeros,
		"full":        func(w *writer) bool { return w.fullOf(1) },
		"fill.Scalar": func(w *writer) bool { return w.fullOf(1) }, "scalar_tensor": func(w *writer) bool { return w.fullOf(0) },
		"arange":            func(w *writer) bool { return w.iota(-1, -1) },
		"arange.start":      func(w *writer) bool { return w.iota(0, -1) },
		"arange.start_step": func(w *writer) bool { return w.iota(0, 2) },

		"add.Tensor": sum(1), "add.Scalar": sum(1), "sub.Tensor": sum(-1), "sub.Scalar": sum(-1), "rsub.Tensor": difference, "rsub.Scalar": difference,
		"addcmul": fused("_foreach_addcmul.Tensor"), "addcdiv": fused("_foreach_addcdiv.Tensor"),
		"pow.Tensor_Scalar": power, "lerp.Scalar": lerp,
		"addmm": addmm, "baddbmm": addmm,
		"clamp":              clamped(clampTensor),
		"clamp_min":          clamped("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"),
		"clamp_max":          clamped("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"),
		"hardtanh":           clamped(clampTensor),
		"threshold_backward": thresholdBackward, "leaky_relu": leakyRelu, "leaky_relu_backward": leakyReluBackward,
		"masked_fill.Scalar":    filled("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", 2),
		"index_fill.int_Scalar": filled("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", 3),
		"constant_pad_nd":       constantPad,

		"sum":  overAll("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),
		"mean": overAll("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),

		"linalg_vector_norm": vectorNorm,
		"var.correction":     variance("var.dim"), "std.correction": variance("std.dim"),
		"var_mean.correction": variance("var_mean.dim"), "std_mean.correction": variance("std_mean.dim"),

		"_scaled_dot_product_flash_attention_for_cpu": attention, "_scaled_dot_product_flash_attention_for_cpu_backward": attention,

		"convolution": inWideTypes(func(w *writer) bool { return w.Bool(6) }), "_adaptive_avg_pool3d": inWideTypes(func(*writer) bool { return true }),
		"nll_loss_backward": nllLossBackward, "nll_loss2d_backward": nllLossBackward, "convolution_backward": convolutionBackward,
		"max_pool2d_with_indices_backward": poolBackward(2), "max_pool3d_with_indices_backward": poolBackward(3),
		"native_batch_norm_backward": batchNormBackward, "nonzero_static": nonzero, "histc": histc, "index_add": indexAdd,

		"_unsafe_index.Tensor": as("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"),
		"_unsafe_index_put":    as(indexPut), "_index_put_impl": as(indexPut),
	}
	for _, name := range []string{"mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor"} {
		r[name+".Scalar"] = as(name + ".Tensor" + binary)
	}
	for name, op := range map[string]string{"copysign.Scalar": "copysign.Tensor", "xlogy.Scalar_Other": "xlogy.Tensor", "xlogy.Scalar_Self": "xlogy.Tensor",
		"special_xlog1py.other_scalar": "special_xlog1py", "special_xlog1py.self_scalar": "special_xlog1py", "pow.Scalar": "pow.Tensor_Tensor"} {
		r[name] = as(op + binary)
	}
	for _, name := range []string{"floor_divide", "remainder", "fmod"} { // division of integers may end the process
		op := name + ".Tensor"
		if name == "floor_divide" {
			op = name
		}
		r[name+".Scalar"], r[op] = division(op+binary), division(op+binary)
	}
	r["div.Tensor_mode"] = division("div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")
	r["div.Scalar_mode"] = r["div.Tensor_mode"]
	maps.Copy(r, randomRules)
	maps.Copy(r, activationRules)
	return r
}
