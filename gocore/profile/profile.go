// Package profile records when the process did what, for a timeline. It has spans on the threads that recorded,
// planned, compiled and waited, spans on the devices, and counters. While nothing is recorded, a call costs one atomic
// load and no allocation. The package imports nothing of the project. All functions are safe for concurrent use.
//
//	s := profile.Begin()
//	…
//	s.End(profile.Plan, nodes)
package profile

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Kind is what a span or a counter is about.
type Kind uint8

// The kinds. The number that a span carries is said behind each.
const (
	Step       Kind = iota // from one mark to the next, in a row of their own; its number
	Trace                  // from the first op that is recorded to its sync; how many nodes there are
	Plan                   // finding out what a sync computes; nodes
	Lower                  // writing the program; nodes
	Compile                // the compiler at work; bytes of StableHLO
	Load                   // a program read from the disk; bytes
	Launch                 // handing a program to the plugin; arguments
	Execute                // a program on a device; results
	Kernels                // torch's kernels compute what a program would, on the host; results
	ToDevice               // a copy; bytes
	FromDevice             // a copy; bytes
	Wait                   // the host waits for a device
	User                   // what a program has named itself
	Bytes                  // counter: bytes of the buffers in use
	Ops                    // counter: ops recorded in a step
)

// kinds is the name and the category of each, and what its number is called.
var kinds = [...]struct{ name, category, number string }{
	{"step", "step", ""}, {"trace", "host", "nodes"}, {"plan", "host", "nodes"}, {"lower", "host", "nodes"},
	{"compile", "host", "module_bytes"}, {"load", "host", "bytes"}, {"launch", "host", "arguments"}, {"execute", "device", "results"},
	{"torch's kernels", "host", "results"},
	{"transfer to device", "transfer", "bytes"}, {"transfer from device", "transfer", "bytes"}, {"wait", "wait", ""}, {"", "user", ""},
	{"bytes in use", "memory", "bytes"}, {"ops per step", "step", "ops"},
}

// capacity is how many events a recording keeps; the latest count.
const capacity = 1 << 17

// event is a span, or a counter's value at a time.
type event struct {
	kind       Kind
	device     bool  // row is a device's number, not a thread's
	row        int32 // where it is drawn
	start, end int64 // ns since the recording's start
	step       int64
	number     int64
	name       string // of a User span
}

// recording is what has happened since a Start.
type recording struct {
	base    time.Time
	step    atomic.Int64
	pending sync.WaitGroup // spans of devices that are to come

	mu     sync.Mutex      // guards the fields below
	events []event         // a ring once it is full
	total  int             // how many there were
	mark   int64           // when the current step began
	ops    int64           // the count of ops then
	busy   map[int32]int64 // until when each device has computed
}

var current atomic.Pointer[recording]

// On reports that a recording runs.
func On() bool { return current.Load() != nil }

// Start starts a recording, whose first step has number 0; false if one runs already. ops is the count that Mark
// is given.
func Start(ops int64) bool {
	return current.CompareAndSwap(nil, &recording{base: time.Now(), ops: ops, busy: make(map[int32]int64)})
}

// Number is the number of the step that is being recorded; -1 if nothing is.
func Number() int64 {
	if r := current.Load(); r != nil {
		return r.step.Load()
	}
	return -1
}

// Span is a span that has begun. The zero Span records nothing.
type Span struct {
	r           *recording
	start, step int64
}

// Begin begins a span of the calling thread, and of the step that is being recorded.
func Begin() Span {
	r := current.Load()
	if r == nil {
		return Span{}
	}
	return Span{r, r.now(), r.step.Load()}
}

// Of makes it a span of the step that Number gave, for what is done later than it was recorded.
func (s Span) Of(step int64) Span {
	if s.r != nil && step >= 0 {
		s.step = step
	}
	return s
}

// End records the span. The thread must be the one that began it: goroutines of spans are bound to theirs, by a
// call from C or by LockOSThread.
func (s Span) End(k Kind, number int64) {
	if s.r != nil {
		s.r.add(event{kind: k, row: thread(), start: s.start, end: s.r.now(), step: s.step, number: number})
	}
}

// short is what a wait is at least that deserves a span.
const short = 1000 // ns

// Waited records the span as a wait, unless there was nothing to wait for.
func (s Span) Waited() {
	if s.r != nil && s.r.now()-s.start >= short {
		s.End(Wait, 0)
	}
}

// Now is the time for Named; 0 if nothing is recorded.
func Now() int64 {
	if r := current.Load(); r != nil {
		return r.now()
	}
	return 0
}

// Named records a span of the calling thread under a name of the user's, begun at a time that Now gave.
func Named(name string, begin int64) {
	if r := current.Load(); r != nil {
		r.add(event{kind: User, row: thread(), start: begin, end: r.now(), step: r.step.Load(), name: name})
	}
}

// Mark ends a step; ops counts what has been recorded since the process began, and bytes is what the buffers take.
func Mark(ops, bytes int64) {
	r := current.Load()
	if r == nil {
		return
	}
	now, step := r.now(), r.step.Add(1)-1
	r.mu.Lock()
	from, before := r.mark, r.ops
	r.mark, r.ops = now, ops
	r.mu.Unlock()
	r.add(event{kind: Step, start: from, end: now, step: step, number: step})
	r.add(event{kind: Ops, start: from, number: ops - before})
	r.add(event{kind: Bytes, start: now, number: bytes})
}

// Executed records that a device computes from now on, or from when it has done what came before, until done
// returns; done waits in a goroutine of its own. step is the Number at which it was recorded.
func Executed(device int32, step, results int64, done func()) {
	r := current.Load()
	if r == nil {
		return
	}
	from := r.now()
	r.pending.Add(1)
	go func() {
		defer func() {
			_ = recover() // a span less; the process is not worth one
			r.pending.Done()
		}()
		done()
		end := r.now()
		r.mu.Lock()
		from = min(max(from, r.busy[device]), end)
		r.busy[device] = end
		r.mu.Unlock()
		r.add(event{kind: Execute, device: true, row: device, start: from, end: end, step: step, number: results})
	}()
}

func (r *recording) now() int64 { return int64(time.Since(r.base)) }

func (r *recording) add(e event) {
	r.mu.Lock()
	if len(r.events) < capacity {
		r.events = append(r.events, e)
	} else {
		r.events[r.total%capacity] = e
	}
	r.total++
	r.mu.Unlock()
}

func thread() int32 { return int32(syscall.Gettid()) }
