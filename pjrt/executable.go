package pjrt

// #include "bridge.h"
import "C"

import (
	"fmt"
	"slices"
)

// Executable is a compiled program on the devices of a client.
type Executable struct {
	Compiled
	devices []*Device
}

// newExecutable takes over a loaded executable. The caller holds the client.
func (c *Client) newExecutable(handle uintptr) (*Executable, error) {
	c.life.add(1)
	c.live.executables.Add(1)
	x := &Executable{Compiled: Compiled{plugin: c.plugin, client: c, loaded: handle}}
	err := x.describe()
	if err != nil {
		x.Close()
		return nil, err
	}
	guard(&x.guard, x, "an executable")
	return x, nil
}

func (x *Executable) describe() (err error) {
	if x.handle, err = x.plugin.word(C.pj_fn_LoadedExecutable_GetExecutable, x.loaded); err != nil {
		return err
	}
	if err = x.Compiled.describe(); err != nil {
		return err
	}
	handles, err := x.plugin.objects(C.pj_fn_LoadedExecutable_AddressableDevices, x.loaded)
	if err != nil {
		return err
	}
	x.devices = x.client.devicesOf(handles)
	return nil
}

// Client is the client that the executable belongs to.
func (x *Executable) Client() *Client { return x.client }

// AddressableDevices lists the devices of this process that it runs on, in the
// order in which Execute takes their arguments.
func (x *Executable) AddressableDevices() []*Device { return x.devices }

// DeviceAssignment is the serialized DeviceAssignmentProto of the executable.
func (x *Executable) DeviceAssignment() ([]byte, error) {
	return x.bytes(C.pj_fn_LoadedExecutable_GetDeviceAssignment, x.loaded)
}

// Delete frees the program's resources when the executions that run have ended.
// The executable can then only be closed and asked IsDeleted.
func (x *Executable) Delete() error {
	if err := x.enter(C.pj_fn_LoadedExecutable_Delete); err != nil {
		return err
	}
	defer x.leave()
	return x.client.plugin.do(C.pj_fn_LoadedExecutable_Delete, x.loaded)
}

// IsDeleted reports whether Delete was called.
func (x *Executable) IsDeleted() (bool, error) {
	if err := x.enter(C.pj_fn_LoadedExecutable_IsDeleted); err != nil {
		return false, err
	}
	defer x.leave()
	return x.client.plugin.truth(C.pj_fn_LoadedExecutable_IsDeleted, x.loaded)
}

// String names the number of outputs and the devices.
func (x *Executable) String() string {
	ids := make([]int, 0, len(x.devices))
	for _, d := range x.devices {
		ids = append(ids, d.id)
	}
	slices.Sort(ids)
	return fmt.Sprintf("executable of %d outputs on devices %v", x.numOutputs, ids)
}
