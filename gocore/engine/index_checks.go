package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// With XLA_CHECK_INDICES every op that has indices is followed by a node that finds the first one out of range. Its value
// goes to a storage of the engine's own, so that it is computed, captured and replayed with the values that callers see.
// A sync, a read or a wait looks at those that have been launched.

// indexCheck is a recorded test of the indices of an op.
type indexCheck struct {
	bounds  ops.Bounds
	by      runtime.Origin
	storage alias.Handle // i64[2], see ops.Bounds.Check
}

// of is the same test with its result in another storage.
func (c indexCheck) of(h alias.Handle) indexCheck {
	c.storage = h
	return c
}

// launched is a check whose program has been launched.
type launched struct {
	indexCheck
	result *runtime.Buffer
}
