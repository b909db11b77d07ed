package bindings

import (
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// UseSPMD makes one device of all devices of the process.
func UseSPMD() (bool, error) { return ok(engine.Default.UseSPMD()) }

// Partitions returns the number of devices that SPMD spreads programs over, 0 without SPMD.
func Partitions() int64 { return int64(engine.Default.Partitions()) }

// TorchKernels reports that programs may call torch's own CPU kernels.
func TorchKernels() bool { return engine.Default.TorchKernels() }

// Annotate gives the value of a storage, a dense array of ndim int64 sizes at dims, a sharding; "" takes
// it away.
func Annotate(handle, torchType, dims, ndim int64, sharding string) (bool, error) {
	return ok(engine.Default.AnnotateWords(handle, int(torchType), words(dims, ndim), sharding))
}

// Shards returns a JSON list of what each device holds of the value of a storage: device, replica, start,
// size.
func Shards(handle int64) (string, error) { return text(engine.Default.Shards(handle)) }

// FetchShard copies what a device holds of the value of a storage to the memory at an address.
func FetchShard(handle, device, addr int64) (bool, error) {
	return ok(engine.Default.FetchShard(handle, int(device), pointer(addr)))
}

// SetShards replaces what each of n devices holds of the value of a storage: the int64 words at addr are the
// addresses of dense arrays.
func SetShards(handle, addr, n int64) (bool, error) {
	sources := make([]unsafe.Pointer, n)
	for i, a := range words(addr, n) {
		sources[i] = pointer(a)
	}
	return ok(engine.Default.SetShards(handle, sources))
}

// Watch remembers the programs that run from now on, until Collectives.
func Watch() { engine.Default.Watch() }

// Collectives returns a JSON list with, for each program that has run since Watch, a list of its
// collectives: kind, shapes, bytes, groups.
func Collectives() (string, error) { return text(engine.Default.Collectives()) }
