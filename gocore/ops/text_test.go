package ops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// printed is the text of a program whose nodes are all of its graph.
func printed(p *ir.Program) string {
	g := &p.Graph
	number := make([]int, g.Len())
	ref := func(id ir.ID) string {
		if k := g.At(id).Index; k > 0 {
			return fmt.Sprintf("%%%d#%d", number[id-ir.ID(k)], k)
		}
		return fmt.Sprintf("%%%d", number[id])
	}
	var b strings.Builder
	n := 0
	for id := ir.ID(1); int(id) < g.Len(); id++ {
		if g.At(id).Op == ir.OpResult {
			continue
		}
		n++
		number[id] = n
		fmt.Fprintf(&b, "%s = %s\n", ref(id), ir.Text(Vocabulary, g, id, ref))
	}
	b.WriteString("return")
	for i, id := range p.Roots {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s : %s", ref(id), g.Shape(id))
	}
	return b.String() + "\n"
}

// everyForm has each kind of argument, number, mark and result.
const everyForm = `%1 = xla::data : f32[2,3]
%2 = xla::data (local) : i64[]
%3 = xla::scalar True : i1[]
%4 = xla::scalar -0.5 (argument) : f64[]
%5 = xla::scalar (1.5-2j) : complex<f64>[]
%6 = xla::scalar NaN (tensor) : f32[]
%7 = xla::scalar 9 (argument, seed) : i64[]
%8 = xla::scalar 0 (argument, draw) : i64[]
%9 = xla::scalar 4 (argument, index) : i64[]
%10 = xla::dynamic_slice %1, [%9, %9] {sizes=[1, 1]} : f32[1,1]
%11 = aten::native_dropout %1, %7, %8 {p=0.25, train=1} : f32[2,3], i1[2,3]
%12 = aten::cat [%1, %11] {dim=0} : f32[4,3]
%13 = aten::index.Tensor %12, [None, %2] : f32[4]
%14 = aten::clamp %1, None, %4 : f32[2,3]
%15 = aten::gelu %1 {approximate="tanh"} : f32[2,3]
%16 = aten::sum.dim_IntList %1 {dim=[], keepdim=0, dtype=f64} : f64[]
%17 = aten::native_layer_norm %1, None, None {normalized_shape=[3], eps=1e-05} : f32[2,3], f32[2,1], f32[2,1]
%18 = torch_go_xla::annotate %1 {sharding="{devices=[2,1]<=[2]}"} : f32[2,3]
return %17#2 : f32[2,1], %18 : f32[2,3], %1 : f32[2,3]
`

func TestTextRoundTrip(t *testing.T) {
	p, err := ir.Parse(Vocabulary, everyForm)
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(p); got != everyForm {
		t.Errorf("read and printed again:\n%s", got)
	}
	if g := &p.Graph; !g.Manual(p.Data[1]) || g.Manual(p.Data[0]) {
		t.Error("the mark of a local value is lost")
	}
}

// Every argument of every row is known by name, as many as its schema has.
func TestVocabularyHasEveryArgument(t *testing.T) {
	for i := range Table {
		op := ir.FirstRow + ir.Op(i)
		list, _, _ := strings.Cut(Table[i].Schema, " ->")
		args := Vocabulary.Arguments(op)
		for _, a := range args {
			if !strings.Contains(list, " "+a.Name) {
				t.Errorf("%s: argument %s is not in %s", Table[i].Name, a.Name, list)
			}
		}
		if types := strings.Count(list, "Tensor") + strings.Count(list, "Scalar "); len(args) == 0 && types > 0 {
			t.Errorf("%s has no arguments", Table[i].Name)
		}
		if back, ok := Vocabulary.Lookup(Vocabulary.Name(op)); !ok || back != op {
			t.Errorf("%s is looked up as %d, %v", Vocabulary.Name(op), back, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everyForm)
	for line := range strings.Lines(everyForm) {
		f.Add(line + "return")
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ir.Parse(Vocabulary, in)
		if err != nil {
			return
		}
		first := printed(p)
		again, err := ir.Parse(Vocabulary, first)
		if err != nil {
			t.Fatalf("%v in what was printed:\n%s", err, first)
		}
		if twice := printed(again); twice != first {
			t.Errorf("printed\n%s\nthen\n%s", first, twice)
		}
	})
}
