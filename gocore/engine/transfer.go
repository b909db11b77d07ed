package engine

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// transfers move values between the host and the devices.
type transfers struct {
	*checker
	loans loans
}

// Upload gives a storage the data of a dense array in host memory, which must cover the storage. The
// memory is free for other use when it returns.
func (tr *transfers) Upload(h alias.Handle, src unsafe.Pointer, d dtype.DType, dims []int64) error {
	whole := shape.Of(d, dims)
	if whole.Bytes() == 0 { // no address to read from; one is needed all the same
		src = unsafe.Pointer(new(byte))
	}
	return tr.fill(h, whole, func(dev *runtime.Device, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
		return dev.Upload(src, s, sh)
	})
}

// fill gives a storage the buffer that upload makes on its device, with its sharding. The shape must cover the
// storage.
func (tr *transfers) fill(h alias.Handle, whole *shape.Shape,
	upload func(*runtime.Device, *shape.Shape, *sharding.Sharding) (*runtime.Buffer, error)) error {
	if err := tr.lock(); err != nil {
		return err
	}
	c, err := tr.cell(h)
	if err != nil {
		tr.mu.Unlock()
		return err
	}
	s, sh := tr.placement(c, whole)
	dev, bytes := tr.at(c.Dev), c.Bytes
	tr.mu.Unlock()
	if s.Bytes() != bytes {
		return errs.New(errs.Runtime, "copying %s (%d bytes) to a storage of %d bytes", s, s.Bytes(), bytes)
	}
	start, span := time.Now(), profile.Begin()
	buf, err := upload(dev, s, sh)
	if err != nil {
		return err
	}
	toDevice.Since(start)
	span.End(profile.ToDevice, bytes)
	outboundBytes.Add(float64(bytes))
	if err := tr.lock(); err != nil {
		buf.Release()
		return err
	}
	defer tr.mu.Unlock()
	if _, err := tr.cell(h); err != nil { // the storage died meanwhile
		buf.Release()
		return err
	}
	tr.store.SetDevice(tr.store.Slot(h), s, buf)
	return nil
}

// PlaceBytes is Place of an array of size bytes in host memory. The error is of class Value if the shape takes more or
// fewer.
func (tr *transfers) PlaceBytes(src unsafe.Pointer, size int64, torchType int, dims []int64, dev int32) (alias.Handle, error) {
	d := dtype.FromTorch(torchType)
	if slices.ContainsFunc(dims, func(n int64) bool { return n < 0 }) || d != dtype.Invalid && shape.Of(d, dims).Bytes() != size {
		return 0, errs.New(errs.Value, "an array %s%s does not take %d bytes", d, shape.Dims(dims), size)
	}
	return tr.Place(src, torchType, dims, dev)
}

// Place makes a storage with the data of a dense array in host memory; torchType is the number of its c10::ScalarType.
// The memory is free for other use when it returns. The error is errs.Type for a type that devices do not have.
func (tr *transfers) Place(src unsafe.Pointer, torchType int, dims []int64, dev int32) (alias.Handle, error) {
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return 0, errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	h, err := tr.Alloc(shape.Of(d, dims).Bytes(), dev)
	if err != nil {
		return 0, err
	}
	if err := tr.Upload(h, src, d, dims); err != nil {
		tr.Release([]uint64{uint64(h)})
		return 0, err
	}
	return h, nil
}

// Buffer materializes the storage, syncing its device if it is pending, and returns its buffer with a
// reference for the caller; nil for a storage that was never written.
func (tr *transfers) Buffer(h alias.Handle) (*runtime.Buffer, error) {
	d, b, err := tr.materialized(h)
	if d != nil {
		d.Drain()
	}
	return b, err
}

// materialized does the work of Buffer, but for draining the device.
func (tr *transfers) materialized(h alias.Handle) (*runtime.Device, *runtime.Buffer, error) {
	if err := tr.lock(); err != nil {
		return nil, nil, err
	}
	defer tr.mu.Unlock()
	c, err := tr.cell(h)
	if err != nil {
		return nil, nil, err
	}
	d := tr.at(c.Dev)
	if c.State == alias.Pending {
		tr.drain()
		if err := tr.flush(d); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
			return d, nil, err
		}
	}
	tr.unreported = nil // the storages have it
	b, err := tr.owned(h)
	return d, b, err
}

// Ready materializes a storage and waits until it is computed, or until the timeout; it reports whether it is.
// The error is the one that reading the storage gives.
func (tr *transfers) Ready(h alias.Handle, timeout time.Duration) (bool, error) {
	b, err := tr.Buffer(h)
	if err != nil || b == nil {
		return err == nil, err
	}
	defer b.Release()
	span := profile.Begin()
	done, err := b.AwaitFor(timeout)
	span.Waited()
	if !done && err == nil {
		return false, tr.client.Job.Stuck()
	}
	return done, reported(b.Dev, err)
}

// Fetch copies the value of a storage to host memory of exactly its size, after a sync if it is pending.
// It waits until the value is there.
func (tr *transfers) Fetch(h alias.Handle, dst unsafe.Pointer, size int64) error {
	b, err := tr.Buffer(h)
	if err != nil {
		return err
	}
	if b != nil {
		defer b.Release()
	}
	if err := tr.valueErrors(); err != nil {
		return err
	}
	return tr.download(b, dst, size)
}

// SetDonation gives the buffer of a storage away to the next program that reads it, or takes that back. where is the
// source line that does so, for the error of those who read the buffer afterwards.
func (tr *transfers) SetDonation(h alias.Handle, on bool, where string) error {
	b, err := tr.Buffer(h)
	if err != nil {
		return err
	}
	if b == nil {
		return errs.New(errs.Runtime, "the tensor has no buffer to donate: it was never written")
	}
	b.SetDonating(on, where)
	b.Release()
	return nil
}

// Donation reports whether the buffer of a storage was given away.
func (tr *transfers) Donation(h alias.Handle) (bool, error) {
	if err := tr.lock(); err != nil {
		return false, err
	}
	defer tr.mu.Unlock()
	c, err := tr.cell(h)
	if err != nil {
		return false, err
	}
	return c.State == alias.Device && c.Buf.Donating(), nil
}

// Copy gives a storage on one device the value of a storage on another.
func (tr *transfers) Copy(dst, src alias.Handle) error {
	b, err := tr.Buffer(src)
	if err != nil || b == nil {
		return err
	}
	defer b.Release()
	if err := tr.lock(); err != nil {
		return err
	}
	c, err := tr.cell(dst)
	if err != nil {
		tr.mu.Unlock()
		return err
	}
	dev := tr.at(c.Dev)
	tr.mu.Unlock()
	span := profile.Begin()
	to, err := b.CopyTo(dev)
	if err != nil {
		return err
	}
	span.End(profile.ToDevice, b.Shape.Bytes())
	if err := tr.lock(); err != nil {
		to.Release()
		return err
	}
	defer tr.mu.Unlock()
	if _, err := tr.cell(dst); err != nil {
		to.Release()
		return err
	}
	tr.store.SetDevice(tr.store.Slot(dst), b.Shape, to)
	return nil
}

// Borrow is Upload of an array that may stay where it is. On a CPU device it is not copied if its address is aligned
// as the compiler wants. It must not change until Returned has given the number that Borrow returns. No program writes
// to it: a write to the storage makes a new value, in memory of the device.
func (tr *transfers) Borrow(h alias.Handle, src unsafe.Pointer, d dtype.DType, dims []int64) (int64, error) {
	id := tr.loans.lend()
	whole := shape.Of(d, dims)
	return id, tr.fill(h, whole, func(dev *runtime.Device, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
		if sh == nil {
			return dev.Borrow(src, s, func() { tr.loans.give(id) })
		}
		tr.loans.give(id)
		return dev.Upload(src, s, sh)
	})
}

// Returned takes the numbers of the arrays that were borrowed and are free for other use, each once.
func (tr *transfers) Returned() []int64 {
	return tr.loans.take()
}
