package engine

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
)

// measured are a program's recorded figures, see benchmarks/tier_costs.py.
type measured struct {
	name string
	work
	compiling, ops, compiled float64 // nanoseconds
}

func recordedPrograms(t *testing.T) []measured {
	t.Helper()
	f, err := os.Open("testdata/tier_costs.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []measured
	for _, row := range rows[1:] {
		at := make(map[string]int64)
		for i, column := range rows[0][1:] {
			if at[column], err = strconv.ParseInt(row[1+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, measured{row[0], work{at["statements"], at["loops"], at["calls"], at["bytes"], at["results"], at["products"],
			at["functions"]}, float64(at["compiling"]), float64(at["ops"]), float64(at["compiled"])})
	}
	return out
}

// auto is what n launches cost, of which those before the given one run op by op.
func (m *measured) auto(n, worth int64) float64 {
	if worth == 0 || n < worth {
		return float64(n) * m.ops
	}
	return float64(worth-1)*m.ops + m.compiling + float64(n-worth+1)*m.compiled
}

// TestAutoIsNearTheBetterTier compares the total of auto with that of the better tier, for each number of launches.
func TestAutoIsNearTheBetterTier(t *testing.T) {
	const most = 2.2 // twice, and a tenth for predictions that are off
	programs := recordedPrograms(t)
	if len(programs) < 40 {
		t.Fatalf("%d programs are recorded", len(programs))
	}
	logs := 0.0
	for _, m := range programs {
		worth, worst := m.predict().worth(), 1.0
		for n := int64(1); n < 1<<20; n += 1 + n/64 {
			worst = max(worst, m.auto(n, worth)/min(m.auto(n, 0), m.auto(n, 1)))
		}
		if worth > 0 {
			worst = max(worst, m.auto(worth, worth)/min(m.auto(worth, 0), m.auto(worth, 1)))
		}
		if worst > most {
			t.Errorf("%s: compiled from launch %d, at worst %.2f of the better tier", m.name, worth, worst)
		}
		logs += math.Log(worst)
	}
	if mean := math.Exp(logs / float64(len(programs))); mean > 1.5 {
		t.Errorf("the geometric mean of the worst is %.2f", mean)
	}
}

// TestSteadyLoopIsCompiled: no program stays op by op for good where its compiled one is clearly faster.
func TestSteadyLoopIsCompiled(t *testing.T) {
	for _, m := range recordedPrograms(t) {
		if worth := m.predict().worth(); m.compiled*1.1 < m.ops && worth == 0 {
			t.Errorf("%s takes %.0f ns op by op and %.0f ns compiled, and is never compiled", m.name, m.ops, m.compiled)
		}
	}
}

// TestWorth compares each choice with the better one in hindsight, where the predictions are right.
func TestWorth(t *testing.T) {
	for _, c := range []cost{{100, 1, 1}, {100, 7, 7}, {100, 1000, 1000}, {1, 1, 1}, {1000, 100, 1}} {
		extra, compiled := 0.0, false // over the compiled launches
		for n := int64(1); n < 3000; n++ {
			if !compiled && c.pays(n) {
				compiled = true
				extra += c.compile
			}
			if !compiled {
				extra += c.gain
			}
			rest := float64(n) * (c.run - c.gain)
			if best := min(float64(n)*c.gain, c.compile); extra+rest > 2*(best+rest)+c.gain {
				t.Errorf("%+v: %d launches cost %f more, the best %f", c, n, extra, best)
			}
		}
		if !compiled {
			t.Errorf("%+v is never compiled", c)
		}
	}
	if never := (cost{100, 5, -1}); never.pays(1<<40) || never.worth() != 0 {
		t.Error("a compilation that gains nothing pays")
	}
}

func TestWork(t *testing.T) {
	module := "module {\n  %0 = stablehlo.dot_general\n  %1 = stablehlo.reduce(%0)\n  %2 = stablehlo.sine %1\n}\n"
	w := workOf([]byte(module), interp.Work{Calls: 2, Bytes: -4, Results: 8, Products: 9, Functions: 1})
	if w != (work{Statements: 5, Loops: 1, Calls: 2, Bytes: 0, Results: 8, Products: 9, Functions: 1}) {
		t.Errorf("%+v", w)
	}
}
