package pjrt

// #include "bridge.h"
import "C"

// Topology describes the devices of a computation as a whole.
type Topology struct{ client *Client }

// Topology is the topology of the client's devices.
func (c *Client) Topology() Topology { return Topology{c} }

// Attributes are the plugin's statements about the topology. Values are string,
// bool, int64, []int64 or float32.
func (t Topology) Attributes() (map[string]any, error) {
	const fn = C.pj_fn_TopologyDescription_Attributes
	var out map[string]any
	err := t.with(fn, func(handle uintptr) error {
		items, count, err := t.client.plugin.list(fn, handle)
		if err == nil {
			out = namedValues(items, count)
		}
		return err
	})
	return out, err
}

// PlatformName is the kind of device, as the topology has it.
func (t Topology) PlatformName() (string, error) {
	return t.text(C.pj_fn_TopologyDescription_PlatformName)
}

// PlatformVersion is the version of the platform, as the topology has it.
func (t Topology) PlatformVersion() (string, error) {
	return t.text(C.pj_fn_TopologyDescription_PlatformVersion)
}

// NumDevices is how many devices the topology has.
func (t Topology) NumDevices() (n int, err error) {
	const fn = C.pj_fn_TopologyDescription_GetDeviceDescriptions
	err = t.with(fn, func(handle uintptr) error {
		_, count, err := t.client.plugin.list(fn, handle)
		n = int(count)
		return err
	})
	return n, err
}

// Serialize gives bytes that identify the topology, for the key of a cache.
func (t Topology) Serialize() (out []byte, err error) {
	const fn = C.pj_fn_TopologyDescription_Serialize
	err = t.with(fn, func(handle uintptr) error {
		out, err = t.client.plugin.bytes(fn, handle)
		return err
	})
	return out, err
}

func (t Topology) text(fn fnID) (s string, err error) {
	err = t.with(fn, func(handle uintptr) error {
		s, err = t.client.plugin.text(fn, handle)
		return err
	})
	return s, err
}

// with runs f on the client's topology, which the client owns.
func (t Topology) with(fn fnID, f func(handle uintptr) error) error {
	if err := t.client.enter(fn); err != nil {
		return err
	}
	defer t.client.leave(1)
	handle, err := t.client.plugin.word(C.pj_fn_Client_TopologyDescription, t.client.handle)
	if err != nil {
		return err
	}
	return f(handle)
}
