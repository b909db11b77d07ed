package hlocheck

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// TestRegionRoles runs bodies that are not symmetric, so that swapped block arguments, branches or
// results would show.
func TestRegionRoles(t *testing.T) {
	c := client(t)
	b := hlo.NewModule("roles")
	vec := shape.Make(dtype.F32, 4)
	x := b.Param(vec)
	zero, scalar := b.Scalar(dtype.F32, hlo.Float(0)), shape.Make(dtype.F32)
	index := b.Arange(dtype.I32, 4)
	descending := func(b *hlo.Builder, l, r []hlo.Value) hlo.Value { return b.Compare(l[0], r[0], hlo.GT) }
	sorted := b.Sort(0, true, []hlo.Value{x, b.Convert(index, dtype.F32)}, descending)
	last := b.Reduce([]hlo.Value{x}, []hlo.Value{zero}, []int64{0}, hlo.CombineMax)
	row := hlo.ScatterDims{InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}
	two := b.ConstantFloats(shape.Make(dtype.F32, 2), []float64{70, 80})
	at := b.ConstantInts(shape.Make(dtype.I32, 2), []int64{3, 0})
	subtract := func(b *hlo.Builder, l, r []hlo.Value) []hlo.Value { return []hlo.Value{b.Subtract(l[0], r[0])} }
	scattered := b.Scatter([]hlo.Value{x}, at, []hlo.Value{two}, row, subtract)
	chosen := b.If(b.Compare(b.Reshape(b.SliceDim(x, 0, 0, 1, 1), nil), zero, hlo.GT),
		func(b *hlo.Builder) []hlo.Value { return []hlo.Value{b.ConstLike(zero, 1)} },
		func(b *hlo.Builder) []hlo.Value { return []hlo.Value{b.ConstLike(zero, 2)} })
	looped := b.While([]hlo.Value{zero, x},
		func(b *hlo.Builder, v []hlo.Value) hlo.Value { return b.Compare(v[0], b.ConstLike(v[0], 3), hlo.LT) },
		func(b *hlo.Builder, v []hlo.Value) []hlo.Value {
			return []hlo.Value{b.Add(v[0], b.ConstLike(v[0], 1)), b.Add(v[1], x)}
		})
	half := b.DefineFunc("halve", []*shape.Shape{scalar, vec}, func(b *hlo.Builder, a []hlo.Value) []hlo.Value {
		return []hlo.Value{b.Divide(a[1], b.Broadcast(a[0], a[1].Dims()))}
	})
	halved := b.Call(half, b.Scalar(dtype.F32, hlo.Float(2)), x)
	w := hlo.Window{Dims: []int64{2}, Strides: []int64{2}}
	unpooled := b.SelectAndScatter(x, two, zero, w, func(b *hlo.Builder, p, q hlo.Value) hlo.Value { return b.Compare(p, q, hlo.GE) }, hlo.CombineAdd)
	outs := []hlo.Value{sorted[0], sorted[1], last[0], scattered[0], chosen[0], looped[0], looped[1], halved[0], unpooled,
		b.Subtract(x, b.ConstLike(x, 1)), b.Select(b.Compare(x, b.ConstLike(x, 3), hlo.LT), x, b.ConstLike(x, 9))}
	b.Return(outs...)
	want := [][]float32{{8, 4, 2, 1}, {1, 2, 0, 3}, {8}, {-78, 8, 4, -69}, {1}, {3}, {8, 32, 16, 4}, {1, 4, 2, 0.5}, {0, 70, 80, 0},
		{1, 7, 3, 0}, {2, 9, 9, 1}}
	module, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	sizes := make([]int, len(outs))
	for i, o := range outs {
		sizes[i] = int(o.Shape().Bytes())
	}
	var in []byte
	for _, f := range []float32{2, 8, 4, 1} {
		in = binary.LittleEndian.AppendUint32(in, math.Float32bits(f))
	}
	for i, raw := range run(t, c, module, []argument{{pjrt.F32, []int64{4}, in}}, sizes) {
		var got []float32
		for ; len(raw) > 0; raw = raw[4:] {
			got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("result %d: got %v, want %v", i, got, want[i])
		}
	}
}
