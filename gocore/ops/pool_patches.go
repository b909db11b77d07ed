package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// patchRows rearrange an image: sliding blocks to columns and back, and channels to pixels.
var patchRows = []Row{
	{Name: "im2col", Schema: "(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
		Infer: inferIm2col, Lower: lowerIm2col},
	{Name: "col2im", Schema: "(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
		Infer: inferCol2im, Lower: lowerCol2im},
	{Name: "pixel_shuffle", Schema: "(Tensor self, int upscale_factor) -> Tensor", Strides: Format,
		Infer: inferPixelShuffle, Lower: lowerPixelShuffle},
	{Name: "pixel_unshuffle", Schema: "(Tensor self, int downscale_factor) -> Tensor", Strides: Format,
		Infer: inferPixelUnshuffle, Lower: lowerPixelUnshuffle},
	{Name: "channel_shuffle", Schema: "(Tensor self, SymInt groups) -> Tensor", Strides: Format,
		Infer: inferChannelShuffle, Lower: lowerChannelShuffle},
}

// blocks are the arguments of im2col and col2im.
type blocks struct {
	kernel, dilation, padding, stride [2]int64
}

func blockArgs(a *ir.Args, at int) (k blocks, err error) {
	names := [4]string{"kernel_size", "dilation", "padding", "stride"}
	for i, to := range [4]*[2]int64{&k.kernel, &k.dilation, &k.padding, &k.stride} {
		from := a.Ints(at + i)
		if len(from) != 2 {
			return k, errs.New(errs.Runtime, "It is expected %s equals to 2, but got size %d", names[i], len(from))
		}
		copy(to[:], from)
	}
	sizes := [3][2]int64{k.kernel, k.dilation, k.stride}
	for i, what := range [3]string{"kernel", "dilation", "stride"} {
		if h, w := sizes[i][0], sizes[i][1]; min(h, w) <= 0 {
			return k, errs.New(errs.Runtime, "%s should be greater than zero, but got %s_height: %d %s_width: %d", [3]string{"kernel size", "dilation", "stride"}[i], what, h, what, w)
		}
	}
	if min(k.padding[0], k.padding[1]) < 0 {
		return k, errs.New(errs.Runtime, "padding should be non-negative, but got pad_height: %d pad_width: %d", k.padding[0], k.padding[1])
	}
	return k, nil
}

// count is the number of blocks along dimension i of an image of size in.
func (k *blocks) count(i int, in int64) int64 {
	span := in + 2*k.padding[i] - k.dilation[i]*(k.kernel[i]-1) - 1
	if span < 0 {
		return 0
	}
	return span/k.stride[i] + 1
}

// pair prints two numbers as torch does: (2, 3).
func pair(a, b int64) string { return "(" + itoa(a) + ", " + itoa(b) + ")" }

func inferIm2col(c *Ctx) error {
	x := c.In(0)
	k, err := blockArgs(&c.Args, 1)
	if err != nil {
		return err
	}
	rank := x.Rank()
	if rank != 3 && rank != 4 || x.Dims[rank-1] == 0 || x.Dims[rank-2] == 0 || x.Dims[rank-3] == 0 {
		return errs.New(errs.Runtime, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s", dimsText(x.Dims))
	}
	h, w := x.Dims[rank-2], x.Dims[rank-1]
	oh, ow := k.count(0, h), k.count(1, w)
	if oh < 1 || ow < 1 {
		return errs.New(errs.Runtime, "Given input with spatial size %s, kernel_size=%s, dilation=%s, padding=%s, calculated shape of the array of sliding blocks as %s, but its components must be at least one.",
			pair(h, w), pair(k.kernel[0], k.kernel[1]), pair(k.dilation[0], k.dilation[1]), pair(k.padding[0], k.padding[1]), pair(oh, ow))
	}
	if d := x.DType; d.IsInt() {
		return notFor("im2col_out_cpu", d)
	}
	columns := x.Dims[rank-3] * k.kernel[0] * k.kernel[1]
	if rank == 3 {
		return c.Return(x.DType, columns, oh*ow)
	}
	return c.Return(x.DType, x.Dims[0], columns, oh*ow)
}

// lowerIm2col cuts one dimension after the other into strided slices, one for each place in the kernel.
func lowerIm2col(l *Lowering) {
	b, x, o := l.B, l.In(0), l.Out(0)
	k, _ := blockArgs(&l.Args, 1)
	n := int64(1)
	if x.Rank() == 4 {
		n = x.Dim(0)
	}
	ch, h, w := x.Dim(-3), x.Dim(-2), x.Dim(-1)
	size := [2]int64{k.count(0, h), k.count(1, w)}
	x = b.Reshape(x, []int64{n * ch, h, w})
	x = b.Pad(x, zero(b, x.DType()), []int64{0, k.padding[0], k.padding[1]}, []int64{0, k.padding[0], k.padding[1]}, make([]int64, 3))
	for i, dim := range [2]int64{1, 3} { // [n, h, w] to [n, kh, oh, w] to [n, kh, oh, kw, ow]
		var parts []value
		for j := range k.kernel[i] {
			start := j * k.dilation[i]
			part := b.SliceDim(x, dim, start, start+(size[i]-1)*k.stride[i]+1, k.stride[i])
			dims := append([]int64(nil), part.Dims()[:dim]...)
			dims = append(append(dims, 1), part.Dims()[dim:]...)
			parts = append(parts, b.Reshape(part, dims))
		}
		x = b.Concatenate(dim, parts...)
	}
	l.Return(b.Reshape(b.Transpose(x, []int64{0, 1, 3, 2, 4}), o.Dims))
}

func inferCol2im(c *Ctx) error {
	x, out := c.In(0), c.Ints(1)
	k, err := blockArgs(&c.Args, 2)
	if err != nil {
		return err
	}
	rank := x.Rank()
	switch {
	case len(out) != 2:
		return errs.New(errs.Runtime, "It is expected output_size equals to 2, but got size %d", len(out))
	case rank != 2 && rank != 3 || x.Dims[rank-1] == 0 || x.Dims[rank-2] == 0:
		return errs.New(errs.Runtime, "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: %s", dimsText(x.Dims))
	}
	area := k.kernel[0] * k.kernel[1]
	if n := x.Dims[rank-2]; n%area != 0 {
		return errs.New(errs.Runtime, "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%d and kernel_size=%s.", n, pair(k.kernel[0], k.kernel[1]))
	}
	oh, ow := k.count(0, out[0]), k.count(1, out[1])
	if n := x.Dims[rank-1]; n != oh*ow {
		return errs.New(errs.Runtime, "Given output_size=%s, kernel_size=%s, dilation=%s, padding=%s, stride=%s, expected size of input's dimension 2 to match the calculated number of sliding blocks %d * %d = %d, but got input.size(2)=%d.",
			pair(out[0], out[1]), pair(k.kernel[0], k.kernel[1]), pair(k.dilation[0], k.dilation[1]), pair(k.padding[0], k.padding[1]), pair(k.stride[0], k.stride[1]), oh, ow, oh*ow, n)
	}
	if d := x.DType; d.IsInt() {
		return notFor("col2im_out_cpu", d)
	}
	if rank == 2 {
		return c.Return(x.DType, x.Dims[0]/area, out[0], out[1])
	}
	return c.Return(x.DType, x.Dims[0], x.Dims[1]/area, out[0], out[1])
}

// lowerCol2im adds up the slices that lowerIm2col would cut, in the reverse order.
func lowerCol2im(l *Lowering) {
	b, o := l.B, l.Out(0)
	k, _ := blockArgs(&l.Args, 2)
	x := l.As(0, o.DType.Accumulate())
	image := [2]int64{o.Dims[len(o.Dims)-2], o.Dims[len(o.Dims)-1]}
	size := [2]int64{k.count(0, image[0]), k.count(1, image[1])}
	n := o.Numel() / max(image[0]*image[1], 1)
	x = b.Reshape(x, []int64{n, k.kernel[0], k.kernel[1], size[0], size[1]})
	x = b.Transpose(x, []int64{0, 1, 3, 2, 4}) // [n, kh, oh, kw, ow]
	for _, i := range [2]int{1, 0} {
		dim := [2]int64{1, 3}[i]
		var sum value
		for j := range k.kernel[i] {
			part := b.SliceDim(x, dim, j, j+1, 1)
			dims := append([]int64(nil), part.Dims()[:dim]...)
			part = b.Reshape(part, append(dims, part.Dims()[dim+1:]...))
			low, high, inner := make([]int64, part.Rank()), make([]int64, part.Rank()), make([]int64, part.Rank())
			low[dim] = j*k.dilation[i] - k.padding[i]
			inner[dim] = k.stride[i] - 1
			high[dim] = image[i] - low[dim] - ((size[i]-1)*k.stride[i] + 1)
			part = b.Pad(part, zero(b, part.DType()), low, high, inner)
			if sum.IsZero() {
				sum = part
			} else {
				sum = add(b, sum, part)
			}
		}
		x = sum
	}
	l.Return(l.Convert(b.Reshape(x, o.Dims), o.DType))
}

func inferPixelShuffle(c *Ctx) error {
	x, r := c.In(0), c.Int(1)
	rank := x.Rank()
	switch {
	case rank < 3:
		return errs.New(errs.Runtime, "pixel_shuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", rank)
	case r <= 0:
		return errs.New(errs.Runtime, "pixel_shuffle expects a positive upscale_factor, but got %d", r)
	case x.Dims[rank-3]%(r*r) != 0:
		return errs.New(errs.Runtime, "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=%d is not divisible by %d", x.Dims[rank-3], r*r)
	}
	var scratch [16]int64
	dims := append(scratch[:0], x.Dims...)
	dims[rank-3] /= r * r
	dims[rank-2] *= r
	dims[rank-1] *= r
	return c.Return(x.DType, dims...)
}

func lowerPixelShuffle(l *Lowering) {
	x, r := l.In(0), l.Int(1)
	o := l.Out(0)
	n := leading(x)
	ch, h, w := o.Dims[len(o.Dims)-3], x.Dim(-2), x.Dim(-1)
	x = l.B.Reshape(x, []int64{n, ch, r, r, h, w})
	l.Return(l.B.Reshape(l.B.Transpose(x, []int64{0, 1, 4, 2, 5, 3}), o.Dims))
}

// leading is the number of images in x, whose last three dimensions are one.
func leading(x value) int64 {
	n := int64(1)
	for _, k := range x.Dims()[:x.Rank()-3] {
		n *= k
	}
	return n
}

func inferPixelUnshuffle(c *Ctx) error {
	x, r := c.In(0), c.Int(1)
	rank := x.Rank()
	switch {
	case rank < 3:
		return errs.New(errs.Runtime, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", rank)
	case r <= 0:
		return errs.New(errs.Runtime, "pixel_unshuffle expects a positive downscale_factor, but got %d", r)
	case x.Dims[rank-2]%r != 0:
		return errs.New(errs.Runtime, "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=%d is not divisible by %d", x.Dims[rank-2], r)
	case x.Dims[rank-1]%r != 0:
		return errs.New(errs.Runtime, "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=%d is not divisible by %d", x.Dims[rank-1], r)
	}
	var scratch [16]int64
	dims := append(scratch[:0], x.Dims...)
	dims[rank-3] *= r * r
	dims[rank-2] /= r
	dims[rank-1] /= r
	return c.Return(x.DType, dims...)
}

func lowerPixelUnshuffle(l *Lowering) {
	x, r := l.In(0), l.Int(1)
	o := l.Out(0)
	x = l.B.Reshape(x, []int64{leading(x), x.Dim(-3), x.Dim(-2) / r, r, x.Dim(-1) / r, r})
	l.Return(l.B.Reshape(l.B.Transpose(x, []int64{0, 1, 3, 5, 2, 4}), o.Dims))
}

func inferChannelShuffle(c *Ctx) error {
	x, g := c.In(0), c.Int(1)
	switch {
	case x.Rank() < 3:
		return errs.New(errs.Runtime, "channel_shuffle expects input with > 2 dims, but got input with sizes %s", dimsText(x.Dims))
	case g <= 0:
		return errs.New(errs.Runtime, "Number of groups to divide channels in must be positive. Value of groups:%d", g)
	case x.Dims[1]%g != 0:
		return errs.New(errs.Runtime, "Number of channels must be divisible by groups. Got %d channels and %d groups.", x.Dims[1], g)
	}
	return c.ReturnLike(x)
}

func lowerChannelShuffle(l *Lowering) {
	x, g, o := l.In(0), l.Int(1), l.Out(0)
	rest := int64(1)
	for _, k := range o.Dims[2:] {
		rest *= k
	}
	x = l.B.Reshape(x, []int64{o.Dims[0], g, o.Dims[1] / g, rest})
	l.Return(l.B.Reshape(l.B.Transpose(x, []int64{0, 2, 1, 3}), o.Dims))
}
