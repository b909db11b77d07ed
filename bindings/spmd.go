package bindings

import (
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// UseSPMD starts SPMD, as torch_go_xla.runtime.use_spmd says.
//
//control:open
func UseSPMD() error { return failed(engine.Default.UseSPMD()) }

// Partitions returns the number of devices that SPMD spreads programs over, 0 without SPMD.
func Partitions() int64 { return int64(engine.Default.Partitions()) }

// TorchKernels tells whether programs may call torch's own CPU kernels.
func TorchKernels() bool { return engine.Default.TorchKernels() }

// Annotate gives the value of a storage, a dense array, a sharding; "" takes it away.
func Annotate(handle, scalarType, dims, nDims int64, sharding string) error {
	d, err := elementType(scalarType)
	if err != nil {
		return err
	}
	return failed(engine.Default.Annotate(engine.Handle(handle), d, words(dims, nDims), sharding))
}

// Shards returns what each device of this process holds of the value of a storage: device, replica, start, size. A sync
// comes first if that is open; Ready waits for it.
func Shards(handle int64) (list string, err error) {
	return encoded(engine.Default.Shards(engine.Handle(handle)))
}

// FetchShard copies what a device holds of the value of a storage to the memory at an address.
func FetchShard(handle, device, address int64) error {
	return failed(engine.Default.FetchShard(engine.Handle(handle), int(device), pointer(address)))
}

// SetShards replaces what each device of this process holds of the value of a storage by dense arrays.
func SetShards(handle, addresses, nAddresses int64) error {
	sources := make([]unsafe.Pointer, nAddresses)
	for i, a := range words(addresses, nAddresses) {
		sources[i] = pointer(a)
	}
	return failed(engine.Default.SetShards(engine.Handle(handle), sources))
}

// Watch remembers the programs that run from now on, until Collectives.
func Watch() { engine.Default.Watch() }

// Collectives returns, for each program that has run since Watch, its collectives: kind, shapes, bytes, groups.
func Collectives() (list string, err error) { return encoded(engine.Default.Collectives()) }
