package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
)

// Watch makes the engine remember the programs that it runs from now on, until Collectives.
func (pl *planner) Watch() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.forget()
	pl.watching = true
}

// forget drops the remembered programs.
func (pl *planner) forget() {
	for _, p := range pl.watched {
		p.release()
	}
	pl.watched, pl.watching = nil, false
}

// watch remembers a program if Watch was called.
func (pl *planner) watch(p *program) {
	if pl.watching {
		p.retain()
		pl.watched = append(pl.watched, p)
	}
}

// Collectives is, for each program that has run since Watch, the list of its collectives as the
// compiler left them. It ends the watch, and waits for what still compiles.
func (pl *planner) Collectives() ([][]hlo.Collective, error) {
	pl.mu.Lock()
	programs := pl.watched
	pl.watched, pl.watching = nil, false
	pl.mu.Unlock()
	all := make([][]hlo.Collective, 0, len(programs))
	var first error
	for _, p := range programs {
		list, err := p.collectives()
		if err != nil && first == nil {
			first = err
		}
		all = append(all, list)
		p.release()
	}
	if first != nil {
		return nil, first
	}
	return all, nil
}
