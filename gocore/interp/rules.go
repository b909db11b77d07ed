package interp

import (
	"maps"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// rule writes the node that w is at; false if it cannot be run op by op with these arguments. The reasons for a rule are
// that torch's stable interface passes no Scalar, so that another op takes the number as a tensor; that the kernel takes
// values on trust, or ends the process for some; or that the row is a step of a strided view.
type rule func(w *writer) bool

// rules are the rows that are not run by direct, by name; nil: the row is compiled.
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
		r[name+".Tensor"], r[name+".Scalar"], r[op] = division(op+binary), division(op+binary), division(op+binary)
	}
	r["div.Tensor_mode"] = division("div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")
	r["div.Scalar_mode"] = r["div.Tensor_mode"]
	maps.Copy(r, randomRules)
	maps.Copy(r, activationRules)
	for _, name := range untrusted {
		r[name] = nil
	}
	return r
}

// untrusted are rows whose kernels take indices, lengths or pivots on trust, or write memory that they were not given.
var untrusted = []string{"multi_margin_loss_backward",
	"multilabel_margin_loss_backward",
	"adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward", "max_unpool2d", "max_unpool3d", "_embedding_bag",
	"_embedding_bag_forward_only", "_embedding_bag_backward", "_embedding_bag_dense_backward", "_embedding_bag_per_sample_weights_backward",
	"embedding_renorm", "lu_unpack", "linalg_lu_solve", "ormqr", "linalg_householder_product", "masked_scatter_backward", "value_selecting_reduction_backward",
	"convolution_overrideable", "convolution_backward_overrideable", "hash_tensor", "histogram.bin_ct", "histogram.bins_tensor",
	"remainder.Scalar_Tensor", "gcd", "lcm", "put", "_grouped_mm", "_scaled_mm", "_int_mm", "linalg_polar", "linalg_matrix_sqrth",
	"batch_norm_backward", "_batch_norm_with_update_functional", "_batch_norm_no_update"}

const clampTensor = "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"

const toCopy = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"

// view writes an instruction on argument 0 with lists of one length.
func (w *writer) view(op opcode, lists ...[]int64) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	src, dst := w.valueOf(w.ID(0)), w.result(0)
	w.emit(op, append([][]int64{list(dst, src, int64(len(lists[0])))}, lists...)...)
	return true
}

func broadcast(w *writer) bool {
	src, dims, mapping := w.operand(w.ID(0)), w.Ints(1), w.Ints(2)
	w.emit(opBroadcast, list(w.result(0), src, int64(len(dims))), dims, list(int64(len(mapping))), mapping)
	return true
}

func strided(w *writer) bool {
	src, size := w.operand(w.ID(0)), w.Ints(1)
	w.emit(opStrided, list(w.result(0), src, int64(len(size))), size, w.Ints(2), list(w.Int(3)))
	return true
}

func pad(w *writer) bool {
	src, out := w.operand(w.ID(0)), w.out(0)
	w.emit(opPad, list(w.result(0), src), typed(out), w.Ints(1))
	return true
}

func update(w *writer, steps []int64) bool {
	base, block, starts := w.operand(w.ID(0)), w.operand(w.ID(1)), w.Ints(2)
	limits := slices.Clone(starts)
	for d, n := range w.g.Shape(w.ID(1)).Dims { // the compiler moves a block that does not fit; torch's memory ends there
		if n > 0 {
			limits[d] += (n-1)*steps[d] + 1
		}
		if starts[d] < 0 || limits[d] > w.out(0).Dims[d] {
			return false
		}
	}
	w.emit(opUpdate, list(w.result(0), base, block, int64(len(starts))), starts, steps)
	return true
}

func scatterFlat(w *writer) bool {
	base, v, size := w.operand(w.ID(0)), w.operand(w.ID(1)), w.Ints(2)
	w.emit(opScatter, list(w.result(0), base, v, int64(len(size))), size, w.Ints(3), list(w.Int(4)))
	return true
}

// starts are the numbers of a list of them.
func (w *writer) starts(i int) (refs []int64) {
	for _, id := range w.IDs(i) {
		refs = append(refs, w.numberRef(id))
	}
	return refs
}

func dynamicSlice(w *writer) bool {
	src, sizes := w.operand(w.ID(0)), w.Ints(2)
	w.emit(opDynamicSlice, list(w.result(0), src, int64(len(sizes))), sizes, w.starts(1))
	return true
}

func dynamicUpdate(w *writer) bool {
	base, block, starts := w.operand(w.ID(0)), w.operand(w.ID(1)), w.starts(2)
	w.emit(opDynamicUpdate, list(w.result(0), base, block, int64(len(starts))), starts)
	return true
}

// same is a result that is its argument: nothing is written in place.
func same(w *writer) bool {
	src := w.operand(w.ID(0))
	w.emit(opSame, list(w.result(0), src))
	return true
}

// copyTo is the value of argument 1, in the shape and type of the result.
func copyTo(w *writer) bool {
	if w.isNumber(w.ID(1)) {
		return w.fullOf(1)
	}
	src, out := w.as(w.ID(1), w.out(0).DType), w.out(0)
	from := w.g.Shape(w.ID(1))
	if from.Rank() > out.Rank() {
		return false
	}
	var mapping []int64
	for d := range from.Rank() {
		mapping = append(mapping, int64(out.Rank()-from.Rank()+d))
	}
	w.emit(opBroadcast, list(w.result(0), int64(src), int64(out.Rank())), out.Dims, list(int64(from.Rank())), mapping)
	return true
}

// full is an array of one number.
func (w *writer) full(ref int64) bool {
	w.emit(opFull, list(w.result(0), ref), typed(w.out(0)))
	return true
}

// fullOf is an array of the number that is an argument.
func (w *writer) fullOf(i int) bool { return w.isNumber(w.ID(i)) && w.full(w.numberRef(w.ID(i))) }

func zeros(w *writer) bool { return w.full(w.constant(ir.Number{Type: dtype.I64})) }

func ones(w *writer) bool { return w.full(w.constant(ir.Number{Type: dtype.I64, I: 1})) }

// iota is start, start + step, …; −1 for an argument that is 0 or 1.
func (w *writer) iota(start, step int) bool {
	from, by := w.constantOr(start, 0), w.constantOr(step, 1)
	d := w.out(0).DType
	if d.IsComplex() || d == dtype.Bool {
		return false
	}
	w.emit(opIota, list(w.result(0), from, by, code(d), w.out(0).Dims[0]))
	return true
}

func (w *writer) constantOr(i int, none int64) int64 {
	if i >= 0 && w.isNumber(w.ID(i)) {
		return w.numberRef(w.ID(i))
	}
	return w.constant(ir.Number{Type: dtype.I64, I: none})
}

// clamped is a clamp, to which a number outside the range of a narrow integer type counts as the end of that range.
func clamped(signature string) rule {
	return func(w *writer) bool {
		d := w.out(0).DType
		if !d.IsInt() || d.Size() == 8 {
			return w.callAs(signature)
		}
		bottom, top := d.Range()
		end := func(n int64) value {
			return value(w.numberTensor(w.constant(ir.Number{Type: dtype.I64, I: n}), dtype.I64))
		}
		args, ok := []any{arg(0)}, true
		for i := 1; i < arguments(signature); i++ {
			if !w.isNumber(w.ID(i)) {
				args = append(args, arg(i))
				continue
			}
			bound, known := w.callFor(clampTensor, shape.Of(dtype.I64, nil), value(w.number(w.ID(i), dtype.I64)), end(bottom), end(top))
			narrow, fits := w.callFor(toCopy, shape.Of(d, nil), bound, d)
			args, ok = append(args, narrow), ok && known && fits
		}
		return ok && w.call(signature, args...)
	}
}

// overAll is a reduction to a number: torch's kernel of it is the one over dimensions, which can write into given memory.
func overAll(signature string) rule {
	return func(w *writer) bool { return w.call(signature, arg(0), nil, false, arg(1)) }
}

// sum is self + sign · alpha · other.
func sum(sign int64) rule {
	return func(w *writer) bool { return w.add(w.ID(0), w.ID(1), sign) }
}

// difference is other − alpha · self.
func difference(w *writer) bool { return w.add(w.ID(1), w.ID(0), -1) }

// add is a + sign · argument 2 · b. Torch's function for it takes floats; integers are added with a product by 1.
func (w *writer) add(a, b ir.ID, sign int64) bool {
	alpha := w.constantOr(2, 1)
	if n, ok := w.g.Number(w.ID(2)); ok && n.Type.IsComplex() {
		return false
	}
	d := w.out(0).DType
	if d.IsFloat() || d.IsComplex() {
		x, y := w.operand(a), w.operand(b)
		w.emit(opAdd, list(w.result(0), x, y, alpha, sign))
		return true
	}
	if d == dtype.Bool || alpha < int64(len(w.plan.Scalars)) && sign < 0 {
		return false
	}
	x, y := w.as(a, d), w.as(b, d)
	scale := w.temp(shape.Of(dtype.I64, []int64{1}))
	n, _ := w.g.Number(w.ID(2))
	if w.ID(2) == ir.None {
		n.I = 1
	}
	if alpha >= int64(len(w.plan.Scalars)) {
		alpha = w.constant(ir.Number{Type: dtype.I64, I: sign * n.Int()})
	}
	w.emit(opNumber, list(scale, alpha, code(dtype.I64), 1))
	return w.call("_foreach_addcmul.Tensor"+eachSchema, values{x}, values{y}, values{value(w.whole(1, d))}, value(scale))
}

// as is a value in another type.
func (w *writer) as(id ir.ID, d dtype.DType) value {
	if w.isNumber(id) {
		return value(w.number(id, d))
	}
	s := w.g.Shape(id)
	if s.DType == d {
		return value(w.valueOf(id))
	}
	v, _ := w.callFor(toCopy, shape.Of(d, s.Dims), value(w.valueOf(id)), d)
	return v
}

const eachSchema = "(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]"

// fused is an op on three tensors and a number, of which torch has a form for lists that takes the number as a tensor.
func fused(op string) rule {
	return func(w *writer) bool {
		d := w.out(0).DType
		if d == dtype.Bool || d.IsComplex() {
			return false
		}
		number := dtype.F64
		if d.IsInt() {
			number = dtype.I64
		}
		scale, alpha := w.temp(shape.Of(number, []int64{1})), w.constantOr(3, 1)
		w.emit(opNumber, list(scale, alpha, code(number), 1))
		x, y, z := w.as(w.ID(0), d), w.as(w.ID(1), d), w.as(w.ID(2), d)
		return w.call(op+eachSchema, values{x}, values{y}, values{z}, value(scale))
	}
}

func power(w *writer) bool {
	n, ok := w.g.Number(w.ID(1))
	if !ok || n.Type.IsComplex() || w.isNumber(w.ID(0)) {
		return false
	}
	if d := w.g.Shape(w.ID(0)).DType; d.IsFloat() || d.IsComplex() {
		src, ref := w.valueOf(w.ID(0)), w.numberRef(w.ID(1))
		w.emit(opPower, list(w.result(0), src, ref))
		return true
	}
	return w.call("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", arg(0), arg(1))
}

func lerp(w *writer) bool {
	if !w.out(0).DType.IsFloat() || !w.isNumber(w.ID(2)) {
		return false
	}
	return w.call("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", arg(0), arg(1), value(w.number(w.ID(2), w.out(0).DType)))
}

// addmm is addmm and baddbmm.
func addmm(w *writer) bool {
	if !w.out(0).DType.IsFloat() || slices.ContainsFunc([]ir.ID{w.ID(0), w.ID(1), w.ID(2)}, w.isNumber) {
		return false
	}
	self, a, b := w.valueOf(w.ID(0)), w.valueOf(w.ID(1)), w.valueOf(w.ID(2))
	beta, alpha := w.constantOr(3, 1), w.constantOr(4, 1)
	w.emit(opAddmm, list(w.result(0), self, a, b, beta, alpha), typed(w.out(0)))
	return true
}

// filled gives a number in the result's type where the op takes a tensor.
func filled(op string, number int) rule {
	return func(w *writer) bool {
		if !w.isNumber(w.ID(number)) {
			return false
		}
		args := make([]any, number+1)
		for i := range number {
			args[i] = arg(i)
		}
		args[number] = value(w.number(w.ID(number), w.out(0).DType))
		return w.call(op, args...)
	}
}

const (
	comparison = "(Tensor self, Tensor other) -> Tensor"
	where      = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"
)

// mask compares a value of the node with a number.
func (w *writer) mask(op string, i, number int) (value, bool) {
	s := w.g.Shape(w.ID(i))
	v := w.number(w.ID(number), s.DType)
	return w.callFor(op+comparison, shape.Of(dtype.Bool, s.Dims), arg(i), value(v))
}

func thresholdBackward(w *writer) bool {
	if !w.isNumber(w.ID(2)) || w.isNumber(w.ID(1)) {
		return false
	}
	small, ok := w.mask("le.Tensor", 1, 2)
	return ok && w.call("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", arg(0), small, value(w.whole(0, w.out(0).DType)))
}

// scaled is a value times a number that is an argument of the node.
func (w *writer) scaled(i, number int) (value, bool) {
	return w.callFor("mul.Tensor"+binary, w.g.Shape(w.ID(i)), arg(i), value(w.number(w.ID(number), w.g.Shape(w.ID(i)).DType)))
}

// positive is where a value is above 0.
func (w *writer) positive(i int) (value, bool) {
	s := w.g.Shape(w.ID(i))
	return w.callFor("gt.Tensor"+comparison, shape.Of(dtype.Bool, s.Dims), arg(i), value(w.whole(0, s.DType)))
}

func leakyRelu(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	above, ok := w.positive(0)
	low, fine := w.scaled(0, 1)
	return ok && fine && w.call(where, above, arg(0), low)
}

func leakyReluBackward(w *writer) bool {
	if w.isNumber(w.ID(0)) || w.isNumber(w.ID(1)) || w.g.Shape(w.ID(0)) != w.out(0) {
		return false
	}
	above, ok := w.positive(1)
	low, fine := w.scaled(0, 2)
	return ok && fine && w.call(where, above, arg(0), low)
}

func constantPad(w *writer) bool {
	const op = "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor"
	if w.out(0).DType.IsComplex() {
		return false
	}
	return w.call(op, arg(0), arg(1), "constant", arg(2))
}

// vectorNorm is the Euclidean norm; of others torch's op takes the order as a Scalar.
func vectorNorm(w *writer) bool {
	n, ok := w.g.Number(w.ID(1))
	dims := w.Ints(2)
	if ok && n.Float() != 2 || w.isNumber(w.ID(0)) {
		return false
	}
	for d := range w.g.Shape(w.ID(0)).Rank() {
		if len(w.Ints(2)) == 0 {
			dims = append(dims, int64(d))
		}
	}
	return w.call("linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
		arg(0), nil, dims, arg(3), arg(4))
}

// variance is the forms of the variance with a correction of 0 or 1.
func variance(op string) rule {
	returns := ") -> Tensor"
	if op == "var_mean.dim" || op == "std_mean.dim" {
		returns = ") -> (Tensor, Tensor)"
	}
	return func(w *writer) bool {
		n, ok := w.g.Number(w.ID(2))
		if !ok {
			n.F, n.Type = 1, dtype.F64
		}
		if f := n.Float(); f != 0 && f != 1 || w.isParam(w.ID(2)) {
			return false
		}
		return w.call(op+"(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False"+returns, arg(0), arg(1), n.Float() == 1, arg(3))
	}
}

// isParam tells of a number that it may be another one when the program runs again.
func (w *writer) isParam(id ir.ID) bool { return id != ir.None && w.g.At(id).Flags&ir.Param != 0 }

// attention is torch's, forward or backward. The row's shape rule has compared the operands, but for empty ones.
func attention(w *writer) bool {
	for _, in := range w.g.In(w.node) {
		if in != ir.None && w.g.Shape(in).Numel() == 0 {
			return false
		}
	}
	row := ops.Of(w.g.At(w.node).Op)
	return w.callAs(row.Name + row.Schema)
}

// indexPut looks at the indices, as the ops that need not do.
const indexPut = "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"

// inRange fails when the program runs, unless the integers of an argument are below a limit, or the ignored one.
func (w *writer) inRange(i int, limit, ignored int64) bool {
	if w.isNumber(w.ID(i)) {
		return false
	}
	w.emit(opRange, list(w.valueOf(w.ID(i)), limit, ignored))
	return true
}

// nllLossBackward looks at the targets first, which torch's kernel takes on trust. The classes are dimension 1, or the only one.
func nllLossBackward(w *writer) bool {
	self := w.g.Shape(w.ID(1))
	if self.Rank() == 0 || w.Kind(5) == wire.KInt {
		return false
	}
	return w.inRange(2, self.Dims[min(self.Rank()-1, 1)], w.Int(5)) && direct(w)
}

// poolBackward looks at the indices first, which torch's kernel takes on trust. The row's shape rule has compared the shapes.
func poolBackward(spatial int) rule {
	return func(w *writer) bool {
		plane := int64(1)
		for _, n := range w.out(0).Dims[w.out(0).Rank()-spatial:] {
			plane *= n
		}
		row := ops.Of(w.g.At(w.node).Op)
		return w.inRange(7, plane, 0) && w.callAs(row.Name+row.Schema)
	}
}

// nonzero is the indices of the elements that are not zero, as many as the graph's result holds.
func nonzero(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	w.emit(opNonzero, list(w.result(0), w.valueOf(w.ID(0)), w.out(0).Dims[0], w.IntOr(2, -1), w.out(0).Dims[1]))
	return true
}

// batchNormBackward compares the statistics with the channels, which torch's kernel takes on trust.
func batchNormBackward(w *writer) bool {
	grad, in := w.g.Shape(w.ID(0)), w.g.Shape(w.ID(1))
	if grad != in || in.Rank() < 2 || in.Numel() == 0 {
		return false
	}
	perChannel := func(i int) bool {
		return w.ID(i) != ir.None && !w.isNumber(w.ID(i)) && w.g.Shape(w.ID(i)).Rank() == 1 && w.g.Shape(w.ID(i)).Dims[0] == in.Dims[1]
	}
	statistics := 3
	if w.Bool(7) {
		statistics = 5
	}
	return perChannel(statistics) && perChannel(statistics+1) && (w.ID(2) == ir.None || perChannel(2)) && direct(w)
}

// inWideTypes is a row whose kernel in some form rounds each sum of halves to halves; that form is compiled.
func inWideTypes(rounds func(*writer) bool) rule {
	return func(w *writer) bool {
		if d := w.out(0).DType; (d == dtype.F16 || d == dtype.BF16) && rounds(w) {
			return false
		}
		return direct(w)
	}
}

// convolutionBackward looks at the size of the gradient first, which torch's kernel takes on trust.
func convolutionBackward(w *writer) bool {
	grad, in, kernel := w.g.Shape(w.ID(0)), w.g.Shape(w.ID(1)), w.g.Shape(w.ID(2))
	stride, padding, dilation, more, groups := w.Ints(4), w.Ints(5), w.Ints(6), w.Ints(8), w.Int(9)
	spatial := in.Rank() - 2
	if spatial < 1 || grad.Rank() != in.Rank() || kernel.Rank() != in.Rank() || len(stride) != spatial || len(padding) != spatial ||
		len(dilation) != spatial || len(more) != spatial || groups < 1 || grad.Dims[0] != in.Dims[0] {
		return false
	}
	channels, inner := kernel.Dims[0], kernel.Dims[1]*groups
	if w.Bool(7) {
		channels, inner = inner, channels
	}
	if grad.Dims[1] != channels || in.Dims[1] != inner {
		return false
	}
	for d := range spatial {
		reach := dilation[d] * (kernel.Dims[d+2] - 1)
		if stride[d] < 1 {
			return false
		}
		size := (in.Dims[d+2]+2*padding[d]-reach-1)/stride[d] + 1
		if w.Bool(7) {
			size = (in.Dims[d+2]-1)*stride[d] - 2*padding[d] + reach + more[d] + 1
		}
		if grad.Dims[d+2] != size {
			return false
		}
	}
	return w.callAs("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
}

// division is an op that on integers may divide by 0, or the least of them by −1, which ends the process: with a number
// only. A number that is an argument of the program is never 0 or −1 (see ir.AddNumber).
func division(op string) rule {
	return func(w *writer) bool {
		if d := w.out(0).DType; d.IsFloat() {
			return w.callAs(op)
		}
		n, ok := w.g.Number(w.ID(1))
		if !ok || !n.Type.IsInt() || n.Int() == 0 || n.Int() == -1 {
			return false
		}
		return w.callAs(op)
	}
}

// bitcast looks at the elements' bytes as another type. Torch's op scales the last dimension.
func bitcast(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	s, out := w.g.Shape(w.ID(0)), w.out(0)
	line := shape.Of(s.DType, []int64{s.Numel()})
	flat := w.temp(line)
	w.emit(opReshape, list(flat, w.valueOf(w.ID(0)), 1, s.Numel()))
	whole, ok := w.callFor("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", line, value(flat))
	other := shape.Of(out.DType, []int64{out.Numel()})
	seen := w.temp(other)
	w.memory.share(seen, int64(whole), dense(other.Dims))
	fine := w.callTo("view.dtype(Tensor self, ScalarType dtype) -> Tensor", []int64{seen}, []*shape.Shape{other}, []any{whole, out.DType})
	w.emit(opReshape, list(w.result(0), seen, int64(out.Rank())), out.Dims)
	return ok && fine
}

// histc counts integers in bins, which torch's kernel does not. Floats are compiled: the kernel for bins of equal width
// rounds differently at their edges.
func histc(w *writer) bool {
	d := w.out(0).DType
	lo, ok := w.g.Number(w.ID(2))
	hi, fine := w.g.Number(w.ID(3))
	if !d.IsInt() || !ok || !fine || lo.Float() >= hi.Float() || w.isNumber(w.ID(0)) {
		return false
	}
	bins := w.Int(1)
	counts := shape.Of(dtype.F64, []int64{bins})
	made := w.temp(counts)
	const op = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor, Tensor)"
	return w.callTo(op, []int64{made, -1}, []*shape.Shape{counts, shape.Of(dtype.F64, []int64{bins + 1})},
		[]any{w.as(w.ID(0), dtype.F64), bins, []float64{lo.Float(), hi.Float()}}) && w.give(value(made), counts)
}

// indexAdd adds rows by the op for indices of dimensions, which takes no factor.
func indexAdd(w *writer) bool {
	self, source := w.g.Shape(w.ID(0)), w.ID(3)
	if d := self.DType; d == dtype.Bool || self.Rank() == 0 || w.g.Shape(source).Rank() != self.Rank() || w.g.Shape(w.ID(2)).Rank() != 1 {
		return false
	}
	dim := w.Int(1)
	if dim < 0 {
		dim += int64(self.Rank())
	}
	if w.g.Shape(w.ID(2)).DType != dtype.I64 || !w.inRange(2, self.Dims[dim], 0) {
		return false
	}
	rows := value(w.valueOf(source))
	if n, known := w.g.Number(w.ID(4)); w.ID(4) != ir.None && (!known || w.isParam(w.ID(4)) || n.Type.IsComplex() || n.Float() != 1) {
		var ok bool
		if rows, ok = w.scaled(3, 4); !ok {
			return false
		}
	}
	indices := make(places, dim+1)
	indices[dim] = w.valueOf(w.ID(2)) + 1
	return w.call(indexPut, arg(0), indices, rows, true)
}
