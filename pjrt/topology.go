package pjrt

// #include "bridge.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Topology describes the devices of a computation as a whole. It is that of a client, which owns it; or one made by
// NewTopology or ReadTopology, which the caller closes, and whose devices need not be there.
type Topology struct {
	plugin *Plugin
	client *Client // that owns it; nil: the caller does
	handle uintptr // unless client
	life   lifetime
	guard  closeGuard
}

// DeviceDescription is what a plugin says of a device, which may be absent.
type DeviceDescription struct {
	ID      int
	Process int
	// Kind is the model, such as "NVIDIA H100 80GB HBM3" or "TPU v5 lite".
	Kind string
	// Text describes the device to a user.
	Text string
	// Attributes have values of the types of Topology.Attributes.
	Attributes map[string]any
}

// Topology is the topology of the client's devices.
func (c *Client) Topology() *Topology { return &Topology{plugin: c.plugin, client: c} }

// NewTopology describes devices by the plugin's name for them, such as libtpu's "v5e:2x4", and by options of the
// plugin, of the types of NewClient's. The devices need not be there.
func (p *Plugin) NewTopology(name string, opts map[string]any) (*Topology, error) {
	const fn = C.pj_fn_TopologyDescription_Create
	named, err := newOptions(fn, opts)
	if err != nil {
		return nil, err
	}
	defer named.free()
	var pins runtime.Pinner
	defer pins.Unpin()
	block := C.PJRT_TopologyDescription_Create_Args{
		topology_name: pinnedBytes(&pins, []byte(name)), topology_name_size: C.size_t(len(name)),
		create_options: named.values, num_options: named.count,
	}
	if err := call(p, fn, &block); err != nil {
		return nil, err
	}
	return p.newTopology(uintptr(unsafe.Pointer(block.topology))), nil
}

// ReadTopology makes a topology of what Topology.Serialize gave.
func (p *Plugin) ReadTopology(serialized []byte) (*Topology, error) {
	const fn = C.pj_fn_TopologyDescription_Deserialize
	if len(serialized) == 0 {
		return nil, invalid(fn, "the serialized topology is empty")
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	block := C.PJRT_TopologyDescription_Deserialize_Args{
		serialized_topology: pinnedBytes(&pins, serialized), serialized_topology_size: C.size_t(len(serialized)),
	}
	if err := call(p, fn, &block); err != nil {
		return nil, err
	}
	return p.newTopology(uintptr(unsafe.Pointer(block.topology))), nil
}

func (p *Plugin) newTopology(handle uintptr) *Topology {
	t := &Topology{plugin: p, handle: handle}
	guard(&t.guard, t, "a topology")
	return t
}

// Close releases the topology, or does so when the last program compiled for it is closed. That of a client stays.
// Closing again does nothing.
func (t *Topology) Close() error {
	if t.client != nil {
		return nil
	}
	t.guard.done()
	if t.life.closed() || !t.life.close() {
		return nil
	}
	return t.letGo()
}

func (t *Topology) letGo() error { return t.plugin.do(C.pj_fn_TopologyDescription_Destroy, t.handle) }

// leave gives up a hold on the topology.
func (t *Topology) leave() {
	if t.client != nil {
		t.client.leave(1)
	} else if t.life.leave(1) {
		// The caller was closing something else; there is no one to tell.
		_ = t.letGo()
	}
}

// enter holds the topology, and gives what the plugin knows it by.
func (t *Topology) enter(fn fnID) (handle uintptr, err error) {
	if t.client == nil {
		if !t.life.enter() {
			return 0, closedError(fn, "the topology")
		}
		return t.handle, nil
	}
	if err := t.client.enter(fn); err != nil {
		return 0, err
	}
	if handle, err = t.plugin.word(C.pj_fn_Client_TopologyDescription, t.client.handle); err != nil {
		t.client.leave(1)
	}
	return handle, err
}

// Compile compiles a module for the topology's devices, as Client.Compile does for those of a client.
func (t *Topology) Compile(module []byte, format string, opts CompileOptions) (*Compiled, error) {
	const fn = C.pj_fn_Compile
	var pins runtime.Pinner
	defer pins.Unpin()
	program, encoded, err := t.plugin.program(fn, &pins, module, format, opts)
	if err != nil {
		return nil, err
	}
	handle, err := t.enter(fn)
	if err != nil {
		return nil, err
	}
	block := C.PJRT_Compile_Args{
		topology: opaque[*C.PJRT_TopologyDescription](handle), program: &program.block,
		compile_options: pinnedBytes(&pins, encoded), compile_options_size: C.size_t(len(encoded)),
	}
	if err := call(t.plugin, fn, &block); err != nil {
		t.leave()
		return nil, err
	}
	x := &Compiled{plugin: t.plugin, topology: t, handle: uintptr(unsafe.Pointer(block.executable))} // it takes over the hold
	if err := x.describe(); err != nil {
		x.Close()
		return nil, err
	}
	guard(&x.guard, x, "a compiled program")
	return x, nil
}

// Attributes are the plugin's statements about the topology. Values are string,
// bool, int64, []int64 or float32.
func (t *Topology) Attributes() (map[string]any, error) {
	const fn = C.pj_fn_TopologyDescription_Attributes
	var out map[string]any
	err := t.with(fn, func(handle uintptr) error {
		items, count, err := t.plugin.list(fn, handle)
		if err == nil {
			out = namedValues(items, count)
		}
		return err
	})
	return out, err
}

// PlatformName is the kind of device, as the topology has it.
func (t *Topology) PlatformName() (string, error) {
	return t.text(C.pj_fn_TopologyDescription_PlatformName)
}

// PlatformVersion is the version of the platform, as the topology has it.
func (t *Topology) PlatformVersion() (string, error) {
	return t.text(C.pj_fn_TopologyDescription_PlatformVersion)
}

// Devices are the descriptions of the topology's devices.
func (t *Topology) Devices() (out []DeviceDescription, err error) {
	const fn = C.pj_fn_TopologyDescription_GetDeviceDescriptions
	err = t.with(fn, func(handle uintptr) error {
		handles, err := t.plugin.objects(fn, handle)
		if err != nil {
			return err
		}
		out = make([]DeviceDescription, len(handles))
		for i, h := range handles {
			if out[i], err = t.plugin.deviceDescription(h); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// deviceDescription reads all that a plugin says of a device.
func (p *Plugin) deviceDescription(handle uintptr) (d DeviceDescription, err error) {
	if d.ID, err = p.number(C.pj_fn_DeviceDescription_Id, handle); err != nil {
		return d, err
	}
	if d.Process, err = p.number(C.pj_fn_DeviceDescription_ProcessIndex, handle); err != nil {
		return d, err
	}
	if d.Kind, err = p.text(C.pj_fn_DeviceDescription_Kind, handle); err != nil {
		return d, err
	}
	if d.Text, err = p.text(C.pj_fn_DeviceDescription_ToString, handle); err != nil {
		return d, err
	}
	d.Attributes, err = p.deviceAttributes(handle)
	return d, err
}

// Serialize gives bytes that identify the topology, for the key of a cache.
func (t *Topology) Serialize() (out []byte, err error) {
	const fn = C.pj_fn_TopologyDescription_Serialize
	err = t.with(fn, func(handle uintptr) error {
		out, err = t.plugin.bytes(fn, handle)
		return err
	})
	return out, err
}

func (t *Topology) text(fn fnID) (s string, err error) {
	err = t.with(fn, func(handle uintptr) error {
		s, err = t.plugin.text(fn, handle)
		return err
	})
	return s, err
}

// with runs f on the topology.
func (t *Topology) with(fn fnID, f func(handle uintptr) error) error {
	handle, err := t.enter(fn)
	if err != nil {
		return err
	}
	defer t.leave()
	return f(handle)
}
