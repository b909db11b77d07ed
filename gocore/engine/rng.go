package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// generator is a random state of a device: the key of the counter-based generator and how many ops drew
// from it. It lives on the host, so that the stream does not depend on where the syncs are.
type generator struct {
	dev        int32
	key, draws uint64
}

// generators are those of the process by number. A device's own has the device's number.
type generators struct {
	*state
	held map[int64]*generator // guarded by mu; NewGenerator adds, DropGenerator removes, UseSPMD joins
	last int64                // guarded by mu; NewGenerator counts it up
}

// firstGenerator is the least number of a generator that does not belong to a device.
const firstGenerator = 1 << 32

// start makes the generators of the devices.
func (gs *generators) start(devices int) {
	gs.held, gs.last = make(map[int64]*generator), firstGenerator-1
	for i := range devices {
		gs.held[int64(i)] = &generator{dev: int32(i)}
	}
}

// merge makes one device of all: the first one's own generator stays, and others draw for it.
func (gs *generators) merge() {
	for number, one := range gs.held {
		one.dev = 0
		if number > 0 && number < firstGenerator {
			delete(gs.held, number)
		}
	}
}

// find is the generator of a number.
func (gs *generators) find(number int64) (*generator, error) {
	one := gs.held[number]
	if one == nil {
		return nil, errs.New(errs.Runtime, "generator %d does not exist", number)
	}
	return one, nil
}

// NewGenerator makes a generator for a device, with key 0.
func (gs *generators) NewGenerator(dev int) (int64, error) {
	if err := gs.lock(); err != nil {
		return 0, err
	}
	defer gs.mu.Unlock()
	if _, err := gs.device(dev); err != nil {
		return 0, err
	}
	gs.last++
	gs.held[gs.last] = &generator{dev: int32(dev)}
	return gs.last, nil
}

// DropGenerator forgets a generator that NewGenerator made.
func (gs *generators) DropGenerator(number int64) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if number >= firstGenerator {
		delete(gs.held, number)
	}
}

// Seed sets the state of a generator. The error is errs.Runtime if there is no such generator.
func (gs *generators) Seed(number, key, draws int64) error {
	if err := gs.lock(); err != nil {
		return err
	}
	defer gs.mu.Unlock()
	g, err := gs.find(number)
	if err != nil {
		return err
	}
	g.key, g.draws = uint64(key), uint64(draws)
	return nil
}

// RandomState is the state of a generator: the seed and the number of draws.
func (gs *generators) RandomState(number int64) (key, draws int64, err error) {
	if err := gs.lock(); err != nil {
		return 0, 0, err
	}
	defer gs.mu.Unlock()
	g, err := gs.find(number)
	if err != nil {
		return 0, 0, err
	}
	return int64(g.key), int64(g.draws), nil
}
