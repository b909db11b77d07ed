package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// generator is a random state of a device: the key of the counter-based generator and how many ops drew
// from it. It lives on the host, so that the stream does not depend on where the syncs are.
type generator struct {
	dev        int32
	key, draws uint64
}

// generators are those of the process by number. A device's own has the device's number.
type generators struct {
	held map[int64]*generator
	last int64
}

// firstGenerator is the least number of a generator that is no device's own.
const firstGenerator = 1 << 32

func newGenerators(devices int) generators {
	g := generators{held: make(map[int64]*generator), last: firstGenerator - 1}
	for i := range devices {
		g.held[int64(i)] = &generator{dev: int32(i)}
	}
	return g
}

// merge makes one device of all: the first one's own generator stays, and others draw for it.
func (g *generators) merge() {
	for number, one := range g.held {
		one.dev = 0
		if number > 0 && number < firstGenerator {
			delete(g.held, number)
		}
	}
}

func (g *generators) at(number int64) (*generator, error) {
	one := g.held[number]
	if one == nil {
		return nil, errs.New(errs.Runtime, "generator %d does not exist", number)
	}
	return one, nil
}

// key appends the random key of an op: two numbers that are always arguments of the program. number is that
// of the generator, -1 for the device's own.
func (e *Engine) key(t *alias.Trace, dev int32, number int64) error {
	if number < 0 {
		number = int64(dev)
	}
	g, err := e.generators.at(number)
	if err != nil {
		return err
	}
	if g.dev != dev {
		return errs.New(errs.Runtime, "Expected a 'xla:%d' device type for generator but found 'xla:%d'", dev, g.dev)
	}
	for i, x := range [2]uint64{g.key, g.draws} {
		e.scratch.words = append(e.scratch.words, wire.Tag(wire.KInt, 0))
		e.scratch.in = append(e.scratch.in, t.Graph.AddRandom(x, [2]ir.Flags{ir.RandomKey, ir.RandomDraw}[i], number))
	}
	g.draws++
	return nil
}

// NewGenerator makes a generator for a device, with key 0.
func (e *Engine) NewGenerator(dev int) (int64, error) {
	if err := e.lock(); err != nil {
		return 0, err
	}
	defer e.mu.Unlock()
	if _, err := e.device(dev); err != nil {
		return 0, err
	}
	e.generators.last++
	e.generators.held[e.generators.last] = &generator{dev: int32(dev)}
	return e.generators.last, nil
}

// DropGenerator forgets a generator that NewGenerator made.
func (e *Engine) DropGenerator(number int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if number >= firstGenerator {
		delete(e.generators.held, number)
	}
}

// Seed sets the state of a generator.
func (e *Engine) Seed(number, key, draws int64) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	g, err := e.generators.at(number)
	if err != nil {
		return err
	}
	g.key, g.draws = uint64(key), uint64(draws)
	return nil
}

// RandomState is the state of a generator: the seed and the number of draws.
func (e *Engine) RandomState(number int64) (key, draws int64, err error) {
	if err := e.lock(); err != nil {
		return 0, 0, err
	}
	defer e.mu.Unlock()
	g, err := e.generators.at(number)
	if err != nil {
		return 0, 0, err
	}
	return int64(g.key), int64(g.draws), nil
}
