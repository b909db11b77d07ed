package strided

import (
	"errors"
	"fmt"
	"slices"
)

// checkRead compares a read program with the view's definition.
func checkRead(base []int64, v View) (Program, error) {
	p, err := Read(base, v)
	if err != nil {
		return p, err
	}
	from := iotaArray(base, 0)
	got, err := eval(from, p.Steps)
	if err != nil {
		return p, fmt.Errorf("%v: %w", p, err)
	}
	want := build(v.Size, func(i []int64) int64 { return address(i, v.Stride, v.Offset) })
	if !slices.Equal(got.dims, want.dims) || !slices.Equal(got.data, want.data) {
		return p, fmt.Errorf("%v gives %v, not %v", p, got, want)
	}
	return p, nil
}

// checkWrite compares a write program with the view's definition.
func checkWrite(base []int64, v View) (WriteProgram, error) {
	w, err := Write(base, v)
	if err != nil {
		if errors.Is(err, ErrOverlap) && v.expanded() && v.Numel() > 0 {
			return w, nil
		}
		return w, err
	}
	old, val := iotaArray(base, 0), iotaArray(v.Size, 1_000_000)
	want := slices.Clone(old.data)
	each(v.Size, func(i []int64) { want[address(i, v.Stride, v.Offset)] = val.at(i) })
	got, err := evalWrite(old, val, w)
	if err != nil {
		return w, fmt.Errorf("%v: %w", w, err)
	}
	dims := base
	if w.NewBase != nil {
		dims = w.NewBase
	}
	if !slices.Equal(got.dims, dims) || !slices.Equal(got.data, want) {
		return w, fmt.Errorf("%v gives %v, not %v", w, got, want)
	}
	if w.NewBase != nil && (w.Method != Replace || slices.Equal(w.NewBase, base)) {
		return w, fmt.Errorf("%v: new dimensions", w)
	}
	return w, nil
}
