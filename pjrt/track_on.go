//go:build invariants

package pjrt

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// tracker is the table of a client's live objects, each with the place that made
// it. A buffer or event that is used or destroyed and is not in the table is an
// error.
type tracker struct {
	mu   sync.Mutex
	live map[any]string // the key is a Buffer or an Event
}

// made records an object and who made it.
func (t *tracker) made(key any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		t.live = make(map[any]string)
	}
	t.live[key] = caller()
}

func (t *tracker) gone(key any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.live[key]
	delete(t.live, key)
	return ok
}

func (t *tracker) lives(key any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.live[key]
	return ok
}

// caller is the first place outside this package's own files.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || !strings.Contains(f.Function, "/pjrt.") || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}

// reportLeak is called with each leak.
var reportLeak = func(text string) { fmt.Fprintln(os.Stderr, "pjrt: "+text) }

// closeGuard reports an object that is collected without having been closed.
type closeGuard struct{ closed *atomic.Bool }

// guard begins to watch an object that has a Close.
func guard[T any](g *closeGuard, object *T, what string) {
	g.closed = new(atomic.Bool)
	type note struct {
		closed *atomic.Bool
		text   string
	}
	runtime.AddCleanup(object, func(n note) {
		if !n.closed.Load() {
			reportLeak(n.text)
		}
	}, note{g.closed, fmt.Sprintf("%s made at %s was never closed", what, caller())})
}

// done notes that the object was closed.
func (g *closeGuard) done() {
	if g.closed != nil {
		g.closed.Store(true)
	}
}

// Leaks lists what the client has given out and not got back, with the place
// that made each. It is there in builds with the tag invariants.
func (c *Client) Leaks() []string {
	c.track.mu.Lock()
	defer c.track.mu.Unlock()
	var out []string
	for key, place := range c.track.live {
		out = append(out, fmt.Sprintf("%T made at %s", key, place))
	}
	return out
}

func (t *tracker) buffer(b Buffer) { t.made(b) }
func (t *tracker) buffers(list []Buffer) {
	for _, b := range list {
		t.made(b)
	}
}
func (t *tracker) event(e Event) { t.made(e) }
func (t *tracker) events(list []Event) {
	for _, e := range list {
		t.made(e)
	}
}

func (t *tracker) dropBuffers(list []Buffer) error { return drop(t, "Buffer_Destroy", list) }
func (t *tracker) dropEvents(list []Event) error   { return drop(t, "Event_Destroy", list) }
func (t *tracker) dropEvent(e Event)               { t.gone(e) }

// drop forgets objects. Those that are not known become zero, so that they are
// not destroyed again.
func drop[T interface {
	Buffer | Event
}](t *tracker, fn string, list []T) error {
	var all error
	for i, o := range list {
		if o != 0 && !t.gone(o) {
			all = errors.Join(all, stale("PJRT_"+fn, o))
			list[i] = 0
		}
	}
	return all
}

func stale(fn string, o any) error {
	return &Error{Code: FailedPrecondition, Func: fn, Msg: fmt.Sprintf("the %T was destroyed, or is none of this client", o)}
}

func (t *tracker) useBuffer(fn fnID, b Buffer) error {
	if !t.lives(b) {
		return stale(functionName(fn), b)
	}
	return nil
}

func (t *tracker) useBuffers(fn fnID, list []Buffer) error {
	for _, b := range list {
		if err := t.useBuffer(fn, b); err != nil {
			return err
		}
	}
	return nil
}

func (t *tracker) useEvent(fn fnID, e Event) error {
	if !t.lives(e) {
		return stale(functionName(fn), e)
	}
	return nil
}
