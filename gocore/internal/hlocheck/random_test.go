package hlocheck

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// outside are the methods that random calls leave out: they are about the module and not an
// operation, or take text or devices that have to exist.
var outside = []string{"Return", "Bytes", "Err", "Failf", "Loc", "Locations", "ModuleAttrs", "ResultAttrs", "NextAttrs", "Mark", "SetPartitions", "Partitions", "Mesh", "Param",
	"NumParams", "Func", "DefineFunc", "Call", "Composite", "CustomCall", "ShardingConstraint", "AllReduce", "AllGather", "AllToAll",
	"ReduceScatter", "CollectivePermute", "CollectiveBroadcast", "ConstantBytes", "RngUniform", "RngNormal"}

var poolShapes = []string{"f32[2,3]", "f32[2,3]", "f32[3]", "f32[2]", "i32[2,3]", "i64[2,3]", "i1[2,3]", "i1[]", "f32[]", "i32[]",
	"complex<f32>[2,3]", "f32[3,3]", "bf16[2,3]", "ui8[2,3]", "f64[2,1]", "f32[1,2,3]", "f32[0,3]", "ui64[2]", "f16[4]", "f8E5M2[2,3]"}

// caller makes up arguments.
type caller struct {
	rng  *rand.Rand
	b    *hlo.Builder
	pool []hlo.Value
	like hlo.Value // the value chosen before
}

func (c *caller) value() hlo.Value {
	switch p := c.rng.IntN(20); {
	case p == 0:
		return hlo.Value{}
	case p < 12 && !c.like.IsZero():
		return c.like
	}
	c.like = c.pool[c.rng.IntN(len(c.pool))]
	return c.like
}

func (c *caller) ints() []int64 {
	if c.rng.IntN(4) == 0 {
		return nil
	}
	if c.rng.IntN(3) == 0 {
		return slices.Clone(c.like.Dims())
	}
	out := make([]int64, c.rng.IntN(4))
	for i := range out {
		out[i] = int64(c.rng.IntN(4))
		if c.rng.IntN(12) == 0 {
			out[i] = -1
		}
	}
	return out
}

// function is a function that returns its one argument.
func (c *caller) function() *hlo.Function {
	b := hlo.NewModule("other")
	b.Return(b.Param(c.pool[c.rng.IntN(len(c.pool))].Shape()))
	f, err := b.Function()
	if err != nil {
		panic(err)
	}
	return f
}

// argument makes up a value of any type that a Builder's method takes.
func (c *caller) argument(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[hlo.Value]():
		return reflect.ValueOf(c.value())
	case t == reflect.TypeFor[*shape.Shape]():
		return reflect.ValueOf(c.pool[c.rng.IntN(len(c.pool))].Shape())
	case t == reflect.TypeFor[dtype.DType]():
		return reflect.ValueOf(dtype.DType(c.rng.IntN(int(dtype.Count))))
	case t == reflect.TypeFor[hlo.Direction]():
		return reflect.ValueOf([]hlo.Direction{hlo.EQ, hlo.LT, hlo.GE, "??"}[c.rng.IntN(4)])
	case t == reflect.TypeFor[hlo.FftType]():
		return reflect.ValueOf([]hlo.FftType{hlo.FFT, hlo.IFFT, hlo.RFFT, hlo.IRFFT}[c.rng.IntN(4)])
	case t == reflect.TypeFor[hlo.RngAlgorithm]():
		return reflect.ValueOf([]hlo.RngAlgorithm{hlo.RngDefault, hlo.RngPhilox, hlo.RngThreeFry}[c.rng.IntN(3)])
	case t == reflect.TypeFor[hlo.Scalar]():
		return reflect.ValueOf([]hlo.Scalar{hlo.Int(-1), hlo.Float(0.5), hlo.Bool(true), hlo.Complex(1i), hlo.Uint(7)}[c.rng.IntN(5)])
	case t == reflect.TypeFor[[]int64]():
		return reflect.ValueOf(c.ints())
	case t == reflect.TypeFor[*hlo.Function]():
		return reflect.ValueOf(c.function())
	}
	switch t.Kind() {
	case reflect.Slice:
		n := c.rng.IntN(3)
		v = reflect.MakeSlice(t, n, n)
		for i := range n {
			v.Index(i).Set(c.argument(t.Elem()))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(c.argument(t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(c.argument(t.Field(i).Type))
		}
	case reflect.Func:
		return reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value { return c.body(t, args) })
	case reflect.Bool:
		v.SetBool(c.rng.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(c.rng.IntN(5) - 1))
	case reflect.Uint8:
		v.SetUint(uint64(c.rng.IntN(3)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(c.rng.Float64())
	case reflect.Complex128:
		v.SetComplex(complex(c.rng.Float64(), 1))
	default:
		panic("no argument of type " + t.String())
	}
	return v
}

// body is a region: it returns some of its arguments, an i1, or a value from outside.
func (c *caller) body(t reflect.Type, args []reflect.Value) []reflect.Value {
	var vals []hlo.Value
	for _, a := range args[1:] {
		if v, ok := a.Interface().(hlo.Value); ok {
			vals = append(vals, v)
		} else if vs, ok := a.Interface().([]hlo.Value); ok {
			vals = append(vals, vs...)
		}
	}
	pick := func() hlo.Value {
		switch p := c.rng.IntN(10); {
		case p == 0:
			return c.value()
		case p < 4 || len(vals) == 0:
			return c.b.Scalar(dtype.Bool, hlo.Bool(true))
		}
		return vals[c.rng.IntN(len(vals))]
	}
	if t.Out(0) == reflect.TypeFor[hlo.Value]() {
		return []reflect.Value{reflect.ValueOf(pick())}
	}
	if len(args) > 1 && c.rng.IntN(2) == 0 {
		return []reflect.Value{args[1]}
	}
	out := make([]hlo.Value, c.rng.IntN(3))
	for i := range out {
		out[i] = pick()
	}
	return []reflect.Value{reflect.ValueOf(out)}
}

// call calls method number m of the Builder with arguments that depend on the seed alone.
func call(b *hlo.Builder, pool []hlo.Value, m int, seed uint64) {
	c := &caller{rng: rand.New(rand.NewPCG(seed, uint64(m))), b: b, pool: pool}
	f := reflect.ValueOf(b).Method(m)
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		args = append(args, c.argument(f.Type().In(i)))
	}
	if f.Type().IsVariadic() {
		f.CallSlice(args)
		return
	}
	f.Call(args)
}

func parameters(b *hlo.Builder) (pool []hlo.Value) {
	for _, text := range poolShapes {
		s, _ := shape.Parse(text)
		pool = append(pool, b.Param(s))
	}
	return pool
}

// module is the text of the calls, a crash if there was one, and the first error of the Builder.
func module(calls ...[2]uint64) (text []byte, crash any, err error) {
	b := hlo.NewModule("random")
	pool := parameters(b)
	defer func() { crash = recover() }()
	for _, k := range calls {
		call(b, pool, int(k[0]), k[1])
	}
	b.Return()
	text, err = b.Bytes()
	return
}

// TestRandomCalls calls every operation with random arguments. None may crash, and what the Builder
// accepts the compiler must accept: its verifier checks operands and infers types by itself.
func TestRandomCalls(t *testing.T) {
	const tries = 300
	typ := reflect.TypeFor[*hlo.Builder]()
	var accepted [][2]uint64
	for m := range typ.NumMethod() {
		name := typ.Method(m).Name
		if slices.Contains(outside, name) {
			continue
		}
		good := 0
		for seed := range uint64(tries) {
			_, crash, err := module([2]uint64{uint64(m), seed})
			if crash != nil {
				t.Errorf("%s, seed %d: %v", name, seed, crash)
			} else if err == nil {
				good++
				if good <= 60 {
					accepted = append(accepted, [2]uint64{uint64(m), seed})
				}
			}
		}
		t.Logf("%s: %d of %d accepted", name, good, tries)
	}
	if t.Failed() {
		return
	}
	checkAccepted(t, accepted)
}

// checkAccepted compiles the calls together in groups, and one by one where a group fails.
func checkAccepted(t *testing.T, accepted [][2]uint64) {
	c := client(t)
	for part := range slices.Chunk(accepted, 100) {
		if compiles(c, part...) == nil {
			continue
		}
		for _, k := range part {
			if err := compiles(c, k); err != nil {
				text, _, _ := module(k)
				t.Errorf("%s, seed %d: %v\n%s", reflect.TypeFor[*hlo.Builder]().Method(int(k[0])).Name, k[1], err, text)
			}
		}
	}
	t.Logf("%d calls compiled", len(accepted))
}

func compiles(c *pjrt.Client, calls ...[2]uint64) error {
	text, crash, err := module(calls...)
	if err != nil || crash != nil {
		return fmt.Errorf("%v %v", err, crash)
	}
	exe, err := c.Compile(text, "mlir", pjrt.CompileOptions{})
	if err != nil {
		return err
	}
	return exe.Close()
}
