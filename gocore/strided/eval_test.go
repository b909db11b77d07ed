package strided

import (
	"fmt"
	"slices"
)

// array is a dense row-major array, the operand of the interpreter.
type array struct {
	dims []int64
	data []int64
}

// undefined is the value of padding; it may not reach a result.
const undefined = -1

func iotaArray(dims []int64, first int64) array {
	a := array{dims: dims, data: make([]int64, product(dims))}
	for i := range a.data {
		a.data[i] = first + int64(i)
	}
	return a
}

// each calls f with every index of dims in row-major order; f must not keep index.
func each(dims []int64, f func(index []int64)) {
	if product(dims) == 0 {
		return
	}
	index := make([]int64, len(dims))
	for {
		f(index)
		d := len(dims) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < dims[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

func (a array) at(index []int64) int64 {
	i := int64(0)
	for d, n := range a.dims {
		if index[d] < 0 || index[d] >= n {
			panic(fmt.Sprintf("index %v of an array %v", index, a.dims))
		}
		i = i*n + index[d]
	}
	return a.data[i]
}

func (a *array) set(index []int64, x int64) {
	i := int64(0)
	for d, n := range a.dims {
		i = i*n + index[d]
	}
	a.data[i] = x
}

// build makes an array of the dimensions from the element at each index.
func build(dims []int64, element func(index []int64) int64) array {
	out := array{dims: dims, data: make([]int64, 0, product(dims))}
	each(dims, func(index []int64) { out.data = append(out.data, element(index)) })
	return out
}

// eval runs steps by their definition in StableHLO. It returns an error for a step that is not well
// formed there, and for one that does nothing or that could be one with the step before.
func eval(a array, steps []Step) (array, error) {
	for i, s := range steps {
		if i > 0 && steps[i-1].Kind == s.Kind {
			return a, fmt.Errorf("step %d: two %ss", i, s.Kind)
		}
		before := a
		var err error
		if a, err = evalStep(a, s); err != nil {
			return a, fmt.Errorf("step %d, %v: %w", i, s, err)
		}
		if !slices.Equal(a.dims, s.Dims) {
			return a, fmt.Errorf("step %d, %v: dimensions are %v", i, s, a.dims)
		}
		if slices.Equal(a.dims, before.dims) && slices.Equal(a.data, before.data) && distinct(before) {
			return a, fmt.Errorf("step %d, %v: does nothing", i, s)
		}
	}
	return a, nil
}

// distinct reports whether the array would show that its elements were moved.
func distinct(a array) bool {
	return len(a.data) > 0 && !slices.Contains(a.data, undefined)
}

func evalStep(a array, s Step) (array, error) {
	index := make([]int64, len(a.dims))
	switch s.Kind {
	case Reshape:
		if product(s.Dims) != product(a.dims) {
			return a, fmt.Errorf("%d elements of %v", product(a.dims), a.dims)
		}
		return array{s.Dims, a.data}, nil
	case Slice:
		dims := make([]int64, len(a.dims))
		for d, n := range a.dims {
			if s.Starts[d] < 0 || s.Limits[d] > n || s.Starts[d] > s.Limits[d] || s.Strides[d] < 1 {
				return a, fmt.Errorf("bounds of %v", a.dims)
			}
			dims[d] = (s.Limits[d] - s.Starts[d] + s.Strides[d] - 1) / s.Strides[d]
		}
		return build(dims, func(i []int64) int64 {
			for d := range i {
				index[d] = s.Starts[d] + i[d]*s.Strides[d]
			}
			return a.at(index)
		}), nil
	case Transpose:
		if sorted := slices.Sorted(slices.Values(s.Perm)); !slices.Equal(sorted, upTo(len(a.dims))) {
			return a, fmt.Errorf("permutation of %v", a.dims)
		}
		return build(pick64(a.dims, s.Perm), func(i []int64) int64 {
			for d, p := range s.Perm {
				index[p] = i[d]
			}
			return a.at(index)
		}), nil
	case Broadcast:
		return evalBroadcast(a, s)
	case Pad:
		dims := slices.Clone(a.dims)
		for d := range dims {
			if s.Low[d] < 0 || s.High[d] < 0 {
				return a, fmt.Errorf("negative padding")
			}
			dims[d] += s.Low[d] + s.High[d]
		}
		return build(dims, func(i []int64) int64 {
			for d := range i {
				if index[d] = i[d] - s.Low[d]; index[d] < 0 || index[d] >= a.dims[d] {
					return undefined
				}
			}
			return a.at(index)
		}), nil
	case Gather:
		if len(a.dims) != 1 {
			return a, fmt.Errorf("operand %v is not flat", a.dims)
		}
		return build(s.Dims, func(i []int64) int64 { return a.data[address(i, s.Strides, s.Offset)] }), nil
	case Empty:
		if product(s.Dims) != 0 {
			return a, fmt.Errorf("has elements")
		}
		return array{dims: s.Dims}, nil
	}
	return a, fmt.Errorf("unknown")
}

func evalBroadcast(a array, s Step) (array, error) {
	if len(s.Mapping) != len(a.dims) || !ascending(s.Mapping) {
		return a, fmt.Errorf("mapping of %v", a.dims)
	}
	for d, m := range s.Mapping {
		if a.dims[d] != 1 && a.dims[d] != s.Dims[m] {
			return a, fmt.Errorf("dimension %d of %v", d, a.dims)
		}
	}
	index := make([]int64, len(a.dims))
	return build(s.Dims, func(i []int64) int64 {
		for d, m := range s.Mapping {
			index[d] = min(i[m], a.dims[d]-1)
		}
		return a.at(index)
	}), nil
}

// evalWrite runs a write program.
func evalWrite(base, val array, w WriteProgram) (array, error) {
	if w.Method == Nothing {
		return base, nil
	}
	val, err := eval(val, w.Val)
	if err != nil {
		return val, fmt.Errorf("val: %w", err)
	}
	if w.Method == Replace {
		return val, nil
	}
	old, err := eval(base, w.Old)
	if err != nil {
		return val, fmt.Errorf("old: %w", err)
	}
	if !slices.Equal(old.dims, w.OldDims) || !slices.Equal(val.dims, w.ValDims) {
		return val, fmt.Errorf("update of %v by %v", old.dims, val.dims)
	}
	old.data = slices.Clone(old.data)
	if w.Method == Scatter {
		if len(old.dims) != 1 {
			return val, fmt.Errorf("scatter into %v", old.dims)
		}
		each(val.dims, func(i []int64) { old.data[address(i, w.Strides, w.Offset)] = val.at(i) })
	} else {
		index := make([]int64, len(old.dims))
		each(val.dims, func(i []int64) {
			for d := range i {
				index[d] = w.Starts[d] + i[d]
				if w.Method == Strided {
					index[d] = w.Starts[d] + i[d]*w.Strides[d]
				}
			}
			old.at(index) // checks the index
			old.set(index, val.at(i))
		})
	}
	out, err := eval(old, w.Back)
	if err != nil {
		return out, fmt.Errorf("back: %w", err)
	}
	return out, nil
}

func address(index, stride []int64, offset int64) int64 {
	for d, i := range index {
		offset += i * stride[d]
	}
	return offset
}

func pick64(list, index []int64) []int64 {
	out := make([]int64, len(index))
	for i, d := range index {
		out[i] = list[d]
	}
	return out
}
