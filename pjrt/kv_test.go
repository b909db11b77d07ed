package pjrt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// memoryStore is a key-value store for the clients of one process.
type memoryStore struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed and made again when a key is put
	failure error         // what Put returns
}

func newMemoryStore() *memoryStore {
	return &memoryStore{values: make(map[string][]byte), changed: make(chan struct{})}
}

func (s *memoryStore) Get(key string, timeout time.Duration) ([]byte, error) {
	late := time.After(timeout)
	for {
		s.mu.Lock()
		value, ok := s.values[key]
		changed := s.changed
		s.mu.Unlock()
		if ok {
			return value, nil
		}
		select {
		case <-changed:
		case <-late:
			return nil, fmt.Errorf("no %s: %w", key, context.DeadlineExceeded)
		}
	}
}

func (s *memoryStore) TryGet(key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.values[key]; ok {
		return value, nil
	}
	return nil, &Error{Code: NotFound, Func: "TryGet", Msg: key}
}

func (s *memoryStore) Put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return s.failure
	}
	s.values[key] = value
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// TestProcesses makes the clients of two processes at once, which find each
// other through the store, with the callbacks on the calling thread and on one
// of the plugin's own.
func TestProcesses(t *testing.T) {
	plugin, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	control := nullplugin.Open(t, plugin.Path())
	before, memory := control.Live(), MemoryCounters()
	for _, thread := range []bool{false, true} {
		store := newMemoryStore()
		clients := make([]*Client, 2)
		var wait sync.WaitGroup
		for i := range clients {
			wait.Add(1)
			go func() {
				defer wait.Done()
				c, err := plugin.NewClient(map[string]any{
					"process_index": int64(i), "process_count": int64(2), "devices": int64(2), "kv_thread": thread,
				}, store)
				if err != nil {
					t.Error(err)
					return
				}
				clients[i] = c
			}()
		}
		wait.Wait()
		for i, c := range clients {
			if c == nil {
				continue
			}
			if c.ProcessIndex() != i || len(c.Devices()) != 4 || len(c.AddressableDevices()) != 2 {
				t.Errorf("process %d: %v, devices %v", c.ProcessIndex(), c, c.Devices())
			}
			if d := c.Devices()[2*(1-i)]; d.Addressable() || d.LocalHardwareID() != -1 || d.ProcessIndex() != 1-i {
				t.Errorf("the other process's device: %v, addressable %v", d, d.Addressable())
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if after := control.Live(); after != before {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if now, ok := eventually(func() ([]MemoryCounter, bool) {
		now := MemoryCounters()
		return now, fmt.Sprint(now) == fmt.Sprint(memory)
	}); !ok {
		t.Errorf("before %+v, after %+v", memory, now)
	}
}

// brokenStore fails in ways that must be reported to a plugin.
type brokenStore struct {
	*memoryStore
	found bool
}

func (s brokenStore) TryGet(key string) ([]byte, error) {
	if s.found {
		return []byte("surprise"), nil
	}
	return nil, errors.New("the store is down")
}

// expiredStore has every wait end at once without the key.
type expiredStore struct{ *memoryStore }

func (s expiredStore) Get(key string, timeout time.Duration) ([]byte, error) {
	return nil, fmt.Errorf("no %s in %v: %w", key, timeout, context.DeadlineExceeded)
}

func TestStoreFailures(t *testing.T) {
	plugin, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	refusing := newMemoryStore()
	refusing.failure = &Error{Code: PermissionDenied, Msg: "read only"}
	for _, c := range []struct {
		store KeyValueStore
		opts  map[string]any
		code  Code
		words string
	}{
		{refusing, nil, PermissionDenied, "read only"},
		{brokenStore{newMemoryStore(), false}, nil, Unknown, "the store is down"},
		{brokenStore{newMemoryStore(), true}, nil, Internal, "a missing key was found"},
		{expiredStore{newMemoryStore()}, nil, DeadlineExceeded, "no null/devices/0 in 20s"},
		{nil, map[string]any{"process_count": int64(2)}, InvalidArgument, "need a key-value store"},
	} {
		_, err := plugin.NewClient(c.opts, c.store)
		wantCode(t, err, c.code, "Client_Create", c.words)
	}
}

func TestClientOptions(t *testing.T) {
	plugin, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	before := MemoryCounters()
	for _, c := range []struct {
		opts  map[string]any
		words string
	}{
		{map[string]any{"unknown": "x"}, "no option unknown"},
		{map[string]any{"devices": 1.5}, `option "devices" has type float64`},
		{map[string]any{"devices": "many"}, "no option devices of type 0"},
		{map[string]any{"process_index": 3}, "process 3 of 1"},
		{map[string]any{"fault": "nonsense"}, "cannot read the fault"},
		{map[string]any{"fault": "Client_Compile@never:1:INTERNAL"}, "cannot read the fault"},
		{map[string]any{"fault": "Client_Compile@deleted:1"}, "cannot read the fault"},
	} {
		_, err := plugin.NewClient(c.opts, nil)
		wantCode(t, err, InvalidArgument, "Client_Create", c.words)
	}
	if after := MemoryCounters(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// TestFaultOption arms a fault by the option of a client.
func TestFaultOption(t *testing.T) {
	f := newFixture(t, map[string]any{"fault": "Client_Compile:2:INTERNAL:by an option"})
	module := binary("add", "tensor<2xf32>")
	f.compile(module, CompileOptions{})
	_, err := f.Compile([]byte(module), "mlir", CompileOptions{})
	wantCode(t, err, Internal, "Client_Compile", "by an option")
}
