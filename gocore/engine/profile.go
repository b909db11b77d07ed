package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
)

// StartProfile starts the recording of a timeline. The error is errs.Runtime if one runs.
func (ins *inspector) StartProfile() error {
	ins.mu.Lock()
	defer ins.mu.Unlock()
	if !profile.Start(traced.Value()) {
		return errs.New(errs.Runtime, "a profile is being recorded already")
	}
	clear(ins.tracing) // spans of an earlier recording
	return nil
}

// StopProfile ends the recording and returns it; see profile.Stop. It waits for what the devices are doing.
func StopProfile() string { return string(profile.Stop()) }

// ProfileSpan records a span of the user's; without a name it gives the time to begin one.
func ProfileSpan(name string, begin int64) int64 {
	if name != "" {
		profile.Named(name, begin)
	}
	return profile.Now()
}
