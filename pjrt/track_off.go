//go:build !invariants

package pjrt

// tracker is the table of live buffers and events of builds with the tag
// invariants; in this build it is nothing, and its methods compile to nothing.
type tracker struct{}

func (tracker) buffer(Buffer)                   {}
func (tracker) buffers([]Buffer)                {}
func (tracker) event(Event)                     {}
func (tracker) events([]Event)                  {}
func (tracker) dropBuffers([]Buffer) error      { return nil }
func (tracker) dropEvents([]Event) error        { return nil }
func (tracker) dropEvent(Event)                 {}
func (tracker) useBuffer(fnID, Buffer) error    { return nil }
func (tracker) useBuffers(fnID, []Buffer) error { return nil }
func (tracker) useEvent(fnID, Event) error      { return nil }

// closeGuard reports, in the other build, an object that is collected without
// having been closed.
type closeGuard struct{}

func guard[T any](*closeGuard, *T, string) {}
func (closeGuard) done()                   {}
