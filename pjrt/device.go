package pjrt

// #include "bridge.h"
import "C"

import "unsafe"

// Device is one device of a client. It is usable while the client is open.
type Device struct {
	client      *Client
	handle      uintptr
	description uintptr
	id          int
	process     int
	local       int
	addressable bool
	kind        string
	memories    []*Memory
	standard    *Memory
}

// Memory is a memory space that devices use, such as "device" or "pinned_host".
type Memory struct {
	client *Client
	device *Device // one that uses it, for plugins that want a device
	handle uintptr
	id     int
	kind   string
}

// MemoryStats are a device allocator's figures in bytes, except NumAllocs. A
// plugin gives those that it keeps; the others are -1.
type MemoryStats struct {
	BytesInUse, PeakBytesInUse, NumAllocs, LargestAllocSize, BytesLimit int64
	BytesReserved, PeakBytesReserved, BytesReservableLimit              int64
	LargestFreeBlockBytes, PoolBytes, PeakPoolBytes                     int64
}

// readDevices asks for the devices and for what does not change about them.
func (c *Client) readDevices() error {
	all, err := c.plugin.objects(C.pj_fn_Client_Devices, c.handle)
	if err != nil {
		return err
	}
	usable, err := c.plugin.objects(C.pj_fn_Client_AddressableDevices, c.handle)
	if err != nil {
		return err
	}
	c.byHandle = make(map[uintptr]*Device, len(all))
	for _, handle := range all {
		d := &Device{client: c, handle: handle, local: -1}
		if err := d.describe(); err != nil {
			return err
		}
		c.devices = append(c.devices, d)
		c.byHandle[handle] = d
	}
	for _, handle := range usable {
		d := c.byHandle[handle]
		if d == nil {
			return newError(Internal, C.pj_fn_Client_AddressableDevices,
				"the plugin lists an addressable device that is not among its devices")
		}
		c.addressable = append(c.addressable, d)
		if d.local, err = c.plugin.number(C.pj_fn_Device_LocalHardwareId, handle); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) describe() (err error) {
	p := d.client.plugin
	if d.description, err = p.word(C.pj_fn_Device_GetDescription, d.handle); err != nil {
		return err
	}
	if d.id, err = p.number(C.pj_fn_DeviceDescription_Id, d.description); err != nil {
		return err
	}
	if d.process, err = p.number(C.pj_fn_DeviceDescription_ProcessIndex, d.description); err != nil {
		return err
	}
	if d.addressable, err = p.truth(C.pj_fn_Device_IsAddressable, d.handle); err != nil {
		return err
	}
	d.kind, err = p.text(C.pj_fn_DeviceDescription_Kind, d.description)
	return err
}

// readMemories asks for the memories; a plugin without any has none listed.
func (c *Client) readMemories() error {
	c.memoryByHandle = make(map[uintptr]*Memory)
	handles, err := c.plugin.objects(C.pj_fn_Client_AddressableMemories, c.handle)
	if isUnimplemented(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, handle := range handles {
		m := &Memory{client: c, handle: handle}
		if m.id, err = c.plugin.number(C.pj_fn_Memory_Id, handle); err != nil {
			return err
		}
		if m.kind, err = c.plugin.text(C.pj_fn_Memory_Kind, handle); err != nil {
			return err
		}
		c.memories = append(c.memories, m)
		c.memoryByHandle[handle] = m
	}
	for _, d := range c.addressable {
		if err := d.readMemories(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) readMemories() error {
	c := d.client
	handles, err := c.plugin.objects(C.pj_fn_Device_AddressableMemories, d.handle)
	if err != nil && !isUnimplemented(err) {
		return err
	}
	for _, handle := range handles {
		if m := c.memoryByHandle[handle]; m != nil {
			d.memories = append(d.memories, m)
			if m.device == nil {
				m.device = d
			}
		}
	}
	standard, err := c.plugin.word(C.pj_fn_Device_DefaultMemory, d.handle)
	if err != nil && !isUnimplemented(err) {
		return err
	}
	d.standard = c.memoryByHandle[standard]
	return nil
}

// LookupDevice finds a device by its id among all of the computation.
func (c *Client) LookupDevice(id int) (*Device, error) {
	return c.lookup(C.pj_fn_Client_LookupDevice, id)
}

// LookupAddressableDevice finds a device of this process by its hardware number.
func (c *Client) LookupAddressableDevice(localHardwareID int) (*Device, error) {
	return c.lookup(C.pj_fn_Client_LookupAddressableDevice, localHardwareID)
}

func (c *Client) lookup(fn fnID, number int) (*Device, error) {
	if err := c.enter(fn); err != nil {
		return nil, err
	}
	defer c.leave(1)
	if int(C.int(number)) != number {
		return nil, invalid(fn, "no device has the number %d", number)
	}
	block := C.pj_lookup{object: C.uintptr_t(c.handle), number: C.int(number)}
	if err := call(c.plugin, fn, &block); err != nil {
		return nil, err
	}
	d := c.byHandle[uintptr(block.word)]
	if d == nil {
		return nil, newError(NotFound, fn, "the plugin names a device that it does not list")
	}
	return d, nil
}

// Client is the client that the device belongs to.
func (d *Device) Client() *Client { return d.client }

// ID is the device's number, unique in the computation.
func (d *Device) ID() int { return d.id }

// ProcessIndex is the number of the process that the device belongs to.
func (d *Device) ProcessIndex() int { return d.process }

// LocalHardwareID is the device's number in its machine, -1 if unknown.
func (d *Device) LocalHardwareID() int { return d.local }

// Addressable reports whether this process can use the device.
func (d *Device) Addressable() bool { return d.addressable }

// Kind is the vendor's name of the model.
func (d *Device) Kind() string { return d.kind }

// Memories lists the memories that the device can use.
func (d *Device) Memories() []*Memory { return d.memories }

// DefaultMemory is where the device's data lies by default, nil if
// the plugin does not say.
func (d *Device) DefaultMemory() *Memory { return d.standard }

// String is the plugin's short name of the device.
func (d *Device) String() string { return d.text(C.pj_fn_DeviceDescription_ToString) }

// DebugString is the plugin's long description of the device.
func (d *Device) DebugString() string { return d.text(C.pj_fn_DeviceDescription_DebugString) }

func (d *Device) text(fn fnID) string {
	if d.client.enter(fn) != nil {
		return "(device of a closed client)"
	}
	defer d.client.leave(1)
	s, err := d.client.plugin.text(fn, d.description)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return s
}

// Attributes are the plugin's statements about the device. Values are string,
// bool, int64, []int64 or float32.
func (d *Device) Attributes() (map[string]any, error) {
	if err := d.client.enter(C.pj_fn_DeviceDescription_Attributes); err != nil {
		return nil, err
	}
	defer d.client.leave(1)
	return d.client.plugin.deviceAttributes(d.description)
}

func (p *Plugin) deviceAttributes(description uintptr) (map[string]any, error) {
	block := C.pj_counted{object: C.uintptr_t(description)}
	if err := call(p, C.pj_fn_DeviceDescription_Attributes, &block); err != nil {
		return nil, err
	}
	return namedValues(unsafe.Pointer(block.items), block.count), nil
}

// MemoryStats are the figures of the device's allocator. Many plugins have none
// and answer with an *Error of code Unimplemented.
func (d *Device) MemoryStats() (MemoryStats, error) {
	const fn = C.pj_fn_Device_MemoryStats
	if err := d.client.enter(fn); err != nil {
		return MemoryStats{}, err
	}
	defer d.client.leave(1)
	b := C.PJRT_Device_MemoryStats_Args{device: opaque[*C.PJRT_Device](d.handle)}
	if err := call(d.client.plugin, fn, &b); err != nil {
		return MemoryStats{}, err
	}
	given := func(value C.int64_t, set C.bool) int64 {
		if !set {
			return -1
		}
		return int64(value)
	}
	return MemoryStats{
		BytesInUse:            int64(b.bytes_in_use),
		PeakBytesInUse:        given(b.peak_bytes_in_use, b.peak_bytes_in_use_is_set),
		NumAllocs:             given(b.num_allocs, b.num_allocs_is_set),
		LargestAllocSize:      given(b.largest_alloc_size, b.largest_alloc_size_is_set),
		BytesLimit:            given(b.bytes_limit, b.bytes_limit_is_set),
		BytesReserved:         given(b.bytes_reserved, b.bytes_reserved_is_set),
		PeakBytesReserved:     given(b.peak_bytes_reserved, b.peak_bytes_reserved_is_set),
		BytesReservableLimit:  given(b.bytes_reservable_limit, b.bytes_reservable_limit_is_set),
		LargestFreeBlockBytes: given(b.largest_free_block_bytes, b.largest_free_block_bytes_is_set),
		PoolBytes:             given(b.pool_bytes, b.pool_bytes_is_set),
		PeakPoolBytes:         given(b.peak_pool_bytes, b.peak_pool_bytes_is_set),
	}, nil
}

// ID is the memory's number, unique in the client.
func (m *Memory) ID() int { return m.id }

// Kind is the plugin's name of the kind of memory, such as "device".
func (m *Memory) Kind() string { return m.kind }

// KindID is a number for the kind of memory.
func (m *Memory) KindID() (int, error) {
	const fn = C.pj_fn_Memory_Kind_Id
	if err := m.client.enter(fn); err != nil {
		return 0, err
	}
	defer m.client.leave(1)
	return m.client.plugin.number(fn, m.handle)
}

// String is the plugin's short name of the memory.
func (m *Memory) String() string { return m.text(C.pj_fn_Memory_ToString) }

// DebugString is the plugin's long description of the memory.
func (m *Memory) DebugString() string { return m.text(C.pj_fn_Memory_DebugString) }

func (m *Memory) text(fn fnID) string {
	if m.client.enter(fn) != nil {
		return "(memory of a closed client)"
	}
	defer m.client.leave(1)
	s, err := m.client.plugin.text(fn, m.handle)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return s
}

// Devices lists the devices that can use the memory.
func (m *Memory) Devices() ([]*Device, error) {
	const fn = C.pj_fn_Memory_AddressableByDevices
	if err := m.client.enter(fn); err != nil {
		return nil, err
	}
	defer m.client.leave(1)
	handles, err := m.client.plugin.objects(fn, m.handle)
	if err != nil {
		return nil, err
	}
	return m.client.devicesOf(handles), nil
}

func (c *Client) devicesOf(handles []uintptr) []*Device {
	out := make([]*Device, 0, len(handles))
	for _, handle := range handles {
		if d := c.byHandle[handle]; d != nil {
			out = append(out, d)
		}
	}
	return out
}
