package runtime

import (
	"fmt"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// keys is the store of a job as its plugin takes it. One key is answered here: the plugin waits for it, and
// gets the reason when the job has failed; it puts the key itself when it ends.
type keys struct {
	*Job
	end  sync.Once     // closes over
	over chan struct{} // closed when the plugin has ended
}

// keys is the store as plugins take it, nil for none.
func (j *Job) keys() pjrt.KeyValueStore {
	if j == nil {
		return nil
	}
	return &keys{Job: j, over: make(chan struct{})}
}

// failureKey is the key under which the CPU plugin of this process waits for the failure of the job.
func (k *keys) failureKey() string { return fmt.Sprintf("xlacpu/failure/%d", k.Index) }

// Get waits for a key, as pjrt.KeyValueStore says.
func (k *keys) Get(key string, timeout time.Duration) ([]byte, error) {
	if key != k.failureKey() {
		return k.Store.Get(key, timeout)
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-k.failed:
		return []byte(k.Failure().Error()), nil
	case <-k.over:
		return nil, nil
	case <-late.C:
		return nil, &pjrt.Error{Code: pjrt.DeadlineExceeded, Func: "Get", Msg: "the job has not failed"}
	}
}

// TryGet returns the value of a key, as pjrt.KeyValueStore says.
func (k *keys) TryGet(key string) ([]byte, error) { return k.Store.TryGet(key) }

// Put sets the value of a key, as pjrt.KeyValueStore says.
func (k *keys) Put(key string, value []byte) error {
	if key != k.failureKey() {
		return k.Store.Put(key, value)
	}
	k.end.Do(func() { close(k.over) })
	return nil
}
