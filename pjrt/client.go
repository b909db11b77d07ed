package pjrt

// #include "bridge.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Client is a plugin's connection to its devices. Buffers, events and
// executables belong to one client.
type Client struct {
	plugin *Plugin
	handle uintptr
	life   lifetime
	live   liveCounts
	track  tracker
	guard  closeGuard

	// Read once, when the client is made; they do not change.
	platform, version string
	process           int
	devices           []*Device
	addressable       []*Device
	memories          []*Memory
	byHandle          map[uintptr]*Device
	memoryByHandle    map[uintptr]*Memory
	store             *keyValueServer
}

// liveCounts are the objects of a client that no one has destroyed yet.
type liveCounts struct {
	buffers, events, executables, calls atomic.Int64
}

// LiveObjects are counts of what a client has given out and not got back.
type LiveObjects struct {
	Buffers, Events, Executables, Calls int64
}

// NewClient creates a client. The options are the plugin's own; their values may
// be string, bool, int64, int, float32 or []int64. store is how the processes of
// one computation find each other, and nil for a single process.
func (p *Plugin) NewClient(opts map[string]any, store KeyValueStore) (*Client, error) {
	named, err := newOptions(C.pj_fn_Client_Create, opts)
	if err != nil {
		return nil, err
	}
	defer named.free()
	block := C.PJRT_Client_Create_Args{create_options: named.values, num_options: named.count}
	server, err := serveKeyValues(store, &block)
	if err != nil {
		return nil, err
	}
	if err := call(p, C.pj_fn_Client_Create, &block); err != nil {
		server.close()
		return nil, err
	}
	c := &Client{plugin: p, handle: uintptr(unsafe.Pointer(block.client)), store: server}
	if err := c.describe(); err != nil {
		c.Close()
		return nil, err
	}
	guard(&c.guard, c, "a client")
	return c, nil
}

// describe reads what does not change while the client lives.
func (c *Client) describe() (err error) {
	if c.platform, err = c.plugin.text(C.pj_fn_Client_PlatformName, c.handle); err != nil {
		return err
	}
	if c.version, err = c.plugin.text(C.pj_fn_Client_PlatformVersion, c.handle); err != nil {
		return err
	}
	if c.process, err = c.plugin.number(C.pj_fn_Client_ProcessIndex, c.handle); err != nil {
		return err
	}
	if err := c.readDevices(); err != nil {
		return err
	}
	return c.readMemories()
}

// Close releases the client. Objects that still live keep the plugin's side
// alive until the last of them is destroyed; nothing new can be made. Closing
// again does nothing.
func (c *Client) Close() error {
	if c.life.closed() {
		return nil
	}
	c.guard.done()
	if c.life.close() {
		return c.letGo()
	}
	return nil
}

// leave gives up n holds on the client, and the client with the last.
func (c *Client) leave(n int) {
	if c.life.leave(n) {
		// The caller was destroying something else; there is no one to tell.
		_ = c.letGo()
	}
}

func (c *Client) letGo() error {
	err := c.plugin.do(C.pj_fn_Client_Destroy, c.handle)
	c.store.close()
	return err
}

// enter holds the client during a call.
func (c *Client) enter(fn fnID) error {
	if !c.life.enter() {
		return closedError(fn, "the client")
	}
	return nil
}

// Plugin is the plugin that the client belongs to.
func (c *Client) Plugin() *Plugin { return c.plugin }

// Closed reports whether Close was called.
func (c *Client) Closed() bool { return c.life.closed() }

// PlatformName is the kind of device in short, such as "cpu" or "cuda".
func (c *Client) PlatformName() string { return c.platform }

// PlatformVersion is the plugin's description of its own version.
func (c *Client) PlatformVersion() string { return c.version }

// ProcessIndex is the number of this process among those of the computation.
func (c *Client) ProcessIndex() int { return c.process }

// Devices lists all devices of the computation, those of other processes too.
func (c *Client) Devices() []*Device { return c.devices }

// AddressableDevices lists the devices that this process can use.
func (c *Client) AddressableDevices() []*Device { return c.addressable }

// AddressableMemories lists the memories that this process can use.
func (c *Client) AddressableMemories() []*Memory { return c.memories }

// Live counts the objects that were made and not destroyed.
func (c *Client) Live() LiveObjects {
	return LiveObjects{
		c.live.buffers.Load(), c.live.events.Load(),
		c.live.executables.Load(), c.live.calls.Load(),
	}
}

// DefaultDeviceAssignment asks the plugin which devices a program of this many
// replicas and partitions runs on: ids in the order [replica][partition].
func (c *Client) DefaultDeviceAssignment(replicas, partitions int) ([]int, error) {
	const fn = C.pj_fn_Client_DefaultDeviceAssignment
	if replicas < 1 || partitions < 1 || replicas > 1<<20 || partitions > 1<<20 {
		return nil, invalid(fn, "%d replicas of %d partitions", replicas, partitions)
	}
	if err := c.enter(fn); err != nil {
		return nil, err
	}
	defer c.leave(1)
	ids := make([]C.int, replicas*partitions)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&ids[0])
	block := C.PJRT_Client_DefaultDeviceAssignment_Args{
		client: opaque[*C.PJRT_Client](c.handle), num_replicas: C.int(replicas), num_partitions: C.int(partitions),
		default_assignment_size: C.size_t(len(ids)), default_assignment: &ids[0],
	}
	if err := call(c.plugin, fn, &block); err != nil {
		return nil, err
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out, nil
}

// Compile compiles a module for the client's devices. format is "mlir" for a
// StableHLO module, as text or bytecode, or "hlo" for a serialized
// HloModuleProto. It may take long, and does not return early.
func (c *Client) Compile(module []byte, format string, opts CompileOptions) (*Executable, error) {
	const fn = C.pj_fn_Client_Compile
	var pins runtime.Pinner
	defer pins.Unpin()
	program, encoded, err := c.plugin.program(fn, &pins, module, format, opts)
	if err != nil {
		return nil, err
	}
	if err := c.enter(fn); err != nil {
		return nil, err
	}
	defer c.leave(1)
	block := C.PJRT_Client_Compile_Args{
		client: opaque[*C.PJRT_Client](c.handle), program: &program.block,
		compile_options:      pinnedBytes(&pins, encoded),
		compile_options_size: C.size_t(len(encoded)),
	}
	if err := call(c.plugin, fn, &block); err != nil {
		return nil, err
	}
	return c.newExecutable(uintptr(unsafe.Pointer(block.executable)))
}

// program is a module as the plugin takes it, pinned, with the options in their encoded form.
func (p *Plugin) program(fn fnID, pins *runtime.Pinner, module []byte, format string, opts CompileOptions) (*roomy[C.PJRT_Program], []byte, error) {
	if len(module) == 0 {
		return nil, nil, invalid(fn, "the module is empty")
	}
	if format == "" {
		return nil, nil, invalid(fn, "the module's format is not given")
	}
	encoded, err := opts.marshal(fn)
	if err != nil {
		return nil, nil, err
	}
	program := sized(p, C.PJRT_Program{
		code: pinnedBytes(pins, module), code_size: C.size_t(len(module)),
		format: pinnedBytes(pins, []byte(format)), format_size: C.size_t(len(format)),
	})
	pins.Pin(program)
	return program, encoded, nil
}

// DeserializeAndLoad makes an executable of what Executable.Serialize gave, on a
// plugin of the same version. opts is nil to keep the options that it was
// compiled with.
func (c *Client) DeserializeAndLoad(serialized []byte, opts *CompileOptions) (*Executable, error) {
	const fn = C.pj_fn_Executable_DeserializeAndLoad
	if len(serialized) == 0 {
		return nil, invalid(fn, "the serialized executable is empty")
	}
	var encoded []byte
	if opts != nil {
		var err error
		if encoded, err = opts.marshal(fn); err != nil {
			return nil, err
		}
	}
	if err := c.enter(fn); err != nil {
		return nil, err
	}
	defer c.leave(1)
	var pins runtime.Pinner
	defer pins.Unpin()
	block := C.PJRT_Executable_DeserializeAndLoad_Args{
		client:                                     opaque[*C.PJRT_Client](c.handle),
		serialized_executable:                      pinnedBytes(&pins, serialized),
		serialized_executable_size:                 C.size_t(len(serialized)),
		overridden_serialized_compile_options:      pinnedBytes(&pins, encoded),
		overridden_serialized_compile_options_size: C.size_t(len(encoded)),
	}
	if err := call(c.plugin, fn, &block); err != nil {
		return nil, err
	}
	return c.newExecutable(uintptr(unsafe.Pointer(block.loaded_executable)))
}

// pinnedBytes is the address of bytes that C may read until pins are undone.
func pinnedBytes(pins *runtime.Pinner, b []byte) *C.char {
	if len(b) == 0 {
		return nil
	}
	pins.Pin(&b[0])
	return (*C.char)(unsafe.Pointer(&b[0]))
}

// String names the platform and the number of devices.
func (c *Client) String() string {
	return fmt.Sprintf("%s (%d of %d devices)", c.platform, len(c.addressable), len(c.devices))
}
