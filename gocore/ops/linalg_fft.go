package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// fftRows are the Fourier transforms that torch.fft and stft end in. normalization is 0 for none, 1 for
// one over the square root of the number of elements, 2 for one over it.
var fftRows = []Row{
	{Name: "_fft_r2c", Schema: "(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", Torch: &Kernel{Out: "out", When: transformsFaster},
		Infer: inferRealFft, Lower: lowerRealFft},
	{Name: "_fft_c2c", Schema: "(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", Torch: &Kernel{Out: "out", When: transformsFaster},
		Infer: func(c *Ctx) error {
			x := c.In(0)
			if err := fftDims(x, c.Ints(1)); err != nil {
				return err
			}
			if !x.DType.IsComplex() {
				return errs.New(errs.Runtime, "_fft_c2c: expected a complex tensor, but got %s", x.DType.C10())
			}
			return c.ReturnLike(x)
		}, Lower: lowerComplexFft},
	{Name: "_fft_c2r", Schema: "(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", Torch: &Kernel{Out: "out", When: transformsFaster},
		Infer: inferInverseRealFft, Lower: lowerInverseRealFft},
}

func fftDims(x *shape.Shape, dims []int64) error {
	for _, d := range dims {
		if _, err := WrapDim(d, x.Rank()); err != nil {
			return err
		}
	}
	return nil
}

func inferRealFft(c *Ctx) error {
	x, list := c.In(0), c.Ints(1)
	if err := fftDims(x, list); err != nil {
		return err
	}
	switch d := x.DType; {
	case !d.IsFloat():
		return errs.New(errs.Type, "Only supports floating-point dtypes, but found: %s", d.C10())
	case d != dtype.F32 && d != dtype.F64:
		return errs.New(errs.NotImpl, "MKL FFT doesn't support tensors of type: %s", d.C10())
	case len(list) == 0:
		return c.ReturnLike(x.With(x.DType.ToComplex()))
	}
	var scratch [16]int64
	dims := append(scratch[:0], x.Dims...)
	if c.Bool(3) {
		last, _ := WrapDim(list[len(list)-1], x.Rank())
		dims[last] = dims[last]/2 + 1
	}
	return c.Return(x.DType.ToComplex(), dims...)
}

func inferInverseRealFft(c *Ctx) error {
	x, list, size := c.In(0), c.Ints(1), c.Int(3)
	if err := fftDims(x, list); err != nil {
		return err
	}
	switch {
	case !x.DType.IsComplex():
		return errs.New(errs.Runtime, "_fft_c2r: expected a complex tensor, but got %s", x.DType.C10())
	case len(list) == 0:
		return errs.New(errs.Runtime, "_fft_c2r: no dimension is given")
	case size < 1:
		return errs.New(errs.Runtime, "Invalid number of data points (%d) specified", size)
	}
	var scratch [16]int64
	dims := append(scratch[:0], x.Dims...)
	last, _ := WrapDim(list[len(list)-1], x.Rank())
	dims[last] = size
	return c.Return(x.DType.ToReal(), dims...)
}

// fft applies one kind of transform to up to three dimensions of x; size is the length of the last of
// them in the real domain.
func (l *Lowering) fft(x value, dims []int64, kind stablehlo.FftType, size int64) value {
	rank := x.Rank()
	var perm, length []int64
	for d := range rank {
		moved := false
		for _, k := range dims {
			moved = moved || int(k) == d
		}
		if !moved {
			perm = append(perm, int64(d))
		}
	}
	perm = append(perm, dims...)
	back := make([]int64, rank)
	for i, p := range perm {
		back[p] = int64(i)
	}
	for _, d := range dims {
		length = append(length, x.Dim(int(d)))
	}
	length[len(length)-1] = size
	return l.B.Transpose(l.B.Fft(l.B.Transpose(x, perm), kind, length), back)
}

// fftDimList is argument 1 as non-negative numbers.
func (l *Lowering) fftDimList() (dims []int64) {
	rank := l.Shape(0).Rank()
	for _, d := range l.Ints(1) {
		k, _ := WrapDim(d, rank)
		dims = append(dims, int64(k))
	}
	return dims
}

// scaleFft multiplies by the normalization's factor for n elements, times what undoes XLA's division in
// inverse transforms.
func (l *Lowering) scaleFft(x value, n int64, inverse bool) value {
	scale := 1.0
	if inverse {
		scale = float64(n)
	}
	switch l.Int(2) {
	case 1:
		scale /= math.Sqrt(float64(n))
	case 2:
		scale /= float64(n)
	}
	if scale == 1 {
		return x
	}
	return l.B.Multiply(x, l.B.ConstLike(x, scale))
}

// elements is the product of some sizes.
func elements(dims, which []int64) int64 {
	n := int64(1)
	for _, d := range which {
		n *= dims[d]
	}
	return n
}

// complexFft transforms any number of dimensions, three at a time.
func (l *Lowering) complexFft(x value, dims []int64, kind stablehlo.FftType) value {
	for len(dims) > 0 {
		k := min(len(dims), 3)
		part := dims[len(dims)-k:]
		x = l.fft(x, part, kind, x.Dim(int(part[k-1])))
		dims = dims[:len(dims)-k]
	}
	return x
}

func lowerComplexFft(l *Lowering) {
	x, o := l.In(0), l.Out(0)
	dims := l.fftDimList()
	if o.Numel() == 0 || len(dims) == 0 {
		l.Return(x)
		return
	}
	kind := stablehlo.IFFT
	if l.Bool(3) {
		kind = stablehlo.FFT
	}
	l.Return(l.scaleFft(l.complexFft(x, dims, kind), elements(o.Dims, dims), kind == stablehlo.IFFT))
}

func lowerRealFft(l *Lowering) {
	x, o := l.In(0), l.Out(0)
	dims := l.fftDimList()
	switch {
	case o.Numel() == 0:
		l.Return(l.B.Broadcast(zero(l.B, o.DType), o.Dims))
		return
	case len(dims) == 0:
		l.Return(l.Convert(x, o.DType))
		return
	}
	n := elements(x.Dims(), dims)
	if !l.Bool(3) {
		l.Return(l.scaleFft(l.complexFft(l.Convert(x, o.DType), dims, stablehlo.FFT), n, false))
		return
	}
	k := len(dims) - min(len(dims), 3)
	last := int(dims[len(dims)-1])
	x = l.fft(x, dims[k:], stablehlo.RFFT, x.Dim(last))
	l.Return(l.scaleFft(l.complexFft(x, dims[:k], stablehlo.FFT), n, false))
}

func lowerInverseRealFft(l *Lowering) {
	x, o := l.In(0), l.Out(0)
	dims := l.fftDimList()
	if o.Numel() == 0 || x.Shape().Numel() == 0 {
		l.Return(l.B.Broadcast(zero(l.B, o.DType), o.Dims))
		return
	}
	k := len(dims) - min(len(dims), 3)
	last := dims[len(dims)-1]
	half := l.Int(3)/2 + 1
	if n := x.Dim(int(last)); n < half {
		x = padDim(l.B, x, int(last), 0, half-n)
	} else {
		x = l.B.SliceDim(x, last, 0, half, 1)
	}
	x = l.complexFft(x, dims[:k], stablehlo.IFFT)
	x = l.fft(x, dims[k:], stablehlo.IRFFT, l.Int(3))
	l.Return(l.scaleFft(x, elements(o.Dims, dims), true))
}
