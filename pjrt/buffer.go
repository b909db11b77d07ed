package pjrt

/*
#cgo noescape pjc_from_host
#include "bridge.h"
*/
import "C"

import "unsafe"

// Buffer names an array on a device; zero is none. It belongs to the client that
// made it and is destroyed once, by Client.Destroy.
type Buffer uintptr

// HostBufferSemantics says how long a plugin may read the memory that FromHost
// was given.
type HostBufferSemantics int32

// The semantics, each with what the caller promises.
const (
	// OnlyDuringCall: the memory may change as soon as FromHost returns.
	OnlyDuringCall HostBufferSemantics = C.PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
	// UntilTransferCompletes: the memory stays as it is until the event completes.
	UntilTransferCompletes HostBufferSemantics = C.PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
	// ZeroCopy: the buffer may use the memory itself, without writing to it, until
	// the event completes, which is when the buffer is gone.
	ZeroCopy HostBufferSemantics = C.PJRT_HostBufferSemantics_kImmutableZeroCopy
	// MutableZeroCopy: the same, and the plugin may write to it.
	MutableZeroCopy HostBufferSemantics = C.PJRT_HostBufferSemantics_kMutableZeroCopy
)

// FromHost copies an array from host memory to a device. dims are elements;
// byteStrides are the bytes from one element to the next in each dimension, or
// nil for dense row-major data. src may be Go memory only with OnlyDuringCall,
// or pinned. The event, which may be zero, completes when src is no longer read;
// the buffer may be used at once.
func (c *Client) FromHost(src unsafe.Pointer, dtype Type, dims, byteStrides []int64,
	device *Device, semantics HostBufferSemantics) (Buffer, Event, error) {
	if device == nil || device.client != c {
		return 0, 0, invalid(C.pj_fn_Client_BufferFromHostBuffer, "the device is none of this client")
	}
	return c.fromHost(src, dtype, dims, byteStrides, device.handle, 0, semantics)
}

// FromHostToMemory is FromHost with the memory to copy to.
func (c *Client) FromHostToMemory(src unsafe.Pointer, dtype Type, dims, byteStrides []int64,
	memory *Memory, semantics HostBufferSemantics) (Buffer, Event, error) {
	if memory == nil || memory.client != c {
		return 0, 0, invalid(C.pj_fn_Client_BufferFromHostBuffer, "the memory is none of this client")
	}
	return c.fromHost(src, dtype, dims, byteStrides, 0, memory.handle, semantics)
}

func (c *Client) fromHost(src unsafe.Pointer, dtype Type, dims, byteStrides []int64,
	device, memory uintptr, semantics HostBufferSemantics) (Buffer, Event, error) {
	const fn = C.pj_fn_Client_BufferFromHostBuffer
	elements := int64(1)
	for i, d := range dims {
		if d < 0 {
			return 0, 0, invalid(fn, "dimension %d of %v is negative", i, dims)
		}
		elements *= d
	}
	if src == nil && elements > 0 && dtype != Token {
		return 0, 0, invalid(fn, "no data for %v elements of %v", dims, dtype)
	}
	if len(byteStrides) != 0 && len(byteStrides) != len(dims) {
		return 0, 0, invalid(fn, "%d strides for %d dimensions", len(byteStrides), len(dims))
	}
	if err := c.enter(fn); err != nil {
		return 0, 0, err
	}
	r := C.pjc_from_host(c.plugin.api, C.pj_client(c.handle), src, C.int(dtype),
		(*C.int64_t)(unsafe.SliceData(dims)), C.size_t(len(dims)),
		(*C.int64_t)(unsafe.SliceData(byteStrides)), C.size_t(len(byteStrides)),
		C.int(semantics), C.pj_device(device), C.pj_memory(memory))
	if r.error != 0 {
		err := c.fail(r.fn, r.error)
		c.leave(1)
		return 0, 0, err
	}
	b := c.newBuffer(uintptr(r.object))
	e := c.newEvent(uintptr(r.event))
	c.leave(1)
	return b, e, nil
}

// newBuffer counts a buffer that a call made, and holds the client for it.
func (c *Client) newBuffer(b uintptr) Buffer {
	if b == 0 {
		return 0
	}
	c.life.add(1)
	c.live.buffers.Add(1)
	c.track.buffer(Buffer(b))
	return Buffer(b)
}

// Destroy destroys buffers, in one crossing for all, and sets the slice's
// elements to zero. Zeros are skipped. Executions that use a buffer go on.
func (c *Client) Destroy(buffers ...Buffer) error {
	err := c.track.dropBuffers(buffers)
	n, failure := destroyAll(c, C.pj_fn_Buffer_Destroy, buffers)
	c.live.buffers.Add(-int64(n))
	c.leave(n)
	if failure != nil {
		return failure
	}
	return err
}

// useBuffer checks a buffer before it goes into a call.
func (c *Client) useBuffer(fn fnID, b Buffer) error {
	if b == 0 {
		return invalid(fn, "the buffer is zero")
	}
	if c.life.closed() {
		return closedError(fn, "the client")
	}
	return c.track.useBuffer(fn, b)
}

// ToHost starts the copy of a buffer to host memory of size bytes, dense and
// row-major. dst must stay until the event completes; Go memory must be pinned.
func (c *Client) ToHost(b Buffer, dst unsafe.Pointer, size int) (Event, error) {
	const fn = C.pj_fn_Buffer_ToHostBuffer
	if err := c.useBuffer(fn, b); err != nil {
		return 0, err
	}
	if dst == nil {
		return 0, invalid(fn, "no memory to copy to")
	}
	if size < 0 {
		return 0, invalid(fn, "%d bytes", size)
	}
	r := C.pjc_to_host(c.plugin.api, C.pj_buffer(b), dst, C.size_t(size))
	if r.error != 0 {
		return 0, c.plugin.fail(r.fn, r.error)
	}
	return c.newEvent(uintptr(r.event)), nil
}

// HostSize is the bytes of host memory that ToHost needs for the buffer.
func (c *Client) HostSize(b Buffer) (int, error) {
	const fn = C.pj_fn_Buffer_ToHostBuffer
	if err := c.useBuffer(fn, b); err != nil {
		return 0, err
	}
	r := C.pjc_to_host(c.plugin.api, C.pj_buffer(b), nil, 0)
	if r.error != 0 {
		return 0, c.plugin.fail(r.fn, r.error)
	}
	return int(r.number), nil
}

// CopyRawToHost copies size bytes from an offset of the buffer's device memory,
// in the device's own layout.
func (c *Client) CopyRawToHost(b Buffer, dst unsafe.Pointer, offset, size int) (Event, error) {
	const fn = C.pj_fn_Buffer_CopyRawToHost
	if err := c.useBuffer(fn, b); err != nil {
		return 0, err
	}
	if dst == nil || offset < 0 || size < 0 {
		return 0, invalid(fn, "%d bytes at offset %d", size, offset)
	}
	block := C.PJRT_Buffer_CopyRawToHost_Args{buffer: opaque[*C.PJRT_Buffer](uintptr(b)), dst: dst,
		offset: C.int64_t(offset), transfer_size: C.int64_t(size)}
	if err := call(c.plugin, fn, &block); err != nil {
		return 0, err
	}
	return c.newEvent(uintptr(unsafe.Pointer(block.event))), nil
}

// Ready is an event that completes when the buffer's data is there, or with the
// error of what should have made it.
func (c *Client) Ready(b Buffer) (Event, error) {
	const fn = C.pj_fn_Buffer_ReadyEvent
	if err := c.useBuffer(fn, b); err != nil {
		return 0, err
	}
	e, err := c.plugin.word(fn, uintptr(b))
	if err != nil {
		return 0, err
	}
	return c.newEvent(e), nil
}

// Delete frees the buffer's memory; what remains can be asked IsDeleted and must
// be destroyed.
func (c *Client) Delete(b Buffer) error {
	if err := c.useBuffer(C.pj_fn_Buffer_Delete, b); err != nil {
		return err
	}
	return c.plugin.do(C.pj_fn_Buffer_Delete, uintptr(b))
}

// IsDeleted reports whether the memory is gone, by Delete or by donation.
func (c *Client) IsDeleted(b Buffer) (bool, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_IsDeleted, b); err != nil {
		return false, err
	}
	return c.plugin.truth(C.pj_fn_Buffer_IsDeleted, uintptr(b))
}

// DType is the type of the buffer's elements.
func (c *Client) DType(b Buffer) (Type, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_ElementType, b); err != nil {
		return InvalidType, err
	}
	t, err := c.plugin.number(C.pj_fn_Buffer_ElementType, uintptr(b))
	return Type(t), err
}

// Dims is the buffer's shape in elements.
func (c *Client) Dims(b Buffer) ([]int64, error) {
	return c.numbers(C.pj_fn_Buffer_Dimensions, b)
}

// OnDeviceSize is the bytes that the buffer takes on its device.
func (c *Client) OnDeviceSize(b Buffer) (int, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_OnDeviceSizeInBytes, b); err != nil {
		return 0, err
	}
	n, err := c.plugin.word(C.pj_fn_Buffer_OnDeviceSizeInBytes, uintptr(b))
	return int(n), err
}

// DeviceOf is the device that the buffer is on.
func (c *Client) DeviceOf(b Buffer) (*Device, error) {
	const fn = C.pj_fn_Buffer_Device
	if err := c.useBuffer(fn, b); err != nil {
		return nil, err
	}
	handle, err := c.plugin.word(fn, uintptr(b))
	if err != nil {
		return nil, err
	}
	d := c.byHandle[handle]
	if d == nil {
		return nil, newError(Internal, fn, "the plugin names a device that it does not list")
	}
	return d, nil
}

// MemoryOf is the memory that the buffer is in.
func (c *Client) MemoryOf(b Buffer) (*Memory, error) {
	const fn = C.pj_fn_Buffer_Memory
	if err := c.useBuffer(fn, b); err != nil {
		return nil, err
	}
	handle, err := c.plugin.word(fn, uintptr(b))
	if err != nil {
		return nil, err
	}
	m := c.memoryByHandle[handle]
	if m == nil {
		return nil, newError(Internal, fn, "the plugin names a memory that it does not list")
	}
	return m, nil
}

// OnCPU reports whether the buffer's memory is the host's.
func (c *Client) OnCPU(b Buffer) (bool, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_IsOnCpu, b); err != nil {
		return false, err
	}
	return c.plugin.truth(C.pj_fn_Buffer_IsOnCpu, uintptr(b))
}

// CopyToDevice makes a copy on another device of the client. The copy may be
// used at once.
func (c *Client) CopyToDevice(b Buffer, device *Device) (Buffer, error) {
	if device == nil || device.client != c {
		return 0, invalid(C.pj_fn_Buffer_CopyToDevice, "the device is none of this client")
	}
	return c.copyTo(C.pj_fn_Buffer_CopyToDevice, b, device.handle)
}

// CopyToMemory makes a copy in another memory of the client.
func (c *Client) CopyToMemory(b Buffer, memory *Memory) (Buffer, error) {
	if memory == nil || memory.client != c {
		return 0, invalid(C.pj_fn_Buffer_CopyToMemory, "the memory is none of this client")
	}
	return c.copyTo(C.pj_fn_Buffer_CopyToMemory, b, memory.handle)
}

func (c *Client) copyTo(fn fnID, b Buffer, target uintptr) (Buffer, error) {
	if err := c.useBuffer(fn, b); err != nil {
		return 0, err
	}
	if err := c.enter(fn); err != nil {
		return 0, err
	}
	defer c.leave(1)
	made, err := c.plugin.pair(fn, uintptr(b), target)
	if err != nil {
		c.addMemory(err)
		return 0, err
	}
	return c.newBuffer(made), nil
}

// UnsafePointer is the address of the buffer's data as the platform has it. It
// is valid while the buffer lives and nothing donates it; IncreaseExternalRef
// keeps it longer.
func (c *Client) UnsafePointer(b Buffer) (uintptr, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_UnsafePointer, b); err != nil {
		return 0, err
	}
	return c.plugin.word(C.pj_fn_Buffer_UnsafePointer, uintptr(b))
}

// DevicePointer is the address of the buffer's data for another framework's use;
// take it between IncreaseExternalRef and DecreaseExternalRef.
func (c *Client) DevicePointer(b Buffer) (uintptr, error) {
	if err := c.useBuffer(C.pj_fn_Buffer_OpaqueDeviceMemoryDataPointer, b); err != nil {
		return 0, err
	}
	return c.plugin.word(C.pj_fn_Buffer_OpaqueDeviceMemoryDataPointer, uintptr(b))
}

// IncreaseExternalRef keeps the buffer's memory where it is while another
// framework uses it. Each call needs one DecreaseExternalRef.
func (c *Client) IncreaseExternalRef(b Buffer) error {
	if err := c.useBuffer(C.pj_fn_Buffer_IncreaseExternalReferenceCount, b); err != nil {
		return err
	}
	return c.plugin.do(C.pj_fn_Buffer_IncreaseExternalReferenceCount, uintptr(b))
}

// DecreaseExternalRef undoes one IncreaseExternalRef.
func (c *Client) DecreaseExternalRef(b Buffer) error {
	if err := c.useBuffer(C.pj_fn_Buffer_DecreaseExternalReferenceCount, b); err != nil {
		return err
	}
	return c.plugin.do(C.pj_fn_Buffer_DecreaseExternalReferenceCount, uintptr(b))
}
