package engine

import (
	"bytes"
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
)

// work is what a graph has to do in each tier. It is a function of the graph only, so that every run of a program
// decides alike.
type work struct {
	Statements int64 `json:"statements"` // of the StableHLO module
	Loops      int64 `json:"loops"`      // those of them that XLA makes loops of their own for
	Calls      int64 `json:"calls"`      // of kernels, op by op
	Bytes      int64 `json:"bytes"`      // see interp.Work, as for the ones below
	Results    int64 `json:"results"`
	Products   int64 `json:"products"`
	Functions  int64 `json:"functions"`
}

// dialect is before the name of each op of a module.
var dialect = []byte("stablehlo.")

// moduleLoops are StableHLO's ops for which XLA makes loops of their own, by the beginnings of their names.
var moduleLoops = [][]byte{[]byte("reduce"), []byte("sort"), []byte("scatter"), []byte("gather"), []byte("while"), []byte("dynamic_update_slice"),
	[]byte("concatenate"), []byte("select_and_scatter")}

func workOf(module []byte, steps interp.Work) work {
	w := work{Statements: int64(bytes.Count(module, []byte("\n"))), Calls: int64(steps.Calls), Bytes: max(steps.Bytes, 0), Results: steps.Results,
		Products: steps.Products, Functions: steps.Functions}
	for rest := module; ; {
		_, name, found := bytes.Cut(rest, dialect)
		if !found {
			return w
		}
		if slices.ContainsFunc(moduleLoops, func(op []byte) bool { return bytes.HasPrefix(name, op) }) {
			w.Loops++
		}
		rest = name
	}
}

// cost is what a graph is predicted to cost, in nanoseconds.
type cost struct {
	compile float64 // once
	run     float64 // each launch op by op
	gain    float64 // what of that a compiled launch saves
}

// Rates in nanoseconds, fitted by `python -m benchmarks.tier_costs` to the figures in testdata/tier_costs.csv.
const (
	perProgram   = 4e6
	perStatement = 5.7e5
	perLoop      = 2.4e7
	perCall      = 3300
	perByte      = 0.12
	perResult    = 0.055
	perProduct   = 0.02
	perFunction  = 5.5
)

// timesCompile is how many times the cost of its compilation a graph may run op by op, whatever the gain. So a wrong
// gain costs little: a steady loop is compiled in the end, which adds a quarter to what it took until then.
const timesCompile = 4

// predict predicts the cost of a graph's work.
func (w work) predict() cost {
	var c cost
	c.compile = perProgram + perStatement*float64(w.Statements) + perLoop*float64(w.Loops)
	c.run = perCall*float64(w.Calls) + perByte*float64(w.Bytes) + perResult*float64(w.Results) + perProduct*float64(w.Products)
	c.gain = c.run - perProduct*float64(w.Products) - perFunction*float64(w.Functions)
	return c
}

// worth is the number of the launch from which a compilation pays. By then the graph has cost as much more op by op as
// the compilation would. That is never more than twice the best choice in hindsight. It is 0 for a graph whose
// compiled program is predicted to be slower.
func (c cost) worth() int64 {
	if c.gain <= 0 {
		return 0
	}
	return 1 + int64(math.Ceil(min(c.compile/c.gain, timesCompile*c.compile/c.run)))
}

// pays tells whether a graph that is seen for the n-th time should be compiled.
func (c cost) pays(n int64) bool { return c.worth() > 0 && n >= c.worth() }
