package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Executable is a compiled program of a device. Calls are prepared once and used again.
type Executable struct {
	// Set when it is made; they do not change.
	dev       *Device
	exe       *pjrt.Executable
	args      int        // on each of the plugin's devices
	need      int64      // bytes that a run takes beside its arguments, on all of these devices; 0 if the plugin does not know
	joint     bool       // each process of the job runs a replica, or its partitions
	exchanges []exchange // what this process exchanges with others, as far as the plugin shows its programs

	mu   sync.Mutex
	free []*pjrt.Call // guarded by mu; a launch takes one and puts it back

	raw    []pjrt.Buffer // scratch of the launch that holds Device.run
	outs   []pjrt.Buffer // the same
	posted bool          // the others were sent exchanges; guarded by Job.mu
}

// Division is how devices divide the work of a program.
type Division struct {
	Open     []bool // for each result, whether the compiler chooses its sharding; with SPMD only
	Shardy   bool   // Shardy is the partitioner, not GSPMD; with SPMD only
	Replicas bool   // each process of the job runs a replica
}

// Compile compiles StableHLO text for a device. args is the number of its parameters. It may take long. The error is
// errs.Compile if XLA refuses the program, and errs.OOM if it needs more memory than the device has.
func (d *Device) Compile(module []byte, args int, by Division) (*Executable, error) {
	opts := pjrt.CompileOptions{DeviceAssignment: d.ids, EnvOptionOverrides: d.home.Flags}
	switch {
	case len(d.ids) > 1:
		opts.NumPartitions, opts.UseSPMD, opts.PropagateToOutputs, opts.UseShardy = len(d.ids), true, by.Open, by.Shardy
	case by.Replicas:
		opts.NumReplicas, opts.DeviceAssignment = len(d.peers), d.peers
	}
	exe, err := d.client.Compile(module, "mlir", opts)
	if err != nil {
		e := d.explain(err, "compiling a program of %d bytes of StableHLO", len(module))
		if errs.KindOf(e) == errs.Xla {
			e = errs.Wrap(errs.Compile, err, "XLA refused the program: %v", err)
		}
		return nil, e
	}
	need := needs(exe)
	if err := d.checkMemory(need); err != nil {
		countUnreported(exe.Close())
		return nil, err
	}
	return d.load(exe, need, args, by.Replicas), nil
}

// needs is the bytes that a run takes on each device beside its arguments; 0 if the plugin does not know.
func needs(exe *pjrt.Executable) int64 {
	takes, err := exe.MemoryStats()
	countUnknown(err)
	return max(takes.Temp+takes.Output-takes.Alias, 0)
}

// checkMemory is the error of a program that needs more memory than the device has in all. Found out before it runs, it
// costs no one a buffer.
func (d *Device) checkMemory(need int64) error {
	if need == 0 {
		return nil
	}
	have, err := d.devs[0].MemoryStats()
	countUnknown(err)
	if err == nil && have.BytesLimit > 0 && need > have.BytesLimit {
		return errs.New(errs.OOM, "out of memory on %s: a program needs %d bytes for its results and what it computes on the way; the device has %d", d, need, have.BytesLimit)
	}
	return nil
}

// Load makes an executable of what Serialize gave; the other arguments are those of Compile.
func (d *Device) Load(serialized []byte, args int, replicas bool) (*Executable, error) {
	exe, err := d.client.DeserializeAndLoad(serialized, nil)
	if err != nil {
		return nil, Translate(err)
	}
	return d.load(exe, needs(exe), args, replicas), nil
}

func (d *Device) load(exe *pjrt.Executable, need int64, args int, replicas bool) *Executable {
	n := len(d.devs)
	x := &Executable{dev: d, exe: exe, args: args, need: int64(n) * need, joint: replicas || d.Spans(),
		raw: make([]pjrt.Buffer, n*args), outs: make([]pjrt.Buffer, n*exe.NumOutputs())}
	if x.joint {
		if module, err := x.Module(); err == nil {
			x.exchanges = d.job.exchangesOf(d, hlo.Collectives(module))
		}
	}
	return x
}

// CodeBytes is the size of the generated code, 0 if the plugin does not know.
func (x *Executable) CodeBytes() int64 {
	n, err := x.exe.CodeSize()
	countUnreported(err)
	return int64(max(n, 0))
}

// Results is how the program's results are sharded, of an SPMD device.
func (x *Executable) Results() ([]*sharding.Sharding, error) {
	if len(x.dev.ids) == 1 {
		return slices.Repeat([]*sharding.Sharding{sharding.Everywhere}, x.exe.NumOutputs()), nil
	}
	module, err := x.Module()
	if err != nil {
		return nil, err
	}
	return hlo.Results(module)
}

// Module is the program as the compiler left it, a serialized HloModuleProto.
func (x *Executable) Module() ([]byte, error) { return Optimized(&x.exe.Compiled) }

// PJRT is the executable as the plugin has it.
func (x *Executable) PJRT() *pjrt.Executable { return x.exe }

// Close frees the executable; launches that run keep what they need.
func (x *Executable) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	for _, c := range x.free {
		err = errors.Join(err, c.Close())
	}
	x.free = nil
	return errors.Join(err, x.exe.Close())
}

// Release is Close for a caller who has no one to tell an error to.
func (x *Executable) Release() { countUnreported(x.Close()) }

func (x *Executable) call() (*pjrt.Call, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.free); n > 0 {
		c := x.free[n-1]
		x.free = x.free[:n-1]
		return c, nil
	}
	return x.exe.Prepare(x.args)
}

func (x *Executable) done(c *pjrt.Call) {
	x.mu.Lock()
	x.free = append(x.free, c)
	x.mu.Unlock()
}

var donated = metrics.C("DonatedBuffers")

// Program gives a launch its executable; it may wait for a compile.
type Program interface {
	// Executable waits for the compile and returns its result.
	Executable() (*Executable, error)
	// Prompt reports that running the program waits for nothing: not for its compile, nor for other processes.
	Prompt() bool
	// Bisect takes the program apart after it has failed; nil if that cannot be done.
	Bisect() Bisection
}

// Pack is a vector of numbers that a program takes as one parameter.
type Pack struct {
	Type dtype.DType // F32, F64 or I64
	Data []uint64    // the elements' bytes, densely packed
	N    int
}

// Launch is one execution. It owns a reference to each argument and result until it has run. Who makes it owns its
// fields until Enqueue, and then the goroutine that runs the queue, which clears them at the end.
type Launch struct {
	Program Program
	Args    []*Buffer
	Packs   []Pack
	Outs    []*Buffer
	// Donors says for each argument whether the program may take its buffer over: -1 if not. Whether it
	// does is decided when the launch runs: not if anyone else, a storage or a later launch, owns the
	// buffer too.
	Donors []int32
	// Given says for each argument whether the user gave its buffer away. The program takes such a buffer over even if
	// a tensor names it, which then reads an error.
	Given []bool
	// Interpret computes the results op by op, where that is tried before the program is compiled; nil: it is not.
	Interpret Interpretation
	// Step numbers the launch for messages.
	Step int64
	// Recorded is the step of the profile that recorded it; -1 if there is none.
	Recorded int64
	// Done is called when the launch has been started or has failed, with its error.
	Done func(error)
	wait sync.WaitGroup // done when the results are resolved
	keep []int32        // scratch of shared
	here bool           // it runs in the thread that drains the queue

	fewArgs, fewOuts [few]*Buffer // memory of Args, Outs and Given where they are short
	fewGiven         [few]bool
}

// few is how many arguments and results of a launch lie within it. Most that are short have no more.
const few = 4

// NewLaunch makes a launch with room for its arguments, for what Given says of them, and for its results.
func NewLaunch(args, results int) *Launch {
	if args > few || results > few {
		return &Launch{Args: make([]*Buffer, args), Given: make([]bool, args), Outs: make([]*Buffer, 0, results)}
	}
	l := &Launch{}
	l.Args, l.Given, l.Outs = l.fewArgs[:args], l.fewGiven[:args], l.fewOuts[:0]
	return l
}

// NewOuts makes the launch's results, each with a reference for the launch and one for the caller.
// shardings are theirs, nil without SPMD.
func (l *Launch) NewOuts(d *Device, shapes []*shape.Shape, shardings []*sharding.Sharding) {
	if cap(l.Outs) < len(shapes) {
		l.Outs = make([]*Buffer, 0, len(shapes))
	}
	l.wait.Add(1)
	for i, s := range shapes {
		var sh *sharding.Sharding
		if shardings != nil {
			sh = shardings[i]
		}
		l.Outs = append(l.Outs, newBuffer(d, s, sh, &l.wait, 2))
	}
}

// Enqueue puts a launch behind those before it; its results are promised from now on. Call Drain next,
// without the locks under which the order was decided.
func (d *Device) Enqueue(l *Launch) {
	d.mu.Lock()
	d.queue = append(d.queue, l)
	d.submitted++
	d.mu.Unlock()
}

// Drain runs what is queued: in this thread as long as the head waits for nothing, in the background from
// where it does. So the caller can be interrupted while it waits for the device. It reports that all of it has
// been started.
func (d *Device) Drain() bool {
	d.mu.Lock()
	if d.working {
		d.mu.Unlock()
		return false
	}
	d.working = true
	for len(d.queue) > 0 {
		if !d.prompt(d.queue[0]) {
			d.mu.Unlock()
			go d.work()
			return false
		}
		d.queue[0].here = true
		d.step()
	}
	d.working = false
	d.mu.Unlock()
	return true
}

// prompt reports that a launch starts at once: nothing compiles, and the device can queue one more execution
// in flight.
func (d *Device) prompt(l *Launch) bool {
	if l.Interpret != nil {
		return l.Interpret.Short() && l.argumentsReady()
	}
	if !l.Program.Prompt() || !d.run.TryLock() {
		return false
	}
	defer d.run.Unlock()
	for _, ev := range d.ring[d.next] {
		if ready, err := d.client.EventReady(ev); err != nil || !ready {
			countUnreported(err) // the wait for it says what has failed
			return false
		}
	}
	return true
}

// argumentsReady reports that all arguments are computed.
func (l *Launch) argumentsReady() bool {
	for _, a := range l.Args {
		if a.host.Load() != 0 {
			continue
		}
		if !a.Ready() {
			return false
		}
		if done, err := a.AwaitFor(0); err != nil || !done {
			return false
		}
	}
	return true
}

// work runs the queue until it is empty.
func (d *Device) work() {
	defer caught("running what is queued")
	runtime.LockOSThread() // so that a profile shows its spans in one row; it waits for a compiler anyway
	defer runtime.UnlockOSThread()
	d.mu.Lock()
	for len(d.queue) > 0 {
		d.step()
	}
	d.working = false
	d.mu.Unlock()
}

// caught, deferred, keeps a panic from ending the process.
func caught(doing string) {
	if r := recover(); r != nil {
		unreported.Add(1)
		fmt.Fprintf(os.Stderr, "torch_go_xla: internal error while %s: %v\n%s", doing, r, debug.Stack())
	}
}

// step runs the head of the queue, which stays in it meanwhile. The caller holds mu, and is the one
// that set working.
func (d *Device) step() {
	l := d.queue[0]
	d.mu.Unlock()
	d.execute(l)
	d.mu.Lock()
	d.queue = slices.Delete(d.queue, 0, 1) // it is short: callers wait before it is long
	d.started.Add(1)
	d.idle.Broadcast()
}

// execute runs a launch and resolves its results, whatever happens: a panic is the failure of only this launch.
func (d *Device) execute(l *Launch) {
	defer caught("ending a program") // the queue moves on
	err := d.launch(l)
	if err != nil {
		if internal := d.recovered(l, err); internal != nil {
			for _, o := range l.Outs {
				if !o.Ready() {
					o.fail(internal)
				}
			}
			d.failures.note(nil, internal, internal)
		}
	}
	l.wait.Done()
	for _, a := range l.Args {
		a.Release()
	}
	for _, o := range l.Outs {
		o.Release()
	}
	if l.Done != nil {
		countUnreported(done(l, err))
	}
	// A result refers to its launch for the wait group. What stayed here would keep every buffer alive that came
	// before it, from the first step on.
	clear(l.fewArgs[:])
	clear(l.fewOuts[:])
	l.Program, l.Args, l.Packs, l.Outs, l.Given, l.Done, l.Interpret = nil, nil, nil, nil, nil, nil, nil
}

// launch compiles a program, if need be, and starts it.
func (d *Device) launch(l *Launch) (err error) {
	defer errs.Catch(&err, "running a program")
	if l.Interpret != nil {
		done, err := d.interpret(l)
		if done && err == nil {
			return nil
		}
		l.Packs = l.Interpret.Packs() // for the program, or for parts of it
		if err != nil {
			return err
		}
	}
	x, err := l.Program.Executable()
	if err != nil {
		return err
	}
	d.run.Lock()
	defer d.run.Unlock()
	return d.start(l, x)
}

// recovered is recovery; it returns what went wrong with that.
func (d *Device) recovered(l *Launch, cause error) (err error) {
	defer errs.Catch(&err, "recovering from: "+cause.Error())
	d.recovery(l, cause)
	return nil
}

// done tells the caller of a launch how it ended.
func done(l *Launch, cause error) (err error) {
	defer errs.Catch(&err, "noting the end of a program")
	l.Done(cause)
	return nil
}

// start enters the plugin. The caller holds run.
func (d *Device) start(l *Launch, x *Executable) error {
	for _, a := range l.Args {
		if err := a.Await(); err != nil {
			return err
		}
		if err := a.tell(); err != nil {
			return err
		}
	}
	defer x.dropPacks(len(l.Args))
	for k := range d.devs {
		raw := x.raw[k*x.args : (k+1)*x.args]
		for i, a := range l.Args {
			raw[i] = a.parts[k]
		}
		for i := range l.Packs {
			pack, err := d.uploadPack(&l.Packs[i], k)
			if err != nil {
				return err
			}
			raw[len(l.Args)+i] = pack
		}
	}
	waiting := profile.Begin()
	d.retire() // bounds the executions in flight
	waiting.Waited()
	if x.joint {
		if err := d.job.enter(x); err != nil {
			return err
		}
		defer d.job.leave()
	}
	call, err := x.call()
	if err != nil {
		return Translate(err)
	}
	defer x.done(call)
	span := profile.Begin().Of(l.Recorded)
	place := (d.next + inFlight - 1) % inFlight
	d.numbers[place] = d.started.Load() + 1
	if err := call.Execute(x.raw, l.shared((*Buffer).fixed), x.outs, d.ring[place]); err != nil {
		return d.explain(err, "running a program on %s", d)
	}
	span.End(profile.Launch, int64(len(x.raw)))
	if profile.On() && l.Recorded >= 0 {
		d.profile(l, x)
	}
	for i, o := range l.Outs {
		for k := range o.parts {
			o.parts[k] = x.outs[k*len(l.Outs)+i]
		}
	}
	d.arrays.need(x.need)
	if x.joint { // others decide how long it takes: callers who wait for the queue can be interrupted
		if err := d.awaitExchange(); err != nil {
			return err
		}
	}
	for _, o := range l.Outs {
		o.ready()
	}
	for i, a := range l.Args {
		if l.given(i) {
			a.kill(l.Step)
		}
	}
	return nil
}

// profile records when the devices have done what a launch has started on them, which they tell by its first result.
func (d *Device) profile(l *Launch, x *Executable) {
	if len(l.Outs) == 0 {
		return
	}
	for k := range d.devs {
		ev, err := d.client.Ready(x.outs[k*len(l.Outs)])
		if err != nil {
			return // the next call of the plugin says so
		}
		profile.Executed(d.Index+int32(k), l.Recorded, int64(len(l.Outs)), func() {
			_ = d.client.AwaitContext(context.Background(), ev) // a failure belongs to the buffers
			countUnreported(d.client.DestroyEvents(ev))
		})
	}
}

// awaitExchange waits for the program that was started last. The caller holds run.
func (d *Device) awaitExchange() error {
	latest := (d.next + inFlight - 1) % inFlight
	if err := d.retireAt(latest); err != nil {
		if failure := d.job.Failure(); failure != nil {
			return failure
		}
		return err
	}
	return nil
}

// given reports that the user gave argument i to the launch, and that no one reads its memory in place.
func (l *Launch) given(i int) bool {
	return l.Given[i] && l.Args[i].pins.Load() == 0 && !l.Args[i].borrowed
}

// shared lists the arguments that the program was compiled to take over and must not. The launch is not their only
// owner, or they are fixed. Only an owner can make another one, so the answer holds.
func (l *Launch) shared(fixed func(*Buffer) bool) []int32 {
	for i, to := range l.Donors {
		switch {
		case l.given(i):
		case to < 0 && !l.Given[i]:
		case l.Args[i].Refs() > 1 || fixed(l.Args[i]):
			l.keep = append(l.keep, int32(i))
		default:
			donated.Add(1)
		}
	}
	return l.keep
}

// dropPacks destroys what the scratch has of packs, which follow the buffers.
func (x *Executable) dropPacks(buffers int) {
	for first := 0; first < len(x.raw); first += x.args {
		countUnreported(x.dev.client.Destroy(x.raw[first+buffers : first+x.args]...))
	}
}

// uploadPack copies a pack to the plugin's device k.
func (d *Device) uploadPack(p *Pack, k int) (pjrt.Buffer, error) {
	dims := [1]int64{int64(p.N)}
	b, ev, err := d.client.FromHost(unsafe.Pointer(&p.Data[0]), pjrt.Type(p.Type.PJRT()), dims[:], nil, d.devs[k], pjrt.OnlyDuringCall)
	if err != nil {
		return 0, d.explain(err, "copying the numbers of a program to %s", d)
	}
	if err := d.client.DestroyEvents(ev); err != nil {
		countUnreported(d.client.Destroy(b))
		return 0, Translate(err)
	}
	return b, nil
}
