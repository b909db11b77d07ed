package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// The rows are drawn in two groups, which the format calls processes.
const (
	host    = 1
	devices = 2
)

// Stop ends the recording, when the spans of the devices are complete. It returns it in the Trace Event Format, which
// Perfetto and chrome://tracing show; empty if none ran. What is done meanwhile is not part of it.
func Stop() []byte {
	r := current.Swap(nil)
	if r == nil {
		return nil
	}
	r.pending.Wait()
	r.mu.Lock() // those who began before may still end
	defer r.mu.Unlock()
	return r.json()
}

// traceEvent is an event of the format; times are µs.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Start    float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int32          `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

func (r *recording) json() []byte {
	// A span comes before those within it: so the viewers draw them one upon the other.
	slices.SortStableFunc(r.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.kind, b.kind))
	})
	list := r.rows()
	for _, e := range joinWaits(r.events) {
		list = append(list, e.json())
	}
	trace := struct {
		Events []traceEvent   `json:"traceEvents"`
		Unit   string         `json:"displayTimeUnit"`
		Other  map[string]any `json:"otherData"`
	}{list, "ms", map[string]any{"events_dropped": r.total - len(r.events)}}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(trace); err != nil {
		panic(err) // no value in it can fail
	}
	return out.Bytes()
}

// slice is what may lie between two parts of one wait: callers wait in slices, to look after signals in between.
const slice = 1_000_000 // ns

// joinWaits makes one span of the slices of a wait. The events are in order.
func joinWaits(events []event) []event {
	out := make([]event, 0, len(events))
	waits := make(map[int32]int) // by thread: its latest span in out, if that is a wait
	for _, e := range events {
		if !e.device && e.kind <= User && e.kind != Step {
			if i, ok := waits[e.row]; ok && e.kind == Wait && e.start-out[i].end < slice {
				out[i].end = e.end
				continue
			}
			delete(waits, e.row)
			if e.kind == Wait {
				waits[e.row] = len(out)
			}
		}
		out = append(out, e)
	}
	return out
}

// rows are the events that name the rows.
func (r *recording) rows() []traceEvent {
	name := func(what string, process int, thread int32, text string) traceEvent {
		return traceEvent{Name: what, Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": text}}
	}
	list := []traceEvent{
		name("process_name", host, 0, "host"), name("process_name", devices, 0, "devices"), name("thread_name", host, 0, "steps"),
	}
	type row struct {
		device bool
		number int32
	}
	seen := make(map[row]bool)
	for _, e := range r.events {
		at := row{e.device, e.row}
		switch {
		case seen[at] || e.kind == Bytes || e.kind == Ops || e.kind == Step:
			continue
		case e.device:
			list = append(list, name("thread_name", devices, e.row, fmt.Sprintf("xla:%d", e.row)))
		case int(e.row) == os.Getpid():
			list = append(list, name("thread_name", host, e.row, "main thread"))
		default:
			list = append(list, name("thread_name", host, e.row, fmt.Sprintf("thread %d", e.row)))
		}
		seen[at] = true
	}
	return list
}

func (e *event) json() traceEvent {
	k := kinds[e.kind]
	t := traceEvent{Name: cmp.Or(e.name, k.name), Category: k.category, Phase: "X", Start: float64(e.start) / 1e3, Process: host, Thread: e.row}
	if e.kind == Bytes || e.kind == Ops {
		t.Phase, t.Thread = "C", 0
		t.Args = map[string]any{k.number: e.number}
		return t
	}
	if e.device {
		t.Process = devices
	}
	duration := float64(e.end-e.start) / 1e3
	t.Duration = &duration
	t.Args = map[string]any{"step": e.step}
	if k.number != "" {
		t.Args[k.number] = e.number
	}
	if e.kind == Step {
		t.Name = fmt.Sprintf("step %d", e.number)
	}
	return t
}
