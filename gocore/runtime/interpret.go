package runtime

import (
	"slices"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Interpretation computes what a launch's program computes, without it: op by op, on a device whose memory the host
// reads.
type Interpretation interface {
	// Peak is how many bytes it computes with besides the arguments, and kept how many of them are there when it has
	// run.
	Peak() (peak, kept int64)
	// Run reads the arguments' memory and writes none of it. into is memory for results, nil for what is Interpreted.
	// here says that the thread is the one that launches it. An error says that it cannot be done so.
	Run(args, into []unsafe.Pointer, here bool) (Interpreted, error)
	// Packs are the numbers that the program takes, for when it has to run.
	Packs() []Pack
	// Places reports that Run writes a result to its memory, and does not copy it there.
	Places(result int) bool
	// TakesOver reports that results are written into the memory of arguments that the program may take over.
	TakesOver() bool
	// Short reports that it may hold up the thread that launches it.
	Short() bool
}

// Interpreted are the results of an interpretation that were not wanted elsewhere, dense arrays in the host's memory.
type Interpreted interface {
	Data(result int) unsafe.Pointer // good until Free
	Take(result int) pjrt.Owned     // gives a result to the caller: Free does not free it
	Return(result int, owned pjrt.Owned)
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
	peak, kept := l.Interpret.Peak()
	if !d.hasRoom(max(peak, kept+l.copied())) {
		interpretFailed.Add(1)
		return false, nil
	}
	d.addresses = slices.Grow(d.addresses[:0], len(l.Args)+len(l.Outs))[:len(l.Args)+len(l.Outs)]
	clear(d.addresses)
	args, into := d.addresses[:len(l.Args)], d.addresses[len(l.Args):]
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
	takes := l.takes()
	prepared := !takes && d.prepare(l, into)
	results, err := l.Interpret.Run(args, into, l.here)
	d.arrays.need(peak)
	given := false
	if err == nil {
		defer results.Free()
		if given = prepared && d.place(l, results, into, nil); !prepared {
			given = d.finishInterpreted(l, args, into, results)
		}
	}
	if err != nil || !given { // the compiled program says what is wrong, if anything is
		interpretFailed.Add(1)
		l.dropResults()
		return false, nil
	}
	span.End(profile.Kernels, int64(len(l.Outs)))
	for i, o := range l.Outs {
		if into[i] != nil { // before it is ready: who finds it so asks the plugin where no address is known
			o.host.Store(uintptr(into[i]))
		}
		o.ready()
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
	over := l.Interpret.TakesOver()
	for i, to := range l.Donors {
		if over && to >= 0 || l.Given[i] {
			return true
		}
	}
	return false
}

// prepare makes the buffers of results before they are computed, where they are computed in place, and gives their
// memory. It is false, with nothing done, if the device cannot.
func (d *Device) prepare(l *Launch, into []unsafe.Pointer) bool {
	memory := d.devs[0].DefaultMemory()
	if memory == nil {
		return false
	}
	for i, o := range l.Outs {
		if !l.Interpret.Places(i) || o.Shape.Numel() == 0 {
			continue
		}
		if o.takeOwn() {
			into[i] = o.own.Address
			continue
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
	}
	return true
}

// copied is how many bytes of the results are copied to buffers of their own, at most.
func (l *Launch) copied() (bytes int64) {
	for i, o := range l.Outs {
		if !l.Interpret.Places(i) && !slices.Contains(l.Donors, int32(i)) {
			bytes += o.bytes
		}
	}
	return bytes
}

// dropResults frees the results' buffers that prepare or place has made.
func (l *Launch) dropResults() {
	for _, o := range l.Outs {
		countUnreported(o.Dev.client.Destroy(o.parts...))
		o.returned()
	}
}

// finishInterpreted moves the results to buffers, some of which may be those of arguments. It is false if that cannot
// be done.
func (d *Device) finishInterpreted(l *Launch, args, into []unsafe.Pointer, results Interpreted) bool {
	d.run.Lock()
	defer d.run.Unlock()
	for range inFlight { // programs may still read what is donated
		d.retire()
	}
	from := l.takenOver()
	if !d.place(l, results, into, from) {
		l.keep = l.keep[:0]
		return false
	}
	for i, a := range from {
		o, arg := l.Outs[i], l.Args[a]
		results.Copy(i, args[a], o.Shape.Bytes())
		into[i] = args[a]
		o.parts[0], arg.parts[0] = arg.parts[0], 0
		o.own, arg.own = arg.own, pjrt.Owned{}
		o.adopted, arg.adopted = arg.adopted, false
	}
	return true
}

// hasRoom reports that the device's limit leaves bytes beside what is in use. Only those that may matter are compared.
func (d *Device) hasRoom(bytes int64) bool {
	if bytes < 1<<20 {
		return true
	}
	have, err := d.MemoryStats()
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
	if b.host.Load() == 0 {
		if err := b.finish(); err != nil {
			return 0, err
		}
	}
	if at := b.host.Load(); at != 0 {
		return at, b.Await()
	}
	at, err := b.address()
	if err == nil && at != 0 {
		b.host.Store(at)
	}
	return at, err
}

// leastAdopted is the size from which a result stays in torch's memory, if it is also most of what was computed. Small
// ones that live long would keep holes between them, of the size of what was freed.
const leastAdopted = 1 << 16

// aligned is what programs want of an address: that of XLA's cpu_function_runtime::Align.
const aligned = 64

// place gives results their buffers: all but those that were computed into one, and those that were donated as
// arguments. It is false if there is no memory.
func (d *Device) place(l *Launch, results Interpreted, into []unsafe.Pointer, from map[int]int) bool {
	peak, there := l.Interpret.Peak()
	for i, o := range l.Outs {
		if _, takes := from[i]; takes || into[i] != nil {
			continue
		}
		at := results.Data(i)
		if o.takeOwn() {
			results.Copy(i, o.own.Address, o.bytes)
			into[i] = o.own.Address
		} else if o.bytes >= leastAdopted && 2*o.bytes >= peak && !l.overlaps(into, at, o.bytes) && d.adopt(o, results, i) {
			into[i] = at
		} else if err := o.send(0, at, o.Shape.Dims); err != nil {
			return false
		} else {
			there += o.bytes
		}
	}
	d.arrays.need(there)
	return true
}

// overlaps reports that memory is part of that of another result, or has part of it.
func (l *Launch) overlaps(into []unsafe.Pointer, at unsafe.Pointer, bytes int64) bool {
	for i, other := range into {
		if other != nil && uintptr(at) < uintptr(other)+uintptr(l.Outs[i].bytes) && uintptr(other) < uintptr(at)+uintptr(bytes) {
			return true
		}
	}
	return false
}

// adopt makes a result's memory that of its buffer, which no program takes over. It is false, with nothing done, where
// that cannot be, or too much memory is torch's.
func (d *Device) adopt(o *Buffer, results Interpreted, i int) bool {
	memory := d.devs[0].DefaultMemory()
	if memory == nil || o.Shape.Numel() == 0 || uintptr(results.Data(i))%aligned != 0 || d.adopted.Load()+o.bytes > d.mostAdopted() {
		return false
	}
	owned := results.Take(i)
	raw, err := d.client.Adopt(owned, pjrt.Type(o.Shape.DType.PJRT()), o.Shape.Dims, memory)
	if err != nil {
		results.Return(i, owned)
		return false
	}
	o.parts[0], o.adopted = raw, true
	d.adopted.Add(o.bytes)
	return true
}

// takenOver says for each result that is written into an argument's memory which one: as a program of the plugin
// decides it. See shared.
func (l *Launch) takenOver() map[int]int {
	kept := make(map[int]bool)
	for _, i := range l.shared(func(b *Buffer) bool { return b.borrowed }) {
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
