package runtime

import (
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Interpretation computes what a launch's program computes, without it: op by op, on a device whose memory the host reads.
type Interpretation interface {
	// Peak is how many bytes it computes with besides the arguments.
	Peak() int64
	// Run reads the arguments' memory and writes none of it. into is memory for results, nil for what is Interpreted. here
	// says that the thread is the one that launches it. An error says that it cannot be done so.
	Run(args, into []unsafe.Pointer, here bool) (Interpreted, error)
	// Short reports that it may hold up the thread that launches it.
	Short() bool
}

// Interpreted are the results of an interpretation that were not wanted elsewhere, dense arrays in the host's memory.
type Interpreted interface {
	Data(result int) unsafe.Pointer // good until Free
	Copy(result int, to unsafe.Pointer, bytes int64)
	Free()
}

var (
	interpretTime   = metrics.M("InterpretTime", "ns")
	interpreted     = metrics.C("InterpretedGraphs")
	interpretFailed = metrics.C("InterpretationsFailed")
)

// interpret runs a launch op by op. done is false if that cannot be done, and nothing has changed; the error is that of
// an argument.
func (d *Device) interpret(l *Launch) (done bool, err error) {
	if !d.hasRoom(l.Interpret.Peak()) {
		interpretFailed.Add(1)
		return false, nil
	}
	args := make([]unsafe.Pointer, len(l.Args))
	for i, a := range l.Args {
		at, err := a.memory()
		if err != nil {
			return true, err
		}
		if at == 0 && a.Shape.Numel() > 0 {
			return false, nil
		}
		args[i] = *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the plugin's
	}
	start, span := time.Now(), profile.Begin().Of(l.Recorded)
	defer l.recordInterpretation(d)()
	into := make([]unsafe.Pointer, len(l.Outs))
	prepared := !l.takes() && d.prepare(l, into)
	results, err := l.Interpret.Run(args, into, l.here)
	if err == nil {
		defer results.Free()
		if !prepared {
			prepared = d.finishInterpreted(l, args, results)
		}
	}
	if err != nil || !prepared { // the compiled program says what is wrong, if anything is
		interpretFailed.Add(1)
		l.dropResults()
		return false, nil
	}
	span.End(profile.Kernels, int64(len(l.Outs)))
	for i, o := range l.Outs {
		o.ready()
		if into[i] != nil {
			o.host.Store(uintptr(into[i]))
		}
	}
	for i, a := range l.Args {
		if l.given(i) {
			a.kill(l.Step)
		}
	}
	interpreted.Add(1)
	interpretTime.Since(start)
	return true, nil
}

// takes reports that a result may be written into the memory of an argument, or that one was given away.
func (l *Launch) takes() bool {
	for i, to := range l.Donors {
		if to >= 0 || l.Given[i] {
			return true
		}
	}
	return false
}

// prepare makes the results' buffers before they are computed, and gives their memory. It is false, with nothing done, if
// the device cannot.
func (d *Device) prepare(l *Launch, into []unsafe.Pointer) bool {
	memory := d.devs[0].DefaultMemory()
	if memory == nil {
		return false
	}
	made := int64(0)
	for i, o := range l.Outs {
		if o.Shape.Numel() == 0 {
			l.dropResults()
			clear(into)
			return false
		}
		raw, err := d.client.Uninitialized(pjrt.Type(o.Shape.DType.PJRT()), o.Shape.Dims, memory)
		if err == nil {
			var at uintptr
			o.parts[0] = raw
			at, err = d.client.UnsafePointer(raw)
			into[i] = *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the plugin's
		}
		if err != nil || into[i] == nil {
			l.dropResults()
			clear(into)
			return false
		}
		made += o.bytes
	}
	d.usage.need(made)
	return true
}

// dropResults frees the results' buffers that prepare or give has made.
func (l *Launch) dropResults() {
	for _, o := range l.Outs {
		if raw := o.parts[0]; raw != 0 {
			countUnreported(o.Dev.client.Destroy(raw))
			o.parts[0] = 0
		}
	}
}

// finishInterpreted moves the results to buffers. It is false if that cannot be done.
func (d *Device) finishInterpreted(l *Launch, args []unsafe.Pointer, results Interpreted) bool {
	d.run.Lock()
	defer d.run.Unlock()
	for range inFlight { // programs may still read what is taken over
		_ = d.retire() // a failure belongs to the buffers of that one
	}
	if !d.give(l, args, results) {
		l.keep = l.keep[:0]
		return false
	}
	return true
}

// hasRoom reports that the device's limit leaves bytes beside what is in use. Only those that may matter are compared.
func (d *Device) hasRoom(bytes int64) bool {
	if bytes < 1<<20 {
		return true
	}
	have, err := d.devs[0].MemoryStats()
	return err != nil || have.BytesLimit <= 0 || have.BytesInUse+bytes <= have.BytesLimit
}

// recordInterpretation records that the device computes from now on, until the function that it returns is called.
func (l *Launch) recordInterpretation(d *Device) (end func()) {
	if !profile.On() || l.Recorded < 0 {
		return func() {}
	}
	ended := make(chan struct{})
	profile.Executed(d.Index, l.Recorded, int64(len(l.Outs)), func() { <-ended })
	return func() { close(ended) }
}

// memory waits until the buffer is computed and gives its address; 0 where the host cannot read it. The caller runs the
// launches: no one else takes the buffer over.
func (b *Buffer) memory() (uintptr, error) {
	if at := b.host.Load(); at != 0 {
		return at, b.Await()
	}
	if err := b.finish(); err != nil {
		return 0, err
	}
	at, err := b.address()
	if err == nil && at != 0 {
		b.host.Store(at)
	}
	return at, err
}

// give moves the results to buffers: those that take over an argument's into its memory, the others into new memory. The
// caller holds run. It is false if there is no memory.
func (d *Device) give(l *Launch, args []unsafe.Pointer, results Interpreted) bool {
	from, made := l.takenOver(), int64(0)
	for i, o := range l.Outs {
		if _, takes := from[i]; takes {
			continue
		}
		if err := o.send(0, results.Data(i), o.Shape.Dims); err != nil {
			return false
		}
		made += o.bytes
	}
	d.usage.need(made)
	for i, a := range from {
		o, arg := l.Outs[i], l.Args[a]
		results.Copy(i, args[a], o.Shape.Bytes())
		o.parts[0], arg.parts[0] = arg.parts[0], 0
	}
	return true
}

// takenOver says for each result that is written into an argument's memory which one: as a program of the plugin decides
// it. See shared.
func (l *Launch) takenOver() map[int]int {
	kept := make(map[int]bool)
	for _, i := range l.shared() {
		kept[int(i)] = true
	}
	from := make(map[int]int)
	for i, to := range l.Donors {
		if to >= 0 && !kept[i] && !l.Args[i].borrowed && l.Args[i].pins.Load() == 0 {
			from[int(to)] = i
		}
	}
	return from
}
