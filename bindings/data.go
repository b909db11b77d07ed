package bindings

import "github.com/torch-go-xla/torch-go-xla/gocore/engine"

// Upload fills a storage from the dense array at an address. The memory is free when it returns.
func Upload(handle, address, scalarType, dims, nDims int64) error {
	d, err := elementType(scalarType)
	if err != nil {
		return err
	}
	return failed(engine.Default.Upload(engine.Handle(handle), pointer(address), d, words(dims, nDims)))
}

// BorrowArray fills a storage as Upload does, from an array that may stay where it is. The array must not change until
// Returned has given the number that BorrowArray returns.
func BorrowArray(handle, address, scalarType, dims, nDims int64) (int64, error) {
	d, err := elementType(scalarType)
	if err != nil {
		return 0, err
	}
	return result(engine.Default.Borrow(engine.Handle(handle), pointer(address), d, words(dims, nDims)))
}

// Returned returns the numbers of borrowed arrays that are free for other use, each once.
func Returned() (list string) { return marshal(engine.Default.Returned()) }

// Place makes a storage of the dense array in size bytes at an address and returns its handle; see Upload.
func Place(address, size, scalarType, dims, nDims, device int64) (int64, error) {
	h, err := engine.Default.PlaceBytes(pointer(address), size, int(scalarType), words(dims, nDims), int32(device))
	return result(int64(h), err)
}

// Free frees a storage that Place or Replay made, of which no tensor was made.
func Free(handle int64) { engine.Default.Release([]uint64{uint64(handle)}) }

// Ready waits until the value of a storage is computed, after a sync if it is pending. A failure of the
// computation is reported by Fetch.
func Ready(handle, ms int64) (bool, error) {
	return result(engine.Default.Ready(engine.Handle(handle), milliseconds(ms)))
}

// Fetch copies the whole value of a storage to size bytes at an address; it waits as Ready does.
func Fetch(handle, address, size, ms int64) (bool, error) {
	ready, err := engine.Default.Ready(engine.Handle(handle), milliseconds(ms))
	if ready && err == nil {
		err = engine.Default.Fetch(engine.Handle(handle), pointer(address), size)
	}
	return result(ready, err)
}

// Snapshot syncs the devices of some storages, holds the values that they have at this moment, and returns its
// number; see engine.Engine.Snapshot.
//
//control:open
func Snapshot(handles, nHandles int64) (int64, error) {
	return result(engine.Default.Snapshot(words(handles, nHandles)))
}

// FetchSnapshot copies value i of a snapshot to size bytes at an address.
func FetchSnapshot(snapshot, i, address, size int64) error {
	return failed(engine.Default.FetchSnapshot(snapshot, int(i), pointer(address), size))
}

// SnapshotAddress returns where value i of a snapshot lies in host memory, good until DropSnapshot; 0 where
// the host cannot read the device's memory.
func SnapshotAddress(snapshot, i int64) (int64, error) {
	return result(engine.Default.SnapshotAddress(snapshot, int(i)))
}

// DropSnapshot ends a snapshot.
func DropSnapshot(snapshot int64) { engine.Default.DropSnapshot(snapshot) }

// SetDonation gives the buffer of a storage away to the next program that reads it, or takes that back; where is the
// caller's source line.
func SetDonation(handle int64, on bool, where string) error {
	return failed(engine.Default.SetDonation(engine.Handle(handle), on, where))
}

// Donation tells whether the buffer of a storage was given away.
func Donation(handle int64) (bool, error) {
	return result(engine.Default.Donation(engine.Handle(handle)))
}

// Copy fills a storage from one of another device.
func Copy(to, source int64) error {
	return failed(engine.Default.Copy(engine.Handle(to), engine.Handle(source)))
}
