package ops

import (
	goflag "flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

var rewrite = goflag.Bool("rewrite", false, "write testdata/*.txt again")

// numbered makes each number that is an argument a parameter of the module.
type numbered struct{ *params }

func (n numbered) Argument(id ir.ID, d dtype.DType) value {
	if _, ok := n.given[id]; !ok {
		n.given[id] = n.b.Param(shape.Make(d))
	}
	return Convert(n.b, n.given[id], d)
}

// lowerText is the module of a graph in text form. The shape rules must give the shapes that the text states, and the
// lowerings values of these.
func lowerText(t *testing.T, text string, functions map[string]*stablehlo.Function) *stablehlo.Builder {
	t.Helper()
	p, err := ir.Parse(Vocabulary, text)
	if err != nil {
		t.Fatal(err)
	}
	g, b := &p.Graph, stablehlo.NewModule("golden")
	src := numbered{&params{b, g, map[ir.ID]value{}}}
	for _, id := range p.Data {
		src.Value(id)
	}
	c := Ctx{DefaultFloat: dtype.F32, Functions: functions}
	l := Lowering{B: b, Graph: g, Src: src, TorchKernels: true, Functions: functions}
	for id := ir.ID(1); int(id) < g.Len(); id++ {
		row := Of(g.At(id).Op)
		if row == nil {
			continue
		}
		stated := make([]*shape.Shape, g.At(id).Results)
		for k := range stated {
			stated[k] = g.Shape(id + ir.ID(k))
		}
		c.Begin(g, row, g.Attr(id), g.In(id))
		if err := row.Infer(&c); err != nil || !slices.Equal(c.Outs(), stated) {
			t.Fatalf("%s: the shape rule gives %v, %v; the text states %v", row.Name, c.Outs(), err, stated)
		}
		l.Begin(id)
		l.Lower(row)
		for k, v := range l.Outs() {
			if v.Shape() != stated[k] {
				t.Fatalf("%s: result %d is lowered to %v, not %v", row.Name, k, v.Shape(), stated[k])
			}
			src.given[id+ir.ID(k)] = v
		}
	}
	roots := make([]value, len(p.Roots))
	for i, id := range p.Roots {
		roots[i] = src.Value(id)
	}
	b.Return(roots...)
	return b
}

// TestGolden lowers the graphs of testdata/FAMILY.txt. A section is "-- name --", a graph as far as its return, and the
// module that it becomes; "-- function name --" makes a function that the sections after it call.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			functions := map[string]*stablehlo.Function{}
			var got strings.Builder
			for _, section := range strings.Split("\n"+string(want), "\n-- ")[1:] {
				title, body, _ := strings.Cut(section, " --\n")
				graph, rest, _ := strings.Cut(body, "\nreturn ")
				result, _, _ := strings.Cut(rest, "\n")
				graph += "\nreturn " + result + "\n"
				b := lowerText(t, graph, functions)
				text, err := b.Bytes()
				if name, ok := strings.CutPrefix(title, "function "); ok && err == nil {
					functions[name], err = lowerText(t, graph, functions).Function()
				}
				if err != nil {
					t.Fatalf("%s: %v", title, err)
				}
				got.WriteString("-- " + title + " --\n" + graph + string(text))
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != string(want) {
				w, g := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
				i := 0
				for i < len(w)-1 && i < len(g)-1 && w[i] == g[i] {
					i++
				}
				t.Errorf("%s differs at line %d (make golden writes it again)\nwant %s\ngot  %s", file, i+1, w[i], g[i])
			}
		})
	}
}
