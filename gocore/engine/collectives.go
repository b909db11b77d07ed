package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
)

// Watch makes the engine remember the programs that it runs from now on, until Collectives.
func (e *Engine) Watch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	e.watching = true
}

// forget drops the remembered programs.
func (e *Engine) forget() {
	for _, p := range e.watched {
		p.release()
	}
	e.watched, e.watching = nil, false
}

// watch remembers a program if Watch was called.
func (e *Engine) watch(p *program) {
	if e.watching {
		p.retain()
		e.watched = append(e.watched, p)
	}
}

// Collectives is, for each program that has run since Watch, the list of its collectives as the
// compiler left them. It ends the watch, and waits for what still compiles.
func (e *Engine) Collectives() ([][]hlo.Collective, error) {
	e.mu.Lock()
	programs := e.watched
	e.watched, e.watching = nil, false
	e.mu.Unlock()
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

func (p *program) collectives() ([]hlo.Collective, error) {
	exe, err := p.Executable()
	if err != nil {
		return nil, err
	}
	module, err := exe.Module()
	if err != nil {
		return nil, err
	}
	return append([]hlo.Collective{}, hlo.Collectives(module)...), nil
}
