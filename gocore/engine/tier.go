package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
)

// A graph can run in two ways, its tiers. Op by op, by torch's own kernels, it runs at once (package interp); or it
// runs by the program that XLA makes of it. Both give the results of the same plan; which of them runs is decided for
// each launch.

// tier is how it is decided.
type tier uint8

const (
	compileTier    tier = iota // by XLA
	eagerTier                  // op by op
	autoTier                   // op by op until a compilation is predicted to pay
	backgroundTier             // op by op while XLA compiles
)

var tiers = []string{"compile", "eager", "auto", "background"}

// graphsCompiled counts the graphs that cannot run op by op, by the op that is why.
var graphsCompiled = metrics.C("NotInterpretable")

// mode is how it is decided now: XLA_TIER.
func mode() tier { return tier(max(0, slices.Index(tiers, config.String("XLA_TIER")))) }

// interpretable is how a graph runs op by op, and what is known of that.
type interpretable struct {
	steps  *torchcpu.Program
	text   func() (*lower.Program, error) // the program as it is compiled; nil once the cache has dropped it
	does   interp.Work
	work   work // see weigh, as for cost
	cost   cost
	exact  bool // the module was weighed
	lone   bool // it runs so in every mode; see lone.go
	place  torchcpu.Place
	seen   int64       // how many launches of it have been planned; Engine.mu guards it
	kept   bool        // its compiled program is there, or in the disk cache; Engine.mu guards it
	failed atomic.Bool // a launch of it failed so; the launches set and read it
}

// weigh predicts the cost by the module, which is lowered for that. Until then it is that of an empty module, the least that
// a compilation can cost. The caller holds mu.
func (i *interpretable) weigh() {
	if i.exact {
		return
	}
	text, err := i.text()
	if text == nil {
		return
	}
	i.exact, i.work = true, workOf(text.Module, i.does)
	if i.cost = i.work.predict(); err != nil {
		i.cost.gain = 0 // it cannot be compiled
	}
}

// pays tells whether a graph that has been seen so often should be compiled.
func (i *interpretable) pays() bool {
	if !i.exact && i.cost.pays(i.seen) {
		i.weigh()
	}
	return i.cost.pays(i.seen)
}

// tierOf says how a graph runs that is not compiled, for people.
func tierOf(ops *interpretable) string {
	switch {
	case ops == nil || ops.lone && ops.failed.Load():
		return ""
	case ops.lone:
		return "by torch's kernels, as there is little to fuse"
	}
	seen, times := max(ops.seen, 1), "times" // it is asked while the first launch is planned, too
	if seen == 1 {
		times = "time"
	}
	if ops.kept {
		return "" // it is compiled, or was by an earlier process
	}
	ops.weigh()
	worth := ops.cost.worth()
	if worth == 0 {
		return fmt.Sprintf("op by op: seen %d %s, a compilation gains nothing", seen, times)
	}
	return fmt.Sprintf("op by op: seen %d %s, a compilation is worth it from %d", seen, times, worth)
}
