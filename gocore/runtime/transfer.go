package runtime

import (
	"context"
	"errors"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Upload copies a dense array from host memory; the memory is free for other use when it returns. sh is
// nil without SPMD; with it, each device of this process is sent its part and no more. The caller owns
// the reference of the result.
func (d *Device) Upload(src unsafe.Pointer, s *shape.Shape, sh *sharding.Sharding) (*Buffer, error) {
	return d.upload(s, sh, func(b *Buffer, k int) error {
		if sh == nil {
			return b.send(k, src, s.Dims)
		}
		start, size := sh.Region(d.first+k, s.Dims)
		return b.sendBlock(k, block{src, s.Dims, start}, size)
	})
}

// UploadParts is Upload of parts that lie apart. parts[k] is the dense array of what this process's device k holds,
// with nothing for what reaches past the end of the whole.
func (d *Device) UploadParts(parts []unsafe.Pointer, s *shape.Shape, sh *sharding.Sharding) (*Buffer, error) {
	return d.upload(s, sh, func(b *Buffer, k int) error {
		_, size := sh.Region(d.first+k, s.Dims)
		return b.sendBlock(k, block{parts[k], size, make([]int64, len(size))}, size)
	})
}

// Borrow is Upload of an array that stays where it is, if the plugin can use it there; only without SPMD. The memory
// must not change before done is called, in a goroutine of its own. That is when the plugin reads it no longer, at the
// latest after the last Release.
func (d *Device) Borrow(src unsafe.Pointer, s *shape.Shape, done func()) (*Buffer, error) {
	raw, ev, err := d.client.FromHost(src, pjrt.Type(s.DType.PJRT()), s.Dims, nil, d.devs[0], pjrt.ZeroCopy)
	if err != nil {
		return nil, d.explain(err, "borrowing %s (%d bytes) for %s", s, s.Bytes(), d)
	}
	b := newBuffer(d, s, nil, nil, 1)
	b.parts[0], b.borrowed = raw, true
	b.ready()
	go func() {
		defer caught("returning borrowed memory")
		if d.client.AwaitContext(context.Background(), ev) != nil {
			_ = d.client.Await(ev) // it may be the waiting alone that failed
		}
		countUnreported(d.client.DestroyEvents(ev))
		done()
	}()
	return b, nil
}

// Zeros is an array of zeros. The caller owns the reference.
func (d *Device) Zeros(s *shape.Shape) (*Buffer, error) {
	room, free, err := staged(s)
	if err != nil {
		return nil, err
	}
	defer free()
	return d.Upload(room, s, nil)
}

func (d *Device) upload(s *shape.Shape, sh *sharding.Sharding, send func(b *Buffer, k int) error) (*Buffer, error) {
	b := newBuffer(d, s, sh, nil, 1)
	for k := range b.parts {
		if err := send(b, k); err != nil {
			b.Release()
			return nil, err
		}
	}
	d.arrays.need(b.bytes)
	b.ready()
	return b, nil
}

// send fills part k from a dense array of the part's dimensions.
func (b *Buffer) send(k int, src unsafe.Pointer, dims []int64) error {
	d := b.Dev
	raw, ev, err := d.client.FromHost(src, pjrt.Type(b.Shape.DType.PJRT()), dims, nil, d.devs[k], pjrt.OnlyDuringCall)
	if err != nil {
		return d.explain(err, "copying %s (%d bytes) to %s", b.Shape, b.Shape.Bytes(), d)
	}
	b.parts[k] = raw
	if err := d.client.DestroyEvents(ev); err != nil {
		return Translate(err)
	}
	return nil
}

// sendBlock fills part k from a block of an array, and with zeros what the block does not cover.
func (b *Buffer) sendBlock(k int, from block, size []int64) error {
	local := shape.Of(b.Shape.DType, b.sharding.Local(b.Shape.Dims))
	item := int64(b.Shape.DType.Size())
	if at, ok := from.run(size); ok && numel(size) == local.Numel() {
		return b.send(k, unsafe.Add(from.at, at*item), local.Dims)
	}
	room, free, err := staged(local)
	if err != nil {
		return err
	}
	defer free()
	copyBlock(block{room, local.Dims, make([]int64, len(size))}, from, size, item)
	return b.send(k, room, local.Dims)
}

// staged is zeroed memory of the host for an array, and what frees it.
func staged(s *shape.Shape) (at unsafe.Pointer, free func(), err error) {
	n := max(s.Bytes(), 1)
	if at = pjrt.Stage(n); at == nil {
		return nil, nil, errs.New(errs.OOM, "out of memory on the host: no %d bytes for %s on its way to or from a device", n, s)
	}
	return at, func() { pjrt.Unstage(at, n) }, nil
}

// inPlace is the size up to which a buffer in host memory is read where it lies; a larger one is left to the
// plugin, as a copy in Go holds up its garbage collector.
const inPlace = 1 << 20

// Whole reports that each process has all of the array: it can be downloaded, and placed otherwise, by each by itself.
func (b *Buffer) Whole() bool {
	return !b.Dev.Spans() || b.sharding.Whole(len(b.parts))
}

// Download waits for the buffer, which must be Whole, and copies it, dense and row-major, to size bytes of host memory.
func (b *Buffer) Download(dst unsafe.Pointer, size int) error {
	if err := b.Await(); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	if size <= inPlace {
		if done, err := b.read(dst, size); done || err != nil {
			return err
		}
	}
	if source := b.source(); source >= 0 {
		return b.receive([]int{source}, []unsafe.Pointer{dst}, size)
	}
	first := b.Dev.first
	return b.receiveBlocks(b.sharding.Holders(first, len(b.parts)), func(k int) (block, []int64) {
		start, size := b.sharding.Region(first+k, b.Shape.Dims)
		return block{dst, b.Shape.Dims, start}, size
	})
}

// read copies the buffer from where it lies; done is false if the host cannot.
func (b *Buffer) read(dst unsafe.Pointer, size int) (done bool, err error) {
	at, err := b.Pin()
	if err != nil || at == 0 {
		return false, err
	}
	defer b.Unpin()
	data := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the plugin's
	copy(unsafe.Slice((*byte)(dst), size), unsafe.Slice((*byte)(data), size))
	return true, nil
}

// DownloadPart waits for the buffer and copies what this process's device k holds of the array to dense host memory.
func (b *Buffer) DownloadPart(k int, dst unsafe.Pointer) error {
	if err := b.Await(); err != nil {
		return err
	}
	return b.receiveBlocks([]int{k}, func(k int) (block, []int64) {
		_, size := b.sharding.Region(b.Dev.first+k, b.Shape.Dims)
		return block{dst, size, make([]int64, len(size))}, size
	})
}

// receiveBlocks copies the parts of some devices to the blocks that place gives, with their sizes.
func (b *Buffer) receiveBlocks(devices []int, place func(k int) (block, []int64)) error {
	local := shape.Of(b.Shape.DType, b.sharding.Local(b.Shape.Dims))
	if local.Bytes() == 0 {
		return nil
	}
	item := int64(b.Shape.DType.Size())
	to := make([]unsafe.Pointer, len(devices))
	apart := make([]bool, len(devices))
	for i, k := range devices {
		dst, size := place(k)
		at, ok := dst.run(size)
		if ok && numel(size) == local.Numel() {
			to[i] = unsafe.Add(dst.at, at*item)
			continue
		}
		room, free, err := staged(local)
		if err != nil {
			return err
		}
		defer free()
		to[i], apart[i] = room, true
	}
	if err := b.receive(devices, to, int(local.Bytes())); err != nil {
		return err
	}
	for i, k := range devices {
		if dst, size := place(k); apart[i] {
			copyBlock(dst, block{to[i], local.Dims, make([]int64, len(size))}, size, item)
		}
	}
	return nil
}

// receive copies the parts of some devices, of a number of bytes each, to host memory.
func (b *Buffer) receive(devices []int, to []unsafe.Pointer, size int) error {
	d := b.Dev
	events := make([]pjrt.Event, 0, len(devices))
	var first error
	for i, k := range devices {
		ev, err := d.client.ToHost(b.parts[k], to[i], size)
		if err != nil {
			first = d.explain(err, "copying %s from %s", b.Shape, d)
			break
		}
		events = append(events, ev)
	}
	for _, ev := range events {
		if err := d.received(ev); err != nil && first == nil {
			first = b.recorded(d.explain(err, "computing or copying %s on %s", b.Shape, d))
		}
	}
	return first
}

// received waits for a copy to host memory, and destroys its event. If the waiting fails, the plugin may
// write on: the memory must stay until it reports by the other way that it is done.
func (d *Device) received(ev pjrt.Event) error {
	err := d.client.Await(ev)
	if err != nil {
		_ = d.client.AwaitContext(context.Background(), ev) // what it says is in err
	}
	return errors.Join(err, d.client.DestroyEvents(ev))
}

// CopyTo makes a copy on another device; both are single ones.
func (b *Buffer) CopyTo(dst *Device) (*Buffer, error) {
	if err := b.Await(); err != nil {
		return nil, err
	}
	b.Dev.run.Lock()
	err := b.tell()
	b.Dev.run.Unlock()
	if err != nil {
		return nil, err
	}
	to, err := b.Dev.client.CopyToDevice(b.parts[0], dst.devs[0])
	if err != nil {
		return nil, dst.explain(err, "copying %s from %s to %s", b.Shape, b.Dev, dst)
	}
	c := newBuffer(dst, b.Shape, nil, nil, 1)
	c.parts[0] = to
	dst.arrays.need(c.bytes)
	c.ready()
	return c, nil
}

// Place makes a copy on an SPMD device with a sharding, by way of the host. s has the buffer's bytes. The error is
// errs.Runtime if it does not have them.
func (b *Buffer) Place(d *Device, s *shape.Shape, sh *sharding.Sharding) (*Buffer, error) {
	if s.Bytes() != b.Shape.Bytes() {
		return nil, errs.New(errs.Runtime, "%s cannot be read as %s", b.Shape, s)
	}
	room, free, err := staged(s)
	if err != nil {
		return nil, err
	}
	defer free()
	if err := b.Download(room, int(s.Bytes())); err != nil {
		return nil, err
	}
	return d.Upload(room, s, sh)
}

// block is a part of a dense row-major array in host memory: the array, and where the part starts.
type block struct {
	at          unsafe.Pointer
	dims, start []int64
}

// whole is the number of last dimensions that a part of this size covers wholly.
func (b block) whole(size []int64) int {
	n := 0
	for n < len(size) && size[len(size)-1-n] == b.dims[len(size)-1-n] {
		n++
	}
	return n
}

// run is the element at which the part starts, if it is one piece of the array.
func (b block) run(size []int64) (at int64, ok bool) {
	lead := max(len(size)-b.whole(size)-1, 0) // dimensions before the outermost that is cut
	if numel(size[:lead]) > 1 {
		return 0, false
	}
	for i, start := range b.start {
		at = at*b.dims[i] + start
	}
	return at, true
}

// copyBlock copies a part of this size between two arrays of items of so many bytes.
func copyBlock(dst, src block, size []int64, item int64) {
	if numel(size) == 0 {
		return
	}
	lead := max(len(size)-min(dst.whole(size), src.whole(size))-1, 0)
	n := numel(size[lead:]) * item
	index := make([]int64, lead)
	for {
		to, from := dst.offset(index), src.offset(index)
		copy(unsafe.Slice((*byte)(unsafe.Add(dst.at, to*item)), n), unsafe.Slice((*byte)(unsafe.Add(src.at, from*item)), n))
		i := lead - 1
		for ; i >= 0; i-- {
			if index[i]++; index[i] < size[i] {
				break
			}
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// offset is the element of the array at an index into the first dimensions of the part.
func (b block) offset(index []int64) (at int64) {
	for i, n := range b.dims {
		at = at*n + b.start[i]
		if i < len(index) {
			at += index[i]
		}
	}
	return at
}

func numel(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}
