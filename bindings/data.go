package bindings

import (
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// Upload gives the storage of a handle the dense array at an address: torchType is the number of its
// c10::ScalarType, its ndim sizes are int64 words at dims. The memory is free when it returns.
func Upload(handle, addr, torchType, dims, ndim int64) (bool, error) {
	return ok(engine.Default.UploadWords(handle, pointer(addr), int(torchType), words(dims, ndim)))
}

// Borrow is Upload of an array that may stay where it is: it must not change until Returned has given the
// number that Borrow returns.
func Borrow(handle, addr, torchType, dims, ndim int64) (int64, error) {
	return number(engine.Default.BorrowWords(handle, pointer(addr), int(torchType), words(dims, ndim)))
}

// Returned gives a JSON list of the numbers of borrowed arrays that are free for other use, each once.
func Returned() string { return engine.Default.ReturnedJSON() }

// Place makes a storage of the dense array in size bytes at an address and returns its handle; see Upload.
func Place(addr, size, torchType, dims, ndim, dev int64) (int64, error) {
	h, err := engine.Default.PlaceBytes(pointer(addr), size, int(torchType), words(dims, ndim), int32(dev))
	return number(int64(h), err)
}

// Free frees a storage that Place or Replay made, of which no tensor was made.
func Free(handle int64) { engine.Default.Release([]uint64{uint64(handle)}) }

// Ready waits, for ms milliseconds at most, until the value of a storage is computed, after a sync if it
// is pending, and reports whether it is. A failure of the computation is reported by Fetch.
func Ready(handle, ms int64) (bool, error) {
	return flag(engine.Default.Ready(handle, time.Duration(ms)*time.Millisecond))
}

// Fetch copies the value of a storage to size bytes at an address, after a sync if it is pending.
func Fetch(handle, addr, size int64) (bool, error) {
	return ok(engine.Default.FetchWords(handle, pointer(addr), size))
}

// Snapshot holds the values that the n storages whose handles lie at an address have at this moment, and
// returns its number; see engine.Engine.Snapshot.
func Snapshot(addr, n int64) (int64, error) {
	return number(engine.Default.Snapshot(words(addr, n)))
}

// FetchSnapshot copies value i of a snapshot to size bytes at an address.
func FetchSnapshot(id, i, addr, size int64) (bool, error) {
	return ok(engine.Default.FetchSnapshot(id, int(i), pointer(addr), size))
}

// SnapshotAddress returns where value i of a snapshot lies in host memory, good until DropSnapshot; 0 where
// the host cannot read the device's memory.
func SnapshotAddress(id, i int64) (int64, error) {
	return number(engine.Default.SnapshotAddress(id, int(i)))
}

// DropSnapshot ends a snapshot.
func DropSnapshot(id int64) { engine.Default.DropSnapshot(id) }

// SetDonation gives the buffer of a storage away to the next program that reads it, or takes that back; where is the
// caller's source line.
func SetDonation(handle int64, on bool, where string) (bool, error) {
	return ok(engine.Default.SetDonation(engine.Handle(handle), on, where))
}

// Donation reports whether the buffer of a storage was given away.
func Donation(handle int64) (bool, error) {
	return flag(engine.Default.Donation(engine.Handle(handle)))
}

// CopyDevice gives the storage dst the value of the storage src on another device.
func CopyDevice(dst, src int64) (bool, error) { return ok(engine.Default.CopyWords(dst, src)) }
