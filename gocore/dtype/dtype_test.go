package dtype

import (
	"math"
	"os"
	"strings"
	"testing"
)

func byTorchName(t *testing.T, name string) DType {
	t.Helper()
	for d := Bool; d < Count; d++ {
		if d.Torch() == name {
			return d
		}
	}
	t.Fatalf("no type named %q", name)
	return Invalid
}

func TestPromoteMatchesTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/promote.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] == "#" {
			continue
		}
		want := Invalid
		if f[2] != "-" {
			want = byTorchName(t, f[2])
		}
		if got := Promote(byTorchName(t, f[0]), byTorchName(t, f[1])); got != want {
			t.Errorf("Promote(%s, %s) = %s, torch gives %s", f[0], f[1], got, f[2])
		}
		n++
	}
	if want := int(Count-1) * int(Count-1); n != want {
		t.Fatalf("compared %d pairs, want %d", n, want)
	}
}

func TestRange(t *testing.T) {
	for d, want := range map[DType][2]int64{
		Bool: {0, 1}, U8: {0, 255}, I8: {-128, 127}, U16: {0, 65535}, I16: {-32768, 32767},
		U32: {0, 1<<32 - 1}, I32: {math.MinInt32, math.MaxInt32}, U64: {0, math.MaxInt64}, I64: {math.MinInt64, math.MaxInt64},
	} {
		if low, high := d.Range(); low != want[0] || high != want[1] {
			t.Errorf("%s: from %d to %d, want %v", d, low, high, want)
		}
	}
}

func TestTablesAreInverse(t *testing.T) {
	for d := Bool; d < Count; d++ {
		if FromTorch(d.TorchCode()) != d || Parse(d.String()) != d {
			t.Errorf("%s: a lookup does not lead back", d)
		}
		if d.Size() == 0 || d.Kind() == KindInvalid {
			t.Errorf("%s: incomplete row", d)
		}
		if b := Buffers[d.PJRT()]; b.Name != d.PJRTName() || b.Bits != 8*d.Size() {
			t.Errorf("%s: %d bytes, PJRT's %s has %d bits", d, d.Size(), b.Name, b.Bits)
		}
	}
	if FromTorch(-1) != Invalid || FromTorch(12) != Invalid || Parse("f31") != Invalid {
		t.Error("an unknown name or number must be Invalid")
	}
}

func TestPromotionCategories(t *testing.T) {
	type op struct {
		d DType
		c Category
	}
	for _, tc := range []struct {
		ops  []op
		want DType
	}{
		{[]op{{I32, Dimensioned}, {F64, Wrapped}}, F32},
		{[]op{{F16, Dimensioned}, {F64, ZeroDim}}, F16},
		{[]op{{I32, Dimensioned}, {I64, ZeroDim}}, I32},
		{[]op{{I32, Dimensioned}, {F64, ZeroDim}}, F64},
		{[]op{{Bool, Dimensioned}, {I64, Wrapped}}, I64},
		{[]op{{F32, Dimensioned}, {C128, Wrapped}}, C64},
		{[]op{{F64, Dimensioned}, {C128, Wrapped}}, C128},
		{[]op{{I64, ZeroDim}, {F64, Wrapped}}, F32},
		{[]op{{F16, Dimensioned}, {C64, ZeroDim}}, C64},
	} {
		var p Promotion
		for _, o := range tc.ops {
			p.Add(o.d, o.c)
		}
		if got := p.Result(F32); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.ops, got, tc.want)
		}
	}
}
