package engine

import (
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
)

// checker looks at the checks that have run.
type checker struct {
	*layouter
}

// valueErrors waits for the checks that have been launched, and is the error of the first one that has found something.
// It is errBusy after a while: the caller looks for signals and repeats its call.
func (ck *checker) valueErrors() (first error) {
	if ck.checking.Load() == 0 {
		return nil
	}
	ck.mu.Lock()
	all := ck.launchedChecks()
	ck.mu.Unlock()
	until := time.Now().Add(patience)
	for i, k := range all {
		done, err := k.result.AwaitFor(max(time.Until(until), time.Millisecond))
		if !done && err == nil { // keep what is left for the next call
			ck.mu.Lock()
			for _, k := range all[i:] {
				ck.checks = append(ck.checks, k.valueCheck)
				k.result.Release()
			}
			ck.mu.Unlock()
			if first == nil {
				first = errBusy
			}
			return first
		}
		var found [2]int64
		if err == nil { // else the values that it belongs to have the error
			err = ck.download(k.result, unsafe.Pointer(&found), int64(unsafe.Sizeof(found)))
		}
		if err == nil && found[0] >= 0 && first == nil {
			first = errs.Recorded(k.err(found[1], found[0]), ops.At(ir.Op(k.by.Op), ck.where.Where(k.by.Loc)))
		}
		k.result.Release()
		ck.Release([]uint64{uint64(k.storage)})
	}
	return first
}
