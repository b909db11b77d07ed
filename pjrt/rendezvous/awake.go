package rendezvous

import (
	"sync"
	"time"
)

// beatTime is how often a member says that it lives, and how often its silence is looked at.
const beatTime = time.Second

// Awake is how long this process has run, as a clock that ticks. The time in which the whole process was
// stopped, or its machine asleep, does not count: it says nothing of the other processes.
type Awake struct {
	mu    sync.Mutex // guards the fields below
	last  time.Time  // of the latest tick
	total time.Duration
}

// Tick moves the clock; it is to be called every second or so.
func (a *Awake) Tick() time.Duration { return a.tick(time.Now()) }

func (a *Awake) tick(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.last.IsZero() {
		a.total += min(now.Sub(a.last), 3*beatTime)
	}
	a.last = now
	return a.total
}

// Total is the time at the latest tick.
func (a *Awake) Total() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}
