package runtime

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// fixture is a client on the null plugin, which computes a few operations and can be made to fail.
type fixture struct {
	*Device
	t       *testing.T
	control *nullplugin.Control
}

// open checks at the end that nothing is left, here and in the plugin.
func open(t *testing.T, opts map[string]any) *fixture {
	t.Helper()
	path := nullplugin.Build(t)
	plugin, err := pjrt.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	control := nullplugin.Open(t, path)
	before, buffers, bytes := control.Live(), LiveBuffers(), LiveBytes()
	client, err := Open(plugin, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		control.Disarm()
		for _, d := range client.Devices {
			d.Wait(d.Submitted(), 0)
		}
		if err := client.PJRT.Close(); err != nil {
			t.Error(err)
		}
		if LiveBuffers() != buffers || LiveBytes() != bytes {
			t.Errorf("%d buffers of %d bytes are left", LiveBuffers()-buffers, LiveBytes()-bytes)
		}
		after := control.Live()
		for end := time.Now().Add(5 * time.Second); after != before && time.Now().Before(end); after = control.Live() {
			time.Sleep(time.Millisecond) // a worker thread releases its client a moment later
		}
		if after != before {
			t.Errorf("the plugin had %+v before and %+v after", before, after)
		}
	})
	return &fixture{client.Devices[0], t, control}
}

var pair = shape.Make(dtype.F32, 2)

func (f *fixture) array(a, b float32) *Buffer {
	f.t.Helper()
	data := [2]float32{a, b}
	buf, err := f.Upload(unsafe.Pointer(&data), pair, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return buf
}

func read(b *Buffer) (out [2]float32, err error) {
	err = b.Download(unsafe.Pointer(&out), 8)
	return out, err
}

func (f *fixture) want(b *Buffer, x, y float32) {
	f.t.Helper()
	if got, err := read(b); err != nil || got != [2]float32{x, y} {
		f.t.Errorf("got %v (%v), want [%v %v]", got, err, x, y)
	}
}

// program is a program that compiles when asked, after gate is closed.
type program struct {
	f      *fixture
	module string
	args   int
	gate   chan struct{} // nil: at once
	once   sync.Once
	done   atomic.Bool
	exe    *Executable
	err    error
}

// double is x+x, written into x where donor is 0.
func (f *fixture) double(donor int) *program {
	attributes := ""
	if donor == 0 {
		attributes = " {tf.aliasing_output = 0 : i32}"
	}
	return f.program(1, fmt.Sprintf(`module @double {
  func.func public @main(%%0: tensor<2xf32>%s) -> tensor<2xf32> {
    %%1 = "stablehlo.add"(%%0, %%0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%%1) : (tensor<2xf32>) -> ()
  }
}`, attributes))
}

func (f *fixture) program(args int, module string) *program {
	p := &program{f: f, module: module, args: args}
	f.t.Cleanup(func() {
		if p.exe != nil {
			p.exe.Release()
		}
	})
	return p
}

func (p *program) Executable() (*Executable, error) {
	p.once.Do(func() {
		if p.gate != nil {
			<-p.gate
		}
		p.exe, p.err = p.f.Compile([]byte(p.module), p.args, Division{})
		p.done.Store(true)
	})
	return p.exe, p.err
}

func (p *program) Prompt() bool { return p.done.Load() || p.gate == nil }

func (p *program) Bisect() Bisection { return nil }

// run launches a program on buffers, of which it takes over a reference each, and returns its result.
func (f *fixture) run(p *program, donors []int32, args ...*Buffer) *Buffer {
	l := &Launch{Program: p, Args: args, Donors: donors, Given: make([]bool, len(args)), Step: 7}
	for i, a := range args {
		l.Given[i] = a.Donating()
	}
	l.NewOuts(f.Device, []*shape.Shape{pair}, nil)
	out := l.Outs[0]
	f.Enqueue(l)
	f.Drain()
	return out
}

func TestALaunchTakesOverABufferThatIsItsOwn(t *testing.T) {
	f := open(t, nil)
	before := donated.Value()
	x := f.array(1, 2)
	y := f.run(f.double(0), []int32{0}, x)
	f.want(y, 2, 4)
	if donated.Value() != before+1 {
		t.Error("the buffer was not donated")
	}
	y.Release()
}

func TestALaunchKeepsABufferThatHasAnotherOwner(t *testing.T) {
	f := open(t, nil)
	before := donated.Value()
	x := f.array(1, 2)
	x.Retain()
	p := f.double(0)
	y := f.run(p, []int32{0}, x)
	f.want(y, 2, 4)
	f.want(x, 1, 2)
	if donated.Value() != before {
		t.Error("a shared buffer was donated")
	}
	z := f.run(p, []int32{0}, x) // now it has no other
	f.want(z, 2, 4)
	if donated.Value() != before+1 {
		t.Error("the last owner's launch did not take the buffer over")
	}
	y.Release()
	z.Release()
}

func TestALaunchInTheQueueIsAnOwner(t *testing.T) {
	f := open(t, nil)
	x := f.array(1, 2)
	x.Retain()
	first := f.double(0)
	first.gate = make(chan struct{})
	y := f.run(first, []int32{0}, x) // waits for its compile
	z := f.run(f.double(0), []int32{0}, x)
	close(first.gate)
	f.want(y, 2, 4)
	f.want(z, 2, 4)
	y.Release()
	z.Release()
}

func TestAGivenBufferDiesForAllItsOwners(t *testing.T) {
	f := open(t, nil)
	x := f.array(1, 2)
	x.Retain()
	x.SetDonating(true, "")
	y := f.run(f.double(0), []int32{0}, x)
	f.want(y, 2, 4)
	if _, err := read(x); errs.KindOf(err) != errs.Donated {
		t.Errorf("reading the buffer: %v", err)
	}
	if _, err := x.Pin(); errs.KindOf(err) != errs.Donated {
		t.Errorf("pinning the buffer: %v", err)
	}
	x.Release()
	y.Release()
}

func TestAPinnedBufferIsNotTakenOver(t *testing.T) {
	f := open(t, map[string]any{"delay_us": int64(500)})
	x := f.run(f.double(-1), []int32{-1}, f.array(1, 2)) // on its way
	x.Retain()
	addr, err := x.Pin()
	if err != nil || addr == 0 {
		t.Fatalf("address %#x, %v", addr, err)
	}
	here := *(**[2]float32)(unsafe.Pointer(&addr))
	x.SetDonating(true, "")
	p := f.double(0)
	y := f.run(p, []int32{0}, x)
	f.want(y, 4, 8)
	if *here != [2]float32{2, 4} {
		t.Errorf("the pinned memory holds %v", *here)
	}
	f.want(x, 2, 4)
	x.Unpin()
	x.Retain()
	z := f.run(p, []int32{0}, x)
	f.want(z, 4, 8)
	if _, err := read(x); errs.KindOf(err) != errs.Donated {
		t.Errorf("after Unpin the given buffer should be gone: %v", err)
	}
	for _, b := range []*Buffer{x, y, z} {
		b.Release()
	}
}

func TestABorrowedBufferIsNotTakenOver(t *testing.T) {
	f := open(t, nil)
	here := new([2]float32)
	*here = [2]float32{1, 2}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(here)
	done := make(chan struct{})
	x, err := f.Borrow(unsafe.Pointer(here), pair, func() { close(done) })
	if err != nil {
		t.Fatal(err)
	}
	addr, err := x.Pin()
	if err != nil || addr != uintptr(unsafe.Pointer(here)) {
		t.Errorf("the buffer is at %#x (%v), not where it was: %p", addr, err, here)
	}
	x.Unpin()
	x.SetDonating(true, "")
	x.Retain()
	y := f.run(f.double(0), []int32{0}, x) // the other owner is this test
	f.want(y, 2, 4)
	f.want(x, 1, 2)
	z := f.run(f.double(0), []int32{0}, x) // no other owner
	f.want(z, 2, 4)
	<-done
	if *here != [2]float32{1, 2} {
		t.Errorf("the host's memory holds %v", *here)
	}
	y.Release()
	z.Release()
}

// A launch that fails gives its cause to its results and to what is computed from them; everything else
// goes on.
func TestFailures(t *testing.T) {
	for name, fault := range map[string]string{
		"compile":             "Client_Compile:1:INTERNAL:no luck",
		"compile, no memory":  "Client_Compile:1:RESOURCE_EXHAUSTED:no luck",
		"execute":             "LoadedExecutable_Execute:1:INTERNAL:no luck",
		"execute, no memory":  "LoadedExecutable_Execute:1:RESOURCE_EXHAUSTED:no luck",
		"the execution fails": "LoadedExecutable_Execute@event:1:INTERNAL:no luck",
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, nil)
			x := f.array(1, 2)
			x.Retain()
			good := f.double(-1)
			if fault[:6] == "Loaded" {
				if _, err := good.Executable(); err != nil {
					t.Fatal(err)
				}
			}
			f.control.Arm(fault)
			y := f.run(good, []int32{-1}, x)
			y.Retain()
			z := f.run(f.double(-1), []int32{-1}, y)
			for what, b := range map[string]*Buffer{"result": y, "result of the result": z} {
				_, err := read(b)
				f.Reported(err)
				if err == nil || !strings.Contains(err.Error(), "no luck") {
					t.Errorf("%s: %v", what, err)
				}
				if strings.HasSuffix(name, "no memory") && (errs.KindOf(err) != errs.OOM || !strings.Contains(err.Error(), "(in use ")) {
					t.Errorf("%s does not say how much memory is in use: %v", what, err)
				}
			}
			f.want(x, 1, 2)
			x.Retain()
			again := f.run(f.double(-1), []int32{-1}, x)
			f.want(again, 2, 4)
			f.Wait(f.Submitted(), 0)
			if err := f.TakeFailure(); err != nil {
				t.Errorf("told again: %v", err)
			}
			for _, b := range []*Buffer{x, y, z, again} {
				b.Release()
			}
		})
	}
}

// What no reader was told of is kept, once for each cause, whichever others were told of and whatever ran since.
func TestTakeFailure(t *testing.T) {
	for name, fault := range map[string]string{
		"at the start": "LoadedExecutable_Execute:1:INTERNAL:%s",
		"as it ran":    "LoadedExecutable_Execute@event:1:INTERNAL:%s",
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, nil)
			p := f.double(-1)
			if _, err := p.Executable(); err != nil {
				t.Fatal(err)
			}
			var failed []*Buffer
			for _, cause := range []string{"first", "second", "third"} {
				f.control.Arm(fmt.Sprintf(fault, cause))
				b := f.run(p, []int32{-1}, f.array(1, 2))
				f.WaitQueue(0, 0)
				f.control.Disarm()
				b.Retain()
				failed = append(failed, b, f.run(p, []int32{-1}, b))
			}
			for range 2 * inFlight {
				f.run(p, []int32{-1}, f.array(1, 2)).Release()
			}
			if _, err := read(failed[2]); err == nil || !strings.Contains(err.Error(), "second") {
				t.Error(err)
			} else {
				f.Reported(err)
			}
			f.Wait(f.Submitted(), 0)
			err := f.TakeFailure()
			if err == nil || strings.Count(err.Error(), "first") != 1 || strings.Count(err.Error(), "third") != 1 || strings.Contains(err.Error(), "second") {
				t.Errorf("told of: %v", err)
			}
			if err := f.TakeFailure(); err != nil {
				t.Errorf("told again: %v", err)
			}
			for _, b := range failed {
				b.Release()
			}
		})
	}
}

// parted is a program whose result i needs argument i alone, and that cannot be compiled in parts either.
type parted struct{ *program }

func (*parted) Bisect() Bisection { return partedBisection{} }

type partedBisection struct{}

func (partedBisection) Lost(int) error                  { return nil }
func (partedBisection) Need(results []int) ([]int, int) { return results, len(results) }
func (partedBisection) Compile([]int) (*Executable, error) {
	return nil, errors.New("a part cannot be compiled")
}

// A reader who is told of failures leaves room for later ones, also for one with the same text.
func TestManyFailuresThatReadersWereToldOf(t *testing.T) {
	f := open(t, nil)
	p := f.double(-1)
	if _, err := p.Executable(); err != nil {
		t.Fatal(err)
	}
	fail := func() *Buffer {
		f.control.Arm("LoadedExecutable_Execute:1:INTERNAL:no luck")
		b := f.run(p, []int32{-1}, f.array(1, 2))
		f.WaitQueue(0, 0)
		f.control.Disarm()
		return b
	}
	for range mostFailures + 1 {
		b := fail()
		f.Reported(b.Await())
		b.Release()
	}
	fail().Release()
	f.Wait(f.Submitted(), 0)
	if err := f.TakeFailure(); err == nil || strings.Count(err.Error(), "no luck") != 1 {
		t.Errorf("told of: %v", err)
	}
}

func TestAFailedArgumentDoesNotHideAnotherFailure(t *testing.T) {
	f := open(t, nil)
	p := f.double(-1)
	if _, err := p.Executable(); err != nil {
		t.Fatal(err)
	}
	f.control.Arm("LoadedExecutable_Execute:1:INTERNAL:no luck")
	bad := f.run(p, []int32{-1}, f.array(1, 2))
	if err := bad.Await(); err == nil {
		t.Fatal("the argument has not failed")
	} else {
		f.Reported(err)
	}
	l := &Launch{Program: &parted{p}, Args: []*Buffer{bad, f.array(1, 2)}, Donors: []int32{-1, -1}, Given: make([]bool, 2)}
	l.NewOuts(f.Device, []*shape.Shape{pair, pair}, nil)
	outs := slices.Clone(l.Outs)
	f.Enqueue(l)
	f.Drain()
	if err := outs[0].Await(); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("the result of the failed argument: %v", err)
	}
	f.Wait(f.Submitted(), 0)
	if err := f.TakeFailure(); err == nil || err.Error() != "a part cannot be compiled" {
		t.Errorf("told of: %v", err)
	}
	for _, o := range outs {
		o.Release()
	}
}

func TestWaitsDoNotReachForLaterLaunches(t *testing.T) {
	f := open(t, nil)
	x := f.run(f.double(0), []int32{0}, f.array(1, 1))
	launches := f.Submitted()
	later := f.double(0)
	later.gate = make(chan struct{})
	y := f.run(later, []int32{0}, f.array(1, 1))
	if !f.Wait(launches, 10*time.Second) {
		t.Error("waiting for the first of two launches expired")
	}
	if done, err := x.AwaitFor(10 * time.Second); !done || err != nil {
		t.Errorf("waiting for the result of the first of two launches: %v, %v", done, err)
	}
	if f.Wait(f.Submitted(), time.Millisecond) {
		t.Error("waiting for both launches did not expire")
	}
	close(later.gate)
	if !f.Wait(f.Submitted(), 0) {
		t.Error("waiting for both launches expired")
	}
	x.Release()
	y.Release()
}

func TestLaunchesRunInOrder(t *testing.T) {
	f := open(t, map[string]any{"delay_us": int64(200)})
	slow := f.double(0)
	slow.gate = make(chan struct{})
	x := f.run(slow, []int32{0}, f.array(1, 1))
	p := f.double(0)
	for range 9 { // more than may be in flight
		x = f.run(p, []int32{0}, x)
	}
	if x.Ready() {
		t.Error("a result is ready before the program that it depends on is compiled")
	}
	if f.WaitQueue(0, time.Millisecond) {
		t.Error("the queue is said to be empty")
	}
	close(slow.gate)
	if !f.Wait(f.Submitted(), 0) {
		t.Error("waiting expired")
	}
	f.want(x, 1024, 1024)
	x.Release()
}

func TestManyThreads(t *testing.T) {
	f := open(t, map[string]any{"delay_us": int64(20)})
	p := f.double(0)
	if _, err := p.Executable(); err != nil {
		t.Fatal(err)
	}
	shared := f.array(3, 4)
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				shared.Retain()
				own := f.array(float32(k), 1)
				a, b := f.run(p, []int32{0}, shared), f.run(p, []int32{0}, own)
				if got, err := read(a); err != nil || got != [2]float32{6, 8} {
					t.Errorf("shared: %v, %v", got, err)
				}
				if got, err := read(b); err != nil || got != [2]float32{2 * float32(k), 2} {
					t.Errorf("own: %v, %v", got, err)
				}
				a.Release()
				b.Release()
			}
		}()
	}
	wg.Wait()
	f.want(shared, 3, 4)
	shared.Release()
}

// TestDrainDoesNotWaitForTheDevice: the caller's thread, which may be interrupted, never waits for an execution.
func TestDrainDoesNotWaitForTheDevice(t *testing.T) {
	const delay = 200 * time.Millisecond
	f := open(t, map[string]any{"delay_us": delay.Microseconds()})
	p := f.double(-1)
	x := f.array(1, 2)
	f.want(x, 1, 2)
	start := time.Now()
	var outs []*Buffer
	for range inFlight + 3 {
		x.Retain()
		outs = append(outs, f.run(p, []int32{-1}, x))
	}
	if took := time.Since(start); took > delay {
		t.Errorf("%d launches kept their caller for %v; an execution takes %v", len(outs), took, delay)
	}
	for _, o := range outs {
		f.want(o, 2, 4)
		o.Release()
	}
	x.Release()
}
