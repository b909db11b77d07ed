package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// stepModule is one step of training: the new weight takes the place of the old
// one, the loss is new.
const stepModule = `"builtin.module"() ({
  "func.func"() ({
  ^bb0(%w: tensor<2xf32>, %x: tensor<2xf32>):
    %lr = "stablehlo.constant"() <{value = dense<0.5> : tensor<f32>}> : () -> tensor<f32>
    %lrs = "stablehlo.broadcast_in_dim"(%lr) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
    %grad = "stablehlo.multiply"(%w, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %step = "stablehlo.multiply"(%grad, %lrs) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %new = "stablehlo.subtract"(%w, %step) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%new, %grad) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }) {arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>), sym_name = "main"} : () -> ()
}) {sym_name = "step"} : () -> ()
`

// training is a client with a program and its data. Errors of what it cleans up
// are collected.
type training struct {
	client  *Client
	exe     *Executable
	call    *Call
	queue   *CompletionQueue
	weight  Buffer
	input   Buffer
	losses  []Buffer
	results [][]float32
}

func (s *training) start(plugin *Plugin, delay int64) (err error) {
	if s.client, err = plugin.NewClient(map[string]any{"delay_us": delay}, nil); err != nil {
		return err
	}
	if s.exe, err = s.client.Compile([]byte(stepModule), "mlir", CompileOptions{}); err != nil {
		return err
	}
	if s.call, err = s.exe.Prepare(2); err != nil {
		return err
	}
	if s.queue, err = s.client.NewCompletionQueue(); err != nil {
		return err
	}
	if s.weight, err = s.put(1, 2); err != nil {
		return err
	}
	s.input, err = s.put(1, 1)
	return err
}

func (s *training) put(data ...float32) (Buffer, error) {
	b, e, err := s.client.FromHost(unsafe.Pointer(&data[0]), F32, []int64{int64(len(data))}, nil,
		s.exe.AddressableDevices()[0], OnlyDuringCall)
	if err != nil {
		return 0, err
	}
	if err := s.client.AwaitAndDestroy(e); err != nil {
		return 0, errors.Join(err, s.client.Destroy(b))
	}
	return b, nil
}

// step runs the program once and reads the loss. An execution that fails later
// leaves the training without a weight.
func (s *training) step() error {
	outs, events := make([]Buffer, 2), make([]Event, 1)
	if err := s.call.Execute([]Buffer{s.weight, s.input}, nil, outs, events); err != nil {
		return err
	}
	s.losses = append(s.losses, outs[1])
	old := s.weight
	s.weight = outs[0]
	if err := s.client.Destroy(old); err != nil {
		return errors.Join(err, s.client.DestroyEvents(events...))
	}
	watched := s.queue.Watch(events[0], 1)
	if err := errors.Join(watched, s.client.DestroyEvents(events...)); err != nil {
		return err
	}
	done := make([]Completion, 1)
	if _, err := s.queue.Wait(done); err != nil {
		return err
	}
	if done[0].Err != nil {
		return done[0].Err
	}
	return s.read(outs[1])
}

func (s *training) read(b Buffer) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	out := make([]float32, 2)
	pins.Pin(&out[0])
	e, err := s.client.ToHost(b, unsafe.Pointer(&out[0]), 8)
	if err != nil {
		return err
	}
	s.results = append(s.results, out)
	return s.client.AwaitAndDestroy(e)
}

func (s *training) finish() (err error) {
	if s.client == nil {
		return nil
	}
	err = s.client.Destroy(append(s.losses, s.weight, s.input)...)
	if s.queue != nil {
		err = errors.Join(err, s.queue.Close())
	}
	if s.call != nil {
		err = errors.Join(err, s.call.Close())
	}
	if s.exe != nil {
		err = errors.Join(err, s.exe.Close())
	}
	return errors.Join(err, s.client.Close())
}

// train is the loop that the sweep runs: everything from the client's creation
// to its end, with three steps between.
func train(plugin *Plugin, delay int64) (results [][]float32, err error) {
	var s training
	defer func() { err = errors.Join(err, s.finish()) }()
	if err := s.start(plugin, delay); err != nil {
		return nil, err
	}
	for range 3 {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	return s.results, nil
}

const trained = "[[1 2] [0.5 1] [0.25 0.5]]"

// TestEveryFault fails every call that a training loop makes, each in a run of
// its own: every time there is an error that says which call it was and why,
// nothing is left behind, and the next run is as good as the first.
func TestEveryFault(t *testing.T) {
	for _, delay := range []int64{0, 1} {
		t.Run(fmt.Sprintf("delay %d", delay), func(t *testing.T) { sweep(t, delay) })
	}
}

func sweep(t *testing.T, delay int64) {
	plugin, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	control := nullplugin.Open(t, plugin.Path())
	control.StartTrace()
	results, err := train(plugin, delay)
	if err != nil || fmt.Sprint(results) != trained {
		t.Fatalf("without a fault: %v, %v", results, err)
	}
	reached := make(map[string]int)
	for _, fn := range control.StopTrace() {
		reached[fn]++
	}
	for fn := range reached {
		switch fn {
		case "LoadedExecutable_Execute", "Buffer_ToHostBuffer", "Client_BufferFromHostBuffer":
			reached[fn+"@event"] = reached[fn]
		}
	}
	before, _ := drained(control)
	pairs := 0
	for fn, n := range reached {
		for k := 1; k <= n; k++ {
			pairs++
			inject(t, plugin, control, before, delay, fn, k)
		}
	}
	if now, ok := drained(control); !ok {
		t.Errorf("after the last run there is %+v", now)
	}
	t.Logf("%d pairs of %d functions and a number of a call failed, delay %d us", pairs, len(reached), delay)
}

func inject(t *testing.T, plugin *Plugin, control *nullplugin.Control, before nullplugin.Live, delay int64, fn string, k int) {
	t.Helper()
	control.Arm(fmt.Sprintf("%s:%d:DATA_LOSS:fault %s %d", fn, k, strings.TrimSuffix(fn, "@event"), k))
	_, err := train(plugin, delay)
	var e *Error
	name, late := strings.CutSuffix(fn, "@event")
	words := fmt.Sprintf("fault %s %d", name, k)
	if !errors.As(err, &e) || e.Code != DataLoss || e.Msg != words || !late && e.Func != "PJRT_"+fn {
		t.Errorf("%s, call %d: got %v", fn, k, err)
	}
	if control.Armed() != 0 {
		t.Errorf("%s, call %d: the fault did not fire", fn, k)
		control.Disarm()
	}
	if after, ok := eventually(func() (nullplugin.Live, bool) {
		now := control.Live()
		return now, now == before
	}); !ok {
		t.Errorf("%s, call %d: before %+v, after %+v", fn, k, before, after)
	}
	if results, err := train(plugin, delay); err != nil || fmt.Sprint(results) != trained {
		t.Errorf("the run after %s, call %d: %v, %v", fn, k, results, err)
	}
}

// drained waits for the workers of closed clients to go.
func drained(control *nullplugin.Control) (nullplugin.Live, bool) {
	return eventually(func() (nullplugin.Live, bool) {
		now := control.Live()
		return now, now.Clients == 0
	})
}
