// Package metrics counts what happens, under the names that torch_xla users know: counters, and
// metrics, which are samples with a total (CompileTime, ExecuteTime, …). The package imports nothing of
// the project. All functions are safe for concurrent use.
package metrics

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/exp/stats"
)

// Counter is a number of events.
type Counter struct {
	name string
	n    atomic.Int64
}

// Add adds n events.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Value is the count.
func (c *Counter) Value() int64 { return c.n.Load() }

// window is how many of the latest samples a metric keeps for percentiles.
const window = 1024

// levels are the percentiles that a summary has, those of torch_xla's reports.
var levels = []float64{0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99}

// Metric is a series of samples.
type Metric struct {
	name string
	unit string // "ns" or "bytes" or ""

	mu    sync.Mutex // guards the fields below
	count int64
	total float64
	last  [window]float64 // a ring
}

// Add appends a sample.
func (m *Metric) Add(v float64) {
	m.mu.Lock()
	m.last[m.count%window] = v
	m.count++
	m.total += v
	m.mu.Unlock()
}

// Since appends the nanoseconds since t.
func (m *Metric) Since(t time.Time) { m.Add(float64(time.Since(t))) }

// Summary is a metric's state.
type Summary struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Count   int64     `json:"count"`
	Total   float64   `json:"total"`
	Samples []float64 `json:"samples"` // the latest, oldest first

	// Percentiles are those of the samples: each with its level, from 0 to 1, and its value. Between samples they are
	// interpolated.
	Percentiles [][2]float64 `json:"percentiles"`
}

// Summary copies the state.
func (m *Metric) Summary() Summary {
	s := m.copied()
	if len(s.Samples) == 0 {
		return s
	}
	for i, v := range stats.Quantiles(s.Samples, levels...) {
		s.Percentiles = append(s.Percentiles, [2]float64{levels[i], v})
	}
	return s
}

// copied is a Summary without percentiles: these take a sort, for which no sample waits.
func (m *Metric) copied() Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Summary{Name: m.name, Unit: m.unit, Count: m.count, Total: m.total}
	n := min(m.count, window)
	for i := m.count - n; i < m.count; i++ {
		s.Samples = append(s.Samples, m.last[i%window])
	}
	return s
}

var registry struct {
	sync.Mutex // guards the maps, not what they hold
	counters   map[string]*Counter
	metrics    map[string]*Metric
}

// C returns the counter of a name, made at first use. Keep the result where it is hot.
func C(name string) *Counter {
	registry.Lock()
	defer registry.Unlock()
	c := registry.counters[name]
	if c == nil {
		if registry.counters == nil {
			registry.counters = make(map[string]*Counter)
		}
		c = &Counter{name: name}
		registry.counters[name] = c
	}
	return c
}

// M returns the metric of a name, made at first use with a unit.
func M(name, unit string) *Metric {
	registry.Lock()
	defer registry.Unlock()
	m := registry.metrics[name]
	if m == nil {
		if registry.metrics == nil {
			registry.metrics = make(map[string]*Metric)
		}
		m = &Metric{name: name, unit: unit}
		registry.metrics[name] = m
	}
	return m
}

// Counters lists the counters that are not zero, by name.
func Counters() map[string]int64 {
	registry.Lock()
	defer registry.Unlock()
	out := make(map[string]int64)
	for name, c := range registry.counters {
		if n := c.n.Load(); n != 0 {
			out[name] = n
		}
	}
	return out
}

// Metrics lists the metrics that have samples, sorted by name.
func Metrics() []Summary {
	registry.Lock()
	all := make([]*Metric, 0, len(registry.metrics))
	for _, m := range registry.metrics {
		all = append(all, m)
	}
	registry.Unlock()
	var out []Summary
	for _, m := range all {
		if s := m.Summary(); s.Count > 0 {
			out = append(out, s)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// ClearCounters sets all counters to zero.
func ClearCounters() {
	registry.Lock()
	defer registry.Unlock()
	for _, c := range registry.counters {
		c.n.Store(0)
	}
}

// ClearMetrics drops all samples.
func ClearMetrics() {
	registry.Lock()
	defer registry.Unlock()
	for _, m := range registry.metrics {
		m.mu.Lock()
		m.count, m.total = 0, 0
		m.mu.Unlock()
	}
}
