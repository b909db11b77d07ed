package pjrt

// #include "bridge.h"
import "C"

import (
	"math"
	"sort"
)

// CompileOptions say for which devices a module is compiled, and how. The zero
// value is one replica of one partition on the client's default device.
type CompileOptions struct {
	// NumReplicas and NumPartitions are the copies of the program and the parts of
	// each copy; 0 is 1. Their product is the number of devices.
	NumReplicas, NumPartitions int
	// UseSPMD lets the compiler partition one program over the partitions.
	UseSPMD bool
	// PropagateToOutputs lets the partitioner choose the sharding of outputs that
	// the module does not state: one flag an output, or one for all; nil is none.
	PropagateToOutputs []bool
	// UseShardy takes the partitioning from the module's sdy dialect instead of
	// from sharding attributes.
	UseShardy bool
	// DeviceAssignment are device ids in the order [replica][partition], or nil for
	// the plugin's choice.
	DeviceAssignment []int
	// Portable compiles a program that runs on whichever device its arguments are
	// on; it needs one replica of one partition.
	Portable bool
	// EnvOptionOverrides set debug options of XLA by name; values are string, bool,
	// int64, int or float64.
	EnvOptionOverrides map[string]any
}

// Field numbers of CompileOptionsProto and of the messages in it, from XLA's
// xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
const (
	fieldBuildOptions       = 3
	fieldPortable           = 4
	fieldEnvOptionOverrides = 7

	fieldDeviceOrdinal     = 1
	fieldNumReplicas       = 4
	fieldNumPartitions     = 5
	fieldUseSPMD           = 6
	fieldDeviceAssignment  = 9
	fieldPropagateToOutput = 12
	fieldUseShardy         = 19

	fieldReplicaCount       = 1
	fieldComputationCount   = 2
	fieldComputationDevices = 3
	fieldReplicaDeviceIDs   = 1

	fieldMapKey   = 1
	fieldMapValue = 2

	fieldOverrideString = 1
	fieldOverrideBool   = 2
	fieldOverrideInt    = 3
	fieldOverrideDouble = 4
)

// marshal encodes the options as a CompileOptionsProto. fn names the call that
// they are for in errors.
func (o *CompileOptions) marshal(fn fnID) ([]byte, error) {
	replicas, partitions := max(o.NumReplicas, 1), max(o.NumPartitions, 1)
	if o.NumReplicas < 0 || o.NumPartitions < 0 {
		return nil, invalid(fn, "%d replicas of %d partitions", o.NumReplicas, o.NumPartitions)
	}
	if o.DeviceAssignment != nil && len(o.DeviceAssignment) != replicas*partitions {
		return nil, invalid(fn, "%d assigned devices for %d replicas of %d partitions",
			len(o.DeviceAssignment), replicas, partitions)
	}
	if o.Portable && (replicas*partitions != 1 || o.DeviceAssignment != nil) {
		return nil, invalid(fn, "a portable program has one replica of one partition and no assigned device")
	}
	var build message
	build.varint(fieldDeviceOrdinal, -1) // the compiler chooses
	build.varint(fieldNumReplicas, int64(replicas))
	build.varint(fieldNumPartitions, int64(partitions))
	build.truth(fieldUseSPMD, o.UseSPMD)
	if o.DeviceAssignment != nil {
		build.bytes(fieldDeviceAssignment, assignment(o.DeviceAssignment, replicas, partitions))
	}
	if len(o.PropagateToOutputs) > 0 {
		var packed message
		for _, on := range o.PropagateToOutputs {
			packed = append(packed, map[bool]byte{true: 1}[on])
		}
		build.bytes(fieldPropagateToOutput, packed)
	}
	build.truth(fieldUseShardy, o.UseShardy)
	var m message
	m.bytes(fieldBuildOptions, build)
	m.truth(fieldPortable, o.Portable)
	return o.marshalOverrides(fn, m)
}

// assignment encodes a DeviceAssignmentProto: for each partition, the device of
// each replica.
func assignment(ids []int, replicas, partitions int) message {
	var m message
	m.varint(fieldReplicaCount, int64(replicas))
	m.varint(fieldComputationCount, int64(partitions))
	for p := range partitions {
		var packed, devices message
		for r := range replicas {
			packed = appendVarint(packed, uint64(ids[r*partitions+p]))
		}
		devices.bytes(fieldReplicaDeviceIDs, packed)
		m.bytes(fieldComputationDevices, devices)
	}
	return m
}

func (o *CompileOptions) marshalOverrides(fn fnID, m message) ([]byte, error) {
	names := make([]string, 0, len(o.EnvOptionOverrides))
	for name := range o.EnvOptionOverrides {
		names = append(names, name)
	}
	sort.Strings(names) // equal options encode equally
	for _, name := range names {
		var value, entry message
		switch v := o.EnvOptionOverrides[name].(type) {
		case string:
			value.bytes(fieldOverrideString, []byte(v))
		case bool:
			value.varint(fieldOverrideBool, map[bool]int64{true: 1}[v])
		case int64:
			value.varint(fieldOverrideInt, v)
		case int:
			value.varint(fieldOverrideInt, int64(v))
		case float64:
			value.double(fieldOverrideDouble, v)
		default:
			return nil, invalid(fn, "override %q has type %T; "+
				"string, bool, int64, int and float64 are possible", name, v)
		}
		entry.bytes(fieldMapKey, []byte(name))
		entry.bytes(fieldMapValue, value)
		m.bytes(fieldEnvOptionOverrides, entry)
	}
	return m, nil
}

// message is an encoded protocol buffer that fields are appended to.
type message []byte

// The wire types of protocol buffers.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

func appendVarint(m message, v uint64) message {
	for v >= 0x80 {
		m = append(m, byte(v)|0x80)
		v >>= 7
	}
	return append(m, byte(v))
}

func (m *message) tag(field, wire int) { *m = appendVarint(*m, uint64(field<<3|wire)) }

// varint appends an integer, also when it is zero: a member of a oneof counts as
// set by its presence.
func (m *message) varint(field int, v int64) {
	m.tag(field, wireVarint)
	*m = appendVarint(*m, uint64(v))
}

// truth appends a boolean that is true; false is the default.
func (m *message) truth(field int, v bool) {
	if v {
		m.varint(field, 1)
	}
}

func (m *message) double(field int, v float64) {
	m.tag(field, wireFixed64)
	bits := math.Float64bits(v)
	for shift := 0; shift < 64; shift += 8 {
		*m = append(*m, byte(bits>>shift))
	}
}

func (m *message) bytes(field int, v []byte) {
	m.tag(field, wireBytes)
	*m = append(appendVarint(*m, uint64(len(v))), v...)
}
