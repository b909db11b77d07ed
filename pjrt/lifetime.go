package pjrt

import "sync/atomic"

// lifetime counts who needs an object of the plugin. Closing it frees it at once or, while others need it, with the
// last of them. Entering and leaving are one atomic addition each.
type lifetime struct {
	state atomic.Int64 // holders, and closedBit once closed
}

const closedBit = int64(1) << 62

// enter makes the caller a holder, or reports that the object is closed. It
// never counts a caller that it refuses, so the count of a closed object only
// falls and reaches zero once.
func (l *lifetime) enter() bool {
	for {
		now := l.state.Load()
		if now&closedBit != 0 {
			return false
		}
		if l.state.CompareAndSwap(now, now+1) {
			return true
		}
	}
}

// add makes the caller n times a holder of an object that something else holds.
func (l *lifetime) add(n int) { l.state.Add(int64(n)) }

// leave gives up n holds and reports whether the object is to be freed now.
func (l *lifetime) leave(n int) bool { return l.state.Add(-int64(n)) == closedBit }

// close marks the object closed. It returns true when nothing holds it and it
// is to be freed now; that happens once at most.
func (l *lifetime) close() bool { return l.state.Or(closedBit) == 0 }

func (l *lifetime) closed() bool { return l.state.Load()&closedBit != 0 }
