package engine

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

var (
	toDevice      = metrics.M("TransferToDeviceTime", "ns")
	fromDevice    = metrics.M("TransferFromDeviceTime", "ns")
	inboundBytes  = metrics.M("InboundData", "bytes")
	outboundBytes = metrics.M("OutboundData", "bytes")
)

// Upload gives a storage the data of a dense array in host memory, which must cover the storage. The
// memory is free for other use when it returns.
func (e *Engine) Upload(h alias.Handle, src unsafe.Pointer, d dtype.DType, dims []int64) error {
	whole := shape.Of(d, dims)
	if whole.Bytes() == 0 { // no address to read from; one is needed all the same
		src = unsafe.Pointer(new(byte))
	}
	return e.fill(h, whole, func(dev *runtime.Device, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
		return dev.Upload(src, s, sh)
	})
}

// fill gives a storage a buffer of a shape, which must cover the storage, as upload makes it on the device
// and with the sharding that the storage has.
func (e *Engine) fill(h alias.Handle, whole *shape.Shape,
	upload func(*runtime.Device, *shape.Shape, *sharding.Sharding) (*runtime.Buffer, error)) error {
	if err := e.lock(); err != nil {
		return err
	}
	c, err := e.cell(h)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	s, sh := e.placement(c, whole)
	dev, bytes := e.at(c.Dev), c.Bytes
	e.mu.Unlock()
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
	if err := e.lock(); err != nil {
		buf.Release()
		return err
	}
	defer e.mu.Unlock()
	if _, err := e.cell(h); err != nil { // the storage died meanwhile
		buf.Release()
		return err
	}
	e.store.SetDevice(e.store.Slot(h), s, buf)
	return nil
}

// PlaceBytes is Place of what is to be an array in size bytes of host memory, and an error if such an array takes more
// or fewer.
func (e *Engine) PlaceBytes(src unsafe.Pointer, size int64, torchType int, dims []int64, dev int32) (alias.Handle, error) {
	d := dtype.FromTorch(torchType)
	if slices.ContainsFunc(dims, func(n int64) bool { return n < 0 }) || d != dtype.Invalid && shape.Of(d, dims).Bytes() != size {
		return 0, errs.New(errs.Value, "an array %s%s does not take %d bytes", d, shape.Dims(dims), size)
	}
	return e.Place(src, torchType, dims, dev)
}

// Place makes a storage with the data of a dense array in host memory; torchType is the number of its
// c10::ScalarType. The memory is free for other use when it returns.
func (e *Engine) Place(src unsafe.Pointer, torchType int, dims []int64, dev int32) (alias.Handle, error) {
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return 0, errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	h, err := e.Alloc(shape.Of(d, dims).Bytes(), dev)
	if err != nil {
		return 0, err
	}
	if err := e.Upload(h, src, d, dims); err != nil {
		e.Release([]uint64{uint64(h)})
		return 0, err
	}
	return h, nil
}

func (e *Engine) cell(h alias.Handle) (*alias.Cell, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	return e.store.Cell(h)
}

// Buffer settles the storage, syncing its device if it is pending, and returns its buffer with a
// reference for the caller; nil for a storage that was never written.
func (e *Engine) Buffer(h alias.Handle) (*runtime.Buffer, error) {
	d, b, err := e.settled(h)
	if d != nil {
		d.Kick()
	}
	return b, err
}

// settled does the work of Buffer, but for kicking the device.
func (e *Engine) settled(h alias.Handle) (*runtime.Device, *runtime.Buffer, error) {
	if err := e.lock(); err != nil {
		return nil, nil, err
	}
	defer e.mu.Unlock()
	c, err := e.cell(h)
	if err != nil {
		return nil, nil, err
	}
	d := e.at(c.Dev)
	if c.State == alias.Pending {
		e.drain()
		if err := e.cut(d); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
			return d, nil, err
		}
	}
	e.unreported = nil // the storages have it
	b, err := e.owned(h)
	return d, b, err
}

// Fetch copies the value of a storage to host memory of exactly its size, after a sync if it is pending.
// It waits until the value is there.
func (e *Engine) Fetch(h alias.Handle, dst unsafe.Pointer, size int64) error {
	b, err := e.Buffer(h)
	if err != nil {
		return err
	}
	if b != nil {
		defer b.Release()
	}
	if err := e.indexErrors(); err != nil {
		return err
	}
	return e.download(b, dst, size)
}

// download copies a buffer, zeros for nil, to host memory of exactly its size.
func (e *Engine) download(b *runtime.Buffer, dst unsafe.Pointer, size int64) error {
	if b == nil {
		clear(unsafe.Slice((*byte)(dst), size))
		return nil
	}
	if b.Shape.Bytes() != size {
		return errs.New(errs.Runtime, "copying %s (%d bytes) to %d bytes of host memory", b.Shape, b.Shape.Bytes(), size)
	}
	start, span := time.Now(), profile.Begin()
	b, err := e.complete(b)
	if err != nil {
		return err
	}
	defer b.Release()
	if err := b.Download(dst, int(size)); err != nil {
		return err
	}
	fromDevice.Since(start)
	span.End(profile.FromDevice, size)
	inboundBytes.Add(float64(size))
	return nil
}

// SetDonation gives the buffer of a storage away to the next program that reads it, or takes that back. where is the
// source line that does so, for the error of those who read the buffer afterwards.
func (e *Engine) SetDonation(h alias.Handle, on bool, where string) error {
	b, err := e.Buffer(h)
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
func (e *Engine) Donation(h alias.Handle) (bool, error) {
	if err := e.lock(); err != nil {
		return false, err
	}
	defer e.mu.Unlock()
	c, err := e.cell(h)
	if err != nil {
		return false, err
	}
	return c.State == alias.Device && c.Buf.Donating(), nil
}

// Copy gives a storage on one device the value of a storage on another.
func (e *Engine) Copy(dst, src alias.Handle) error {
	b, err := e.Buffer(src)
	if err != nil || b == nil {
		return err
	}
	defer b.Release()
	if err := e.lock(); err != nil {
		return err
	}
	c, err := e.cell(dst)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	dev := e.at(c.Dev)
	e.mu.Unlock()
	span := profile.Begin()
	to, err := b.CopyTo(dev)
	if err != nil {
		return err
	}
	span.End(profile.ToDevice, b.Shape.Bytes())
	if err := e.lock(); err != nil {
		to.Release()
		return err
	}
	defer e.mu.Unlock()
	if _, err := e.cell(dst); err != nil {
		to.Release()
		return err
	}
	e.store.SetDevice(e.store.Slot(dst), b.Shape, to)
	return nil
}
