package runtime

import (
	"errors"
	"slices"
	"sync"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// mostFailures bounds what a device remembers for callers who never wait for it.
const mostFailures = 16

// failures are the failed launches of a device since the last wait, the oldest first.
type failures struct {
	mu   sync.Mutex
	list []*failed
}

// failed is a launch that failed. Its results may fail one by one, each by a cause of its own: who is told of one is told
// of the launch. Fields are guarded by the mutex of failures.
type failed struct {
	causes []error // by which a reader's error is known again
	err    error   // that reading the first failed result gives; nil once a caller was told
}

// by reports that the launch failed by a cause.
func (o *failed) by(err error) bool {
	return slices.ContainsFunc(o.causes, func(cause error) bool { return same(err, cause) })
}

// note keeps a failure for take, unless it is known; into is what an earlier result of the launch got, nil for none.
func (f *failures) note(into *failed, cause, err error) *failed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if into != nil {
		into.causes = append(into.causes, cause)
		return into
	}
	if i := slices.IndexFunc(f.list, func(o *failed) bool { return o.by(cause) }); i >= 0 {
		return f.list[i]
	}
	into = &failed{[]error{cause}, err}
	if len(f.list) < mostFailures {
		f.list = append(f.list, into)
	}
	return into
}

// told says that a caller was told of err. The failure of an execution can be read from a result before it is noted.
func (f *failures) told(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := false
	for _, o := range f.list {
		if o.by(err) {
			o.err, known = nil, true
		}
	}
	if known {
		return
	}
	f.list = append(f.list, &failed{causes: []error{err}})
	if len(f.list) > mostFailures {
		told := slices.IndexFunc(f.list, func(o *failed) bool { return o.err == nil })
		f.list = slices.Delete(f.list, told, told+1)
	}
}

// take returns what no caller was told of, nil if that is nothing, and forgets all failures.
func (f *failures) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var untold []error
	for _, o := range f.list {
		if o.err != nil {
			untold = append(untold, o.err)
		}
	}
	f.list = nil
	if len(untold) == 1 {
		return untold[0]
	}
	return errors.Join(untold...)
}

// same reports that err tells of a cause. A plugin repeats the error of an execution for each of its results.
func same(err, cause error) bool {
	var a, b *pjrt.Error
	return errors.Is(err, cause) || errors.As(err, &a) && errors.As(cause, &b) && a.Code == b.Code && a.Msg == b.Msg
}
