package pjrt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// lapackArray is an operand or a result of a custom call: its element type and sizes. The sizes that free names may be
// others: "+" the last one smaller, "*" the last one larger or smaller.
type lapackArray struct {
	element, free string
	dims          []int64
}

func (a lapackArray) tensor() string {
	sizes := ""
	for _, n := range a.dims {
		sizes += strconv.FormatInt(n, 10) + "x"
	}
	return "tensor<" + sizes + a.element + ">"
}

// lapackCall is a custom call of LAPACK as JAX writes it. Attributes that are letters are texts here.
type lapackCall struct {
	routine   string
	in, out   []lapackArray
	names     []string
	attribute map[string]string
}

// lapackCalls are calls that fit LAPACK, one a line: routine, operands, results, attributes. T is the type of the
// routine, R its real type, C its complex type, I an integer.
const lapackCalls = `
potrf | T2x3x3 | T2x3x3 I2 | uplo=L
trsm | T2x4x4 T2x4x3 | T2x4x3 | side=L uplo=U trans_x=N diag=U
trsm | T2x3x3 T2x4x3 | T2x4x3 | side=R uplo=L trans_x=T diag=N
getrf | T2x4x3 | T2x4x3 I2x3 I2 |
gtsv | T2x4 T2x4 T2x4 T2x4x3 | T2x4 T2x4 T2x4 T2x4x3 I2 |
geqrf | T2x4x3 | T2x4x3 T2x3 |
geqp3 | T2x4x3 I2x3 | T2x4x3 I2x3 T2x3 |
orgqr | T2x4x3 T2x3+ | T2x4x3 |
ormqr | T2x4x3* T2x3+ T2x4x5 | T2x4x5 | left=true transpose=false
ormqr | T2x5x3* T2x3+ T2x4x5 | T2x4x5 | left=false transpose=true
gehrd | T2x3x3 | T2x3x3 T2x2 I2 | low=1 high=3
sytrd | T2x3x3 | T2x3x3 R2x3 R2x2 T2x2 I2 | uplo=L
syevd | T2x3x3 | T2x3x3 R2x3 I2 | mode=V uplo=L
geev | T2x3x3 | W2x3 C2x3x3 C2x3x3 I2 | compute_left=V compute_right=V
gees | T2x3x3 | T2x3x3 T2x3x3 W2x3 I2 I2 | mode=V sort=N
gesdd | T2x4x3 | T2x4x3 R2x3 T2x4x3 T2x3x3 I2 | mode=S
gesdd | T2x4x3 | T2x4x3 R2x3 T2x4x4 T2x3x3 I2 | mode=A
gesvd | T2x3x4 | T2x3x4 R2x3 T2x3x3 T2x3x4 I2 | mode=S
`

// unitary are the names of routines of complex types that are not those of real ones.
var unitary = map[string]string{"orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd", "syevd": "heevd"}

func parseLapackArrays(t *testing.T, list string, ofComplex bool) (out []lapackArray) {
	t.Helper()
	real, full := "f32", "f32"
	if ofComplex {
		full = "complex<f32>"
	}
	for word := range strings.FieldsSeq(list) {
		kind, sizes := word[0], strings.TrimRight(word[1:], "+*")
		a := lapackArray{element: map[byte]string{'T': full, 'R': real, 'C': "complex<f32>", 'I': "i32", 'W': full}[kind], free: word[1+len(sizes):]}
		for size := range strings.SplitSeq(sizes, "x") {
			n, err := strconv.ParseInt(size, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			a.dims = append(a.dims, n)
		}
		out = append(out, a)
		if kind == 'W' && !ofComplex { // the values' imaginary parts
			out = append(out, a)
		}
	}
	return out
}

func parseLapackCalls(t *testing.T, ofComplex bool) (out []*lapackCall) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(lapackCalls)) {
		part := strings.Split(line, "|")
		c := &lapackCall{routine: strings.TrimSpace(part[0]), attribute: make(map[string]string)}
		if name := unitary[c.routine]; ofComplex && name != "" {
			c.routine = name
		}
		c.in, c.out = parseLapackArrays(t, part[1], ofComplex), parseLapackArrays(t, part[2], ofComplex)
		for pair := range strings.FieldsSeq(part[3]) {
			name, value, _ := strings.Cut(pair, "=")
			c.names, c.attribute[name] = append(c.names, name), value
		}
		c.routine = map[bool]string{false: "s", true: "c"}[ofComplex] + c.routine
		out = append(out, c)
	}
	return out
}

// module is a program of the call only.
func (c *lapackCall) module() string {
	var params, names, ins, outs, results, attributes []string
	for i, a := range c.in {
		params, names, ins = append(params, fmt.Sprintf("%%a%d: %s", i, a.tensor())), append(names, fmt.Sprintf("%%a%d", i)), append(ins, a.tensor())
	}
	for i, a := range c.out {
		outs, results = append(outs, a.tensor()), append(results, fmt.Sprintf("%%r#%d", i))
	}
	for _, name := range c.names {
		value := c.attribute[name]
		switch _, err := strconv.Atoi(value); {
		case err == nil:
			value += " : i32"
		case len(value) == 1:
			value = fmt.Sprintf("%d : ui8", value[0])
		}
		attributes = append(attributes, name+" = "+value)
	}
	give := strings.Join(outs, ", ")
	return fmt.Sprintf(`func.func @main(%s) -> (%s) {
  %%r:%d = "stablehlo.custom_call"(%s) {call_target_name = "lapack_%s_ffi", api_version = 4 : i32, backend_config = {%s}} : (%s) -> (%s)
  return %s : %s
}`, strings.Join(params, ", "), give, len(outs), strings.Join(names, ", "), c.routine, strings.Join(attributes, ", "), strings.Join(ins, ", "), give,
		strings.Join(results, ", "), give)
}

func (c *lapackCall) clone() *lapackCall {
	out := &lapackCall{routine: c.routine, names: slices.Clone(c.names), attribute: make(map[string]string)}
	for _, list := range []struct{ from, to *[]lapackArray }{{&c.in, &out.in}, {&c.out, &out.out}} {
		for _, a := range *list.from {
			*list.to = append(*list.to, lapackArray{a.element, a.free, slices.Clone(a.dims)})
		}
	}
	for k, v := range c.attribute {
		out.attribute[k] = v
	}
	return out
}

// misfits are calls that differ from c in one place and do not fit LAPACK.
func (c *lapackCall) misfits() map[string]*lapackCall {
	out := make(map[string]*lapackCall)
	add := func(what string, change func(*lapackCall)) {
		m := c.clone()
		change(m)
		out[what] = m
	}
	lists := map[string]func(*lapackCall) *[]lapackArray{
		"operand": func(m *lapackCall) *[]lapackArray { return &m.in },
		"result":  func(m *lapackCall) *[]lapackArray { return &m.out },
	}
	for kind, of := range lists {
		add("one more "+kind, func(m *lapackCall) { *of(m) = append(*of(m), (*of(m))[0]) })
		for i, a := range *of(c) {
			what := fmt.Sprintf("%s %d ", kind, i)
			add("no "+what, func(m *lapackCall) { *of(m) = slices.Delete(*of(m), i, i+1) })
			add(what+"of another type", func(m *lapackCall) { (*of(m))[i].element = "f64" })
			add(what+"without dimensions", func(m *lapackCall) { (*of(m))[i].dims = nil })
			for d := range a.dims {
				add(fmt.Sprintf("%s without dimension %d", what, d), func(m *lapackCall) { (*of(m))[i].dims = slices.Delete(slices.Clone(a.dims), d, d+1) })
				last := d == len(a.dims)-1
				if !last || a.free == "" {
					add(fmt.Sprintf("%s with dimension %d smaller", what, d), func(m *lapackCall) { (*of(m))[i].dims[d]-- })
				}
				if !last || a.free != "*" {
					add(fmt.Sprintf("%s with dimension %d larger", what, d), func(m *lapackCall) { (*of(m))[i].dims[d]++ })
				}
			}
		}
	}
	for i, name := range c.names {
		add("no "+name, func(m *lapackCall) { m.names = slices.Delete(m.names, i, i+1) })
		for _, value := range []string{"?", "9"} {
			add(name+" = "+value, func(m *lapackCall) { m.attribute[name] = value })
		}
	}
	return out
}

// zeros is an array on the device.
func (f *fixture) zeros(a lapackArray) Buffer {
	f.t.Helper()
	types := map[string]Type{"f32": F32, "f64": F64, "i32": S32, "complex<f32>": C64}
	n := 1
	for _, d := range a.dims {
		n *= int(d)
	}
	data := pinned[complex128](f.t, max(n, 1))
	b, e, err := f.FromHost(unsafe.Pointer(unsafe.SliceData(data)), types[a.element], a.dims, nil, f.AddressableDevices()[0], OnlyDuringCall)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.AwaitAndDestroy(e); err != nil {
		f.t.Fatal(err)
	}
	return b
}

// TestRealLapackCalls runs custom calls of LAPACK that fit, and each with one thing changed. A call that does not fit
// is an error, whether or not there is a LAPACK: PJRT_XLA_CPU_LAPACK_LIBRARY names one.
func TestRealLapackCalls(t *testing.T) {
	f := realFixture(t, 1)
	run := func(c *lapackCall) error {
		x, err := f.Compile([]byte(c.module()), "mlir", CompileOptions{})
		if err != nil {
			return fmt.Errorf("compile: %w", err)
		}
		defer x.Close()
		k := f.prepare(x, len(c.in))
		args := make([]Buffer, len(c.in))
		for i, a := range c.in {
			args[i] = f.zeros(a)
		}
		defer f.destroy(args...)
		outs, events := make([]Buffer, x.NumOutputs()), make([]Event, 1)
		if err := k.Execute(args, nil, outs, events); err != nil {
			return err
		}
		defer f.destroy(outs...)
		return f.AwaitAndDestroy(events[0])
	}
	refused := 0
	for _, ofComplex := range []bool{false, true} {
		for _, c := range parseLapackCalls(t, ofComplex) {
			if err := run(c); err != nil && !strings.Contains(err.Error(), "needs a LAPACK library") {
				t.Errorf("%s: %v\n%s", c.routine, err, c.module())
				continue
			}
			if testing.Short() || ofComplex && !slices.Contains([]string{"cgeev", "cgees"}, c.routine) {
				continue // the same code as for real types
			}
			for what, m := range c.misfits() {
				switch err := run(m); {
				case err == nil || strings.Contains(err.Error(), "needs a LAPACK library"):
					t.Errorf("%s, %s: %v", c.routine, what, err)
				default:
					refused++
				}
			}
		}
	}
	t.Logf("%d calls are refused", refused)
}
