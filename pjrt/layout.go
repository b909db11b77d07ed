package pjrt

/*
#include "bridge.h"

static const PJRT_Buffer_MemoryLayout_Tiled *layout_tiled(const PJRT_Buffer_MemoryLayout *l) { return &l->tiled; }
static const PJRT_Buffer_MemoryLayout_Strides *layout_strides(const PJRT_Buffer_MemoryLayout *l) { return &l->strides; }
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Layout is how a buffer's elements lie in device memory: in an order of the
// dimensions, maybe in tiles, or by strides.
type Layout struct {
	// MinorToMajor are dimension numbers, the one that varies fastest first; nil
	// when strides are given.
	MinorToMajor []int64
	// Tiles are the sizes of each level of tiling, from the outermost.
	Tiles [][]int64
	// ByteStrides are the bytes from one element to the next in each dimension; nil
	// when an order is given.
	ByteStrides []int64
}

// RowMajor reports whether the elements lie dense with the last dimension
// varying fastest, as far as the order says.
func (l Layout) RowMajor() bool {
	if l.ByteStrides != nil || len(l.Tiles) != 0 {
		return false
	}
	for i, d := range l.MinorToMajor {
		if d != int64(len(l.MinorToMajor)-1-i) {
			return false
		}
	}
	return true
}

// LayoutOf is the layout of a buffer in device memory.
func (c *Client) LayoutOf(b Buffer) (Layout, error) {
	const fn = C.pj_fn_Buffer_GetMemoryLayout
	if err := c.useBuffer(fn, b); err != nil {
		return Layout{}, err
	}
	block := C.PJRT_Buffer_GetMemoryLayout_Args{buffer: opaque[*C.PJRT_Buffer](uintptr(b))}
	if err := call(c.plugin, fn, &block); err != nil {
		return Layout{}, err
	}
	if block.layout._type == C.PJRT_Buffer_MemoryLayout_Type_Strides {
		s := C.layout_strides(&block.layout)
		return Layout{ByteStrides: int64s(unsafe.Pointer(s.byte_strides), s.num_byte_strides)}, nil
	}
	t := C.layout_tiled(&block.layout)
	l := Layout{MinorToMajor: int64s(unsafe.Pointer(t.minor_to_major), t.minor_to_major_size)}
	sizes := unsafe.Slice((*C.size_t)(unsafe.Pointer(t.tile_dim_sizes)), int(t.num_tiles))
	at := unsafe.Pointer(t.tile_dims)
	for _, size := range sizes {
		l.Tiles = append(l.Tiles, int64s(at, size))
		at = unsafe.Add(at, 8*uintptr(size))
	}
	return l, nil
}

// int64s copies numbers that the plugin owns.
func int64s(items unsafe.Pointer, count C.size_t) []int64 {
	return append([]int64{}, unsafe.Slice((*int64)(items), int(count))...)
}

// UnpaddedDims is the buffer's shape without the padding that a dimension of
// varying size has.
func (c *Client) UnpaddedDims(b Buffer) ([]int64, error) {
	return c.numbers(C.pj_fn_Buffer_UnpaddedDimensions, b)
}

// DynamicDims are the numbers of the dimensions whose size varies at run time.
func (c *Client) DynamicDims(b Buffer) ([]int64, error) {
	return c.numbers(C.pj_fn_Buffer_DynamicDimensionIndices, b)
}

func (c *Client) numbers(fn fnID, b Buffer) ([]int64, error) {
	if err := c.useBuffer(fn, b); err != nil {
		return nil, err
	}
	items, count, err := c.plugin.list(fn, uintptr(b))
	if err != nil {
		return nil, err
	}
	return int64s(items, count), nil
}

// Uninitialized makes a buffer in a memory without giving it data.
func (c *Client) Uninitialized(dtype Type, dims []int64, memory *Memory) (Buffer, error) {
	const fn = C.pj_fn_Client_CreateUninitializedBuffer
	if err := c.checkTarget(fn, dims, memory); err != nil {
		return 0, err
	}
	defer c.leave(1)
	device := uintptr(0)
	if memory.device != nil {
		device = memory.device.handle
	}
	r := C.pjc_uninitialized(c.plugin.api, C.pj_client(c.handle), C.int(dtype), (*C.int64_t)(unsafe.SliceData(dims)), C.size_t(len(dims)),
		C.pj_device(device), C.pj_memory(memory.handle))
	if r.error != 0 {
		return 0, c.fail(r.fn, r.error)
	}
	return c.newBuffer(uintptr(r.object)), nil
}

// checkTarget refuses what no plugin could make, and holds the client.
func (c *Client) checkTarget(fn fnID, dims []int64, memory *Memory) error {
	if memory == nil || memory.client != c {
		return invalid(fn, "the memory is none of this client")
	}
	for i, d := range dims {
		if d < 0 {
			return invalid(fn, "dimension %d of %v is negative", i, dims)
		}
	}
	return c.enter(fn)
}

// pinnedInts is the address of numbers that C may read until pins are undone.
func pinnedInts(pins *runtime.Pinner, list []int64) *C.int64_t {
	if len(list) == 0 {
		return nil
	}
	pins.Pin(&list[0])
	return (*C.int64_t)(unsafe.Pointer(&list[0]))
}

// View makes a buffer on device memory that something else owns, at an address
// as the platform has it, dense and row-major. When the plugin is done with the
// memory, the queue receives a completion with this token; until then the memory
// must stay. The plugin may write to it where a program donates the buffer.
func (c *Client) View(address uintptr, dtype Type, dims []int64, memory *Memory,
	released *CompletionQueue, token uint64) (Buffer, error) {
	const fn = C.pj_fn_Client_CreateViewOfDeviceBuffer
	if released == nil {
		return 0, invalid(fn, "no queue that is told when the memory is released")
	}
	if err := c.checkTarget(fn, dims, memory); err != nil {
		return 0, err
	}
	defer c.leave(1)
	var pins runtime.Pinner
	defer pins.Unpin()
	block := c.viewOf(&pins, dtype, dims, memory)
	released.mu.RLock()
	defer released.mu.RUnlock()
	if released.handle == nil {
		return 0, closedError(fn, "the completion queue")
	}
	if failure := C.pjc_queue_view(released.handle, c.plugin.api, &block,
		C.uintptr_t(address), C.uint64_t(token)); failure != 0 {
		return 0, c.plugin.fail(fn, failure)
	}
	return c.newBuffer(uintptr(unsafe.Pointer(block.buffer))), nil
}

// viewOf is the block of arguments of a view, but for the memory.
func (c *Client) viewOf(pins *runtime.Pinner, dtype Type, dims []int64, memory *Memory) C.PJRT_Client_CreateViewOfDeviceBuffer_Args {
	block := C.PJRT_Client_CreateViewOfDeviceBuffer_Args{
		client: opaque[*C.PJRT_Client](c.handle), dims: pinnedInts(pins, dims), num_dims: C.size_t(len(dims)),
		element_type: C.PJRT_Buffer_Type(dtype), memory: opaque[*C.PJRT_Memory](memory.handle),
	}
	if memory.device != nil {
		block.device = opaque[*C.PJRT_Device](memory.device.handle)
	}
	return block
}

// Owned is memory of C's that something else owns.
type Owned struct {
	Address unsafe.Pointer
	Free    unsafe.Pointer // void (*)(void *address, void *owner) of C
	Owner   unsafe.Pointer
}

// Adopt is View of memory that comes with its owner: when the plugin is done with it, it calls Free, once and in any
// thread. After an error it does not.
func (c *Client) Adopt(m Owned, dtype Type, dims []int64, memory *Memory) (Buffer, error) {
	const fn = C.pj_fn_Client_CreateViewOfDeviceBuffer
	if err := c.checkTarget(fn, dims, memory); err != nil {
		return 0, err
	}
	defer c.leave(1)
	var pins runtime.Pinner
	defer pins.Unpin()
	block := c.viewOf(&pins, dtype, dims, memory)
	block.device_buffer_ptr, block.on_delete_callback, block.on_delete_callback_arg = m.Address, (*[0]byte)(m.Free), m.Owner
	if err := call(c.plugin, fn, &block); err != nil {
		c.addMemory(err)
		return 0, err
	}
	return c.newBuffer(uintptr(unsafe.Pointer(block.buffer))), nil
}
