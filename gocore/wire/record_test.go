package wire

import (
	"math"
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

func bits(x float64) int64 { return int64(math.Float64bits(x)) }

// sample is the record of an op with an argument of every form, whose two results are made and written.
var sample = []int64{
	3, 7, 2, -1, 40, 0,
	Tag(KTensor, 2) | int64(dtype.F32.TorchCode())<<TypeShift, 11, 5, 2, 3, 3, 1,
	Tag(KFloat, 0), bits(1.5),
	Tag(KHostZero, 0) | int64(dtype.C64.TorchCode())<<TypeShift, bits(1), bits(-2),
	Tag(KTensors, 3), Tag(KNull, 0), Tag(KTensor, 0) | int64(dtype.I64.TorchCode())<<TypeShift, 12, 0, Tag(KInt, 0), -7,
	Tag(KInts, 2), 8, 9,
	Tag(KText, 9), 0x6867666564636261, 0x69,
	Tag(KDevice, 0), 1,
	int64(New),
	int64(Write | Resizable), Tag(KTensor, 1) | int64(dtype.Bool.TorchCode())<<TypeShift, 13, 0, 4, 1,
}

// walk reads a record as the engine does: it passes over the arguments first, and reads them if that went well.
func walk(words []int64) (taken [][]int64, err error) {
	r, err := Read(words)
	if err != nil {
		return nil, err
	}
	first := r
	for args := r.Head(HeadArgs); args > 0; args-- {
		k, n, _, ok := first.Pass()
		if !ok {
			return nil, ErrMalformed
		}
		if k == KTensors || k == KScalars {
			args += int64(n)
		}
	}
	for args := r.Head(HeadArgs); args > 0; args-- {
		switch k := r.Kind(); k {
		case KTensor:
			r.Tensor()
			taken = append(taken, nil)
		case KInt, KFloat, KBool, KComplex, KHostZero:
			r.Number()
			taken = append(taken, nil)
		default:
			words := r.Take()
			if k == KTensors || k == KScalars {
				_, n := Untag(words[0])
				args += int64(n)
			}
			taken = append(taken, words)
		}
	}
	for range min(r.Head(HeadDispositions), int64(len(words))) {
		d, ok := r.Disposition()
		if !ok {
			return nil, ErrMalformed
		}
		if d&DispositionMask == Write {
			r.Tensor()
		}
	}
	return taken, nil
}

func TestRecordIsRead(t *testing.T) {
	r, err := Read(sample)
	if err != nil || r.Head(HeadRow) != 3 || r.Head(HeadLocation) != 40 {
		t.Fatal(err, r)
	}
	if handle, offset, typ, size, stride := r.Tensor(); handle != 11 || offset != 5 || typ != dtype.F32 ||
		!slices.Equal(size, []int64{2, 3}) || !slices.Equal(stride, []int64{3, 1}) {
		t.Error(handle, offset, typ, size, stride)
	}
	if typ, _, f, _, host, ok := r.Number(); typ != dtype.F64 || f != 1.5 || host || !ok {
		t.Error(typ, f, host, ok)
	}
	if typ, _, re, im, host, ok := r.Number(); typ != dtype.C64 || re != 1 || im != -2 || !host || !ok {
		t.Error(typ, re, im, host, ok)
	}
	if list := r.Take(); len(list) != 1 || r.Kind() != KNull {
		t.Error(list, r.Kind())
	}
	r.Take()
	if handle, _, typ, size, _ := r.Tensor(); handle != 12 || len(size) != 0 || typ != dtype.I64 {
		t.Error(handle, typ, size)
	}
	if typ, i, _, _, _, ok := r.Number(); typ != dtype.I64 || i != -7 || !ok {
		t.Error(typ, i, ok)
	}
	behind := r
	if _, _, _, _, _, ok := behind.Number(); ok {
		t.Error("a list of ints is read as a number")
	}
	if ints := r.Take(); !slices.Equal(ints[1:], []int64{8, 9}) {
		t.Error(ints)
	}
	r.Take()
	if k, _, device, ok := r.Pass(); k != KDevice || device != 1 || !ok {
		t.Error(k, device, ok)
	}
	if d, ok := r.Disposition(); d != New || !ok {
		t.Error(d, ok)
	}
	if d, ok := r.Disposition(); d != Write|Resizable || !ok {
		t.Error(d, ok)
	}
	if handle, _, typ, _, _ := r.Tensor(); handle != 13 || typ != dtype.Bool {
		t.Error(handle, typ)
	}
	if _, ok := r.Disposition(); ok {
		t.Error("a disposition is read behind the record")
	}
}

// Every record that is cut off is refused, wherever the cut is.
func TestCutRecordsAreRefused(t *testing.T) {
	if taken, err := walk(sample); err != nil || len(taken) != 10 {
		t.Fatal(len(taken), err)
	}
	for n := range sample {
		if _, err := walk(sample[:n]); err == nil {
			t.Errorf("a record of %d words, of %d, is taken", n, len(sample))
		}
	}
}

func TestResultsAreDense(t *testing.T) {
	out := make([]int64, 9)
	next := PutResult(out, 1, 7, dtype.BF16, 2, []int64{4, 5}, nil)
	want := []int64{0, 7, int64(dtype.BF16.TorchCode()), 2, 2, 4, 5, 0, 0}
	if next != 7 || !slices.Equal(out, want) {
		t.Error(next, out)
	}
	if PutResult(out, next, 8, dtype.F32, 0, nil, nil) != -1 {
		t.Error("a result that does not fit is written")
	}
	strides := []int64{0, 7, int64(dtype.BF16.TorchCode()), 2, 2 | int64(Strided), 4, 5, 1, 4}
	if next = PutResult(out, 1, 7, dtype.BF16, 2, []int64{4, 5}, []int64{1, 4}); next != 9 || !slices.Equal(out, strides) {
		t.Error(next, out)
	}
	PutResize(out, 1, true, []int64{6}, nil)
	if !slices.Equal(out[:4], []int64{1, 1, 1, 6}) {
		t.Error(out)
	}
	PutResize(out, 0, false, []int64{6, 5}, []int64{1, 6})
	if !slices.Equal(out[:7], []int64{0, 0, 2 | int64(Strided), 6, 5, 1, 6}) {
		t.Error(out)
	}
}

// FuzzRecord reads arbitrary words: what is malformed is an error, and nothing is read from outside the record.
func FuzzRecord(f *testing.F) {
	encode := func(words []int64) (b []byte) {
		for _, w := range words {
			for i := range 8 {
				b = append(b, byte(w>>(8*i)))
			}
		}
		return
	}
	f.Add(encode(sample))
	f.Add(encode(sample[:9]))
	f.Fuzz(func(t *testing.T, b []byte) {
		words := make([]int64, len(b)/8)
		for i := range words {
			for j := range 8 {
				words[i] |= int64(b[8*i+j]) << (8 * j)
			}
		}
		if taken, err := walk(words); err == nil && len(taken) > len(words) {
			t.Errorf("%d arguments in %d words", len(taken), len(words))
		}
	})
}
