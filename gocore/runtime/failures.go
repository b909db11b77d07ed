package runtime

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// mostFailures bounds what a device remembers for callers who never wait for it.
const mostFailures = 16

// failures are the failed launches of a device since the last wait, the oldest first.
type failures struct {
	mu   sync.Mutex
	list []*failed // guarded by mu
}

// failed is a launch that failed. Its results may fail one by one, each by a cause of its own: a caller who is given
// one knows of the launch. Fields are guarded by the mutex of failures.
type failed struct {
	causes []error // by which a reader's error is known again
	err    error   // that reading the first failed result gives; nil once a caller was given it
}

// by reports that the launch failed by a cause.
func (o *failed) by(err error) bool {
	return slices.ContainsFunc(o.causes, func(cause error) bool { return same(err, cause) })
}

// note keeps a failure for take; into is what an earlier result of the launch got, nil for none. An equal failure that
// no caller was given stands for both.
func (f *failures) note(into *failed, cause, err error) *failed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if into != nil {
		into.causes = append(into.causes, cause)
		return into
	}
	if i := slices.IndexFunc(f.list, func(o *failed) bool { return o.err != nil && o.by(cause) }); i >= 0 {
		return f.list[i]
	}
	into = &failed{[]error{cause}, err}
	f.add(into)
	return into
}

// noteExecution keeps the failure of an execution, unless an equal one is known. Readers of its results may have been
// given it already, and what is computed from them fails with the same text.
func (f *failures) noteExecution(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(f.list, func(o *failed) bool { return o.by(err) }) {
		f.add(&failed{[]error{err}, err})
	}
}

// add appends to the list. If that is full, a failure that a caller was given is dropped, else the new one.
func (f *failures) add(o *failed) {
	f.list = append(f.list, o)
	if len(f.list) > mostFailures {
		drop := slices.IndexFunc(f.list, func(o *failed) bool { return o.err == nil })
		if drop < 0 {
			drop = len(f.list) - 1
		}
		f.list = slices.Delete(f.list, drop, drop+1)
	}
}

// reported says that a caller has been given err. The failure of an execution can be read from a result before it is
// noted.
func (f *failures) reported(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := false
	for _, o := range f.list {
		if o.by(err) {
			o.err, known = nil, true
		}
	}
	if !known {
		f.add(&failed{causes: []error{err}})
	}
}

// take returns what no caller was given, nil if that is nothing, and forgets all failures.
func (f *failures) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var unreported []error
	for _, o := range f.list {
		if o.err != nil {
			unreported = append(unreported, o.err)
		}
	}
	f.list = nil
	if len(unreported) == 1 {
		return unreported[0]
	}
	return errors.Join(unreported...)
}

// same reports that err tells of a cause. A plugin repeats the text of a failed execution for each of its results and
// for what is computed from them. It puts words of its own before it, and does not always keep the code.
func same(err, cause error) bool {
	if errors.Is(err, cause) {
		return true
	}
	var a, b *pjrt.Error
	if !errors.As(err, &a) || !errors.As(cause, &b) {
		return false
	}
	first, second := xlaWords.ReplaceAllString(a.Msg, ""), xlaWords.ReplaceAllString(b.Msg, "")
	return first == second && (first != "" || a.Code == b.Code) || repeats(first, second) || repeats(second, first)
}

// xlaWords are what XLA's client of the CPU puts before the text of an error. The %s is there, as XLA does not format
// it.
var xlaWords = regexp.MustCompile(`^(Error (preparing|dispatching) computation: (%s)?|Buffer Definition Event: )+`)

// repeats reports that a text is other words, a colon, and then another text.
func repeats(text, other string) bool {
	before, found := strings.CutSuffix(text, other)
	return found && other != "" && strings.HasSuffix(before, ": ")
}
