package engine

import (
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// With TORCH_GO_XLA_CHECK an op is followed by nodes that test its values. What they find goes to storages of the
// engine's own, so that it is computed, captured and replayed with the values that callers see. A sync, a read or a
// wait looks at those that have been launched.

// valueCheck is a recorded test of an op's values.
type valueCheck struct {
	err     func(value, place int64) error
	by      runtime.Origin
	storage alias.Handle // i64[2], see ops.Check
}

// of is the same test with its result in another storage.
func (c valueCheck) of(h alias.Handle) valueCheck {
	c.storage = h
	return c
}

// launched is a check whose program has been launched.
type launched struct {
	valueCheck
	result *runtime.Buffer
}

// checkNames are the words of TORCH_GO_XLA_CHECK.
var checkNames = map[string]ops.Checks{
	"": 0, "0": 0, "indices": ops.CheckIndices, "nan": ops.CheckNaN, "inf": ops.CheckInf,
	"1": ops.CheckIndices | ops.CheckNaN | ops.CheckInf,
}

// checksOf reads a value of TORCH_GO_XLA_CHECK: words with commas between them.
func checksOf(text string) (which ops.Checks, err error) {
	for word := range strings.SplitSeq(text, ",") {
		kinds, ok := checkNames[strings.TrimSpace(word)]
		if !ok {
			return 0, errs.New(errs.Value, "TORCH_GO_XLA_CHECK=%q: want 0, 1 (all), or some of indices, nan, inf with commas between them", text)
		}
		which |= kinds
	}
	return which, nil
}
