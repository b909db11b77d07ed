package strided

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// chain builds views as torch's view operations do, one after the other, at random.
type chain struct {
	*rand.Rand
	v   View
	ops []string
}

// dense is the contiguous view of dims.
func dense(dims []int64) View {
	v := View{Size: slices.Clone(dims), Stride: make([]int64, len(dims))}
	step := int64(1)
	for d := len(dims) - 1; d >= 0; d-- {
		v.Stride[d] = step
		step *= max(dims[d], 1)
	}
	return v
}

// randomDims has up to maxRank dimensions and at most limit elements.
func randomDims(r *rand.Rand, maxRank int, limit int64, empty bool) []int64 {
	dims := make([]int64, r.IntN(maxRank+1))
	for d := range dims {
		dims[d] = 1 + r.Int64N(7)
		if r.IntN(5) == 0 {
			dims[d] = 1
		}
		if empty && r.IntN(25) == 0 {
			dims[d] = 0
		}
	}
	for product(dims) > limit {
		dims[r.IntN(len(dims))] = 1
	}
	return dims
}

// An op changes the view and says what it did, or returns "" where it does not apply.
type op func(c *chain) string

// plain are the operations that never take more than slices, reshapes, transposes and broadcasts, on a
// contiguous base: those that keep every dimension's elements within the step of the wider ones.
var plain = []op{
	(*chain).selectOp, (*chain).narrow, (*chain).step, (*chain).permute, (*chain).expand,
	(*chain).view, (*chain).view, (*chain).unsqueeze, (*chain).squeeze, (*chain).chunk,
}

// wild are the others.
var wild = []op{(*chain).diagonal, (*chain).unfold}

func (c *chain) grow(n int, ops []op) {
	for range n {
		if s := ops[c.IntN(len(ops))](c); s != "" {
			c.ops = append(c.ops, s)
		}
	}
}

// dim picks a dimension of at least least elements; -1 if there is none.
func (c *chain) dim(least int64) int {
	var dims []int
	for d, n := range c.v.Size {
		if n >= least {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 {
		return -1
	}
	return dims[c.IntN(len(dims))]
}

func (c *chain) selectOp() string {
	d := c.dim(1)
	if d < 0 {
		return ""
	}
	i := c.Int64N(c.v.Size[d])
	c.v.Offset += i * c.v.Stride[d]
	c.v.Size, c.v.Stride = slices.Delete(c.v.Size, d, d+1), slices.Delete(c.v.Stride, d, d+1)
	return fmt.Sprintf("select(%d,%d)", d, i)
}

func (c *chain) narrow() string {
	d := c.dim(1)
	if d < 0 {
		return ""
	}
	start := c.Int64N(c.v.Size[d])
	n := 1 + c.Int64N(c.v.Size[d]-start)
	c.v.Offset += start * c.v.Stride[d]
	c.v.Size[d] = n
	return fmt.Sprintf("narrow(%d,%d,%d)", d, start, n)
}

func (c *chain) step() string {
	d := c.dim(2)
	if d < 0 {
		return ""
	}
	start, by := c.Int64N(c.v.Size[d]), 2+c.Int64N(3)
	n := (c.v.Size[d] - start + by - 1) / by
	c.v.Offset += start * c.v.Stride[d]
	c.v.Size[d], c.v.Stride[d] = n, c.v.Stride[d]*by
	return fmt.Sprintf("slice(%d,%d::%d)", d, start, by)
}

func (c *chain) chunk() string {
	d := c.dim(2)
	if d < 0 {
		return ""
	}
	n := c.v.Size[d]
	part := (n + 1) / 2
	start := c.Int64N(2) * part
	c.v.Offset += start * c.v.Stride[d]
	c.v.Size[d] = min(part, n-start)
	return fmt.Sprintf("chunk(%d)", d)
}

func (c *chain) permute() string {
	perm := c.Perm(len(c.v.Size))
	c.v.Size, c.v.Stride = pick(c.v.Size, perm), pick(c.v.Stride, perm)
	return fmt.Sprintf("permute%v", perm)
}

func (c *chain) expand() string {
	for d, n := range c.v.Size {
		if n == 1 && c.IntN(2) == 0 && c.v.Numel() < 200 {
			c.v.Size[d], c.v.Stride[d] = 1+c.Int64N(4), 0
		}
	}
	if c.IntN(3) == 0 && len(c.v.Size) < 6 && c.v.Numel() < 200 {
		c.v.Size, c.v.Stride = slices.Insert(c.v.Size, 0, 1+c.Int64N(3)), slices.Insert(c.v.Stride, 0, 0)
	}
	return fmt.Sprintf("expand%v", c.v.Size)
}

func (c *chain) unsqueeze() string {
	if len(c.v.Size) > 6 {
		return ""
	}
	d := c.IntN(len(c.v.Size) + 1)
	c.v.Size, c.v.Stride = slices.Insert(c.v.Size, d, 1), slices.Insert(c.v.Stride, d, 1+c.Int64N(50))
	return fmt.Sprintf("unsqueeze(%d)", d)
}

func (c *chain) squeeze() string {
	for d := len(c.v.Size) - 1; d >= 0; d-- {
		if c.v.Size[d] == 1 {
			c.v.Size, c.v.Stride = slices.Delete(c.v.Size, d, d+1), slices.Delete(c.v.Stride, d, d+1)
		}
	}
	return "squeeze"
}

// view regroups the elements where strides allow: it joins dimensions that are one, then breaks some
// in factors.
func (c *chain) view() string {
	var size, stride []int64
	for d, n := range c.v.Size {
		k := len(size)
		if k > 0 && stride[k-1] == n*c.v.Stride[d] && c.IntN(3) > 0 {
			size[k-1], stride[k-1] = size[k-1]*n, c.v.Stride[d]
			continue
		}
		size, stride = append(size, n), append(stride, c.v.Stride[d])
	}
	for d := 0; d < len(size) && len(size) < 6; d++ {
		if f := 1 + c.Int64N(5); size[d] > 0 && size[d]%f == 0 && c.IntN(2) == 0 {
			size = slices.Insert(size, d+1, f)
			stride = slices.Insert(stride, d+1, stride[d])
			size[d], stride[d] = size[d]/f, stride[d]*f
		}
	}
	c.v.Size, c.v.Stride = size, stride
	return fmt.Sprintf("view%v", size)
}

func (c *chain) diagonal() string {
	if len(c.v.Size) < 2 {
		return ""
	}
	p := c.Perm(len(c.v.Size))
	a, b := p[0], p[1]
	off := c.Int64N(3)
	n := min(c.v.Size[a], c.v.Size[b]-off)
	if n <= 0 {
		return ""
	}
	c.v.Offset += off * c.v.Stride[b]
	c.v.Size, c.v.Stride = append(c.v.Size, n), append(c.v.Stride, c.v.Stride[a]+c.v.Stride[b])
	for _, d := range []int{max(a, b), min(a, b)} {
		c.v.Size, c.v.Stride = slices.Delete(c.v.Size, d, d+1), slices.Delete(c.v.Stride, d, d+1)
	}
	return fmt.Sprintf("diagonal(%d,%d,%d)", off, a, b)
}

func (c *chain) unfold() string {
	d := c.dim(2)
	if d < 0 || c.v.Numel() > 500 {
		return ""
	}
	window, by := 1+c.Int64N(min(c.v.Size[d], 4)), 1+c.Int64N(3)
	c.v.Size, c.v.Stride = append(c.v.Size, window), append(c.v.Stride, c.v.Stride[d])
	c.v.Size[d], c.v.Stride[d] = (c.v.Size[d]-window)/by+1, c.v.Stride[d]*by
	return fmt.Sprintf("unfold(%d,%d,%d)", d, window, by)
}

// asStrided is any view of n elements, small enough to compare.
func (c *chain) asStrided(n int64) string {
	rank := c.IntN(6)
	c.v = View{Size: make([]int64, rank), Stride: make([]int64, rank)}
	room := max(n-1, 0)
	for _, d := range c.Perm(rank) {
		c.v.Size[d] = 1 + c.Int64N(4)
		c.v.Stride[d] = c.Int64N(min(room, 40) + 1)
		if used := (c.v.Size[d] - 1) * c.v.Stride[d]; used <= room {
			room -= used
		} else {
			c.v.Stride[d] = room / c.v.Size[d]
			room -= (c.v.Size[d] - 1) * c.v.Stride[d]
		}
	}
	c.v.Offset = c.Int64N(room + 1)
	return fmt.Sprintf("as_strided%v", c.v)
}
