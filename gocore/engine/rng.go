package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// seed is the random state of a device: the key of the counter-based generator and how many ops drew
// from it. It lives on the host, so that the stream does not depend on where the syncs are.
type seed struct{ key, draws uint64 }

// key appends the random key of an op: two numbers that are always arguments of the program.
func (e *Engine) key(t *alias.Trace, dev int32) {
	s := &e.seeds[dev]
	for i, x := range [2]uint64{s.key, s.draws} {
		n := ir.Number{Type: dtype.I64, I: int64(x)}
		e.scratch.words = append(e.scratch.words, ir.Tag(ir.KInt, 0))
		e.scratch.in = append(e.scratch.in, t.Graph.AddArgument(n, [2]ir.Flags{ir.RandomKey, ir.RandomDraw}[i]))
	}
	s.draws++
}

// Seed sets the random state of a device.
func (e *Engine) Seed(dev int, key, draws int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.device(dev); err != nil {
		return err
	}
	e.seeds[dev] = seed{uint64(key), uint64(draws)}
	return nil
}

// RandomState is the random state of a device: the seed and the number of draws.
func (e *Engine) RandomState(dev int) (key, draws int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.device(dev); err != nil {
		return 0, 0, err
	}
	s := e.seeds[dev]
	return int64(s.key), int64(s.draws), nil
}
