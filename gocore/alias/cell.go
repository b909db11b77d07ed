// Package alias holds the storages of all tensors.
//
// A torch storage is an alias group: every tensor that shares it is a strided view of one Cell. A cell
// holds the value of the whole storage, as a dense array; reading a view derives it from that value,
// writing a view makes a new value. So aliases agree at every moment by construction, and a sync only
// replaces a recorded value by the computed one.
//
// A cell is one of
//
//	Empty     allocated, never written
//	Pending   its value is a node of the graph, not computed yet
//	Device    its value is a buffer
//	Poisoned  computing its value failed; reading it gives the cause
//	Dead      its buffer was donated to a program; reading it is a DonatedBufferError
//
// and changes only through Store.set. Device buffers are counted references.
//
// The package imports ir, strided, sharding, shape, dtype and errs.
package alias

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// State says what a cell holds.
type State uint8

// The states of a cell.
const (
	Free State = iota // the slot is not in use
	Empty
	Pending
	Device
	Poisoned
	Dead
)

func (s State) String() string {
	return [...]string{"free", "empty", "pending", "device", "poisoned", "dead"}[s]
}

// Buffer is a device buffer as the cells see it: a counted reference. Package runtime implements it.
type Buffer interface {
	Retain()
	Release()
	// Err is the failure of the program that was to fill the buffer, once that is known.
	Err() error
	// Donating reports that the user gave the buffer away: the next program that reads it takes it over.
	Donating() bool
	// Sharding says how the buffer lies on the devices of SPMD; nil without SPMD.
	Sharding() *sharding.Sharding
}

// Cell is the storage of an alias group.
type Cell struct {
	// Shape is the dense array that the storage holds; nil while Empty, unless a sharding waits for the first value.
	Shape *shape.Shape
	// Buf is the buffer of a Device cell.
	Buf Buffer
	// Sharding is how the user wants the value to lie on the devices, while it has Shape's dimensions; nil
	// where that is left to the compiler.
	Sharding *sharding.Sharding
	// Err is the cause of a Poisoned or Dead cell.
	Err error
	// Bytes is the size of the storage.
	Bytes int64
	// Value is the node of a Pending cell; of a Device cell, its leaf in the current graph or None.
	Value ir.ID
	// Origin is the leaf that held the storage's buffer before the first write of this graph: the buffer that
	// the new value may take over. It is the node of zeros that a new storage began with, if the graph has
	// written it since, and else None.
	Origin ir.ID
	// Dev is the device index.
	Dev int32
	// Writes counts the changes of the value.
	Writes uint32
	// Epoch is the graph that Value and Origin belong to.
	Epoch uint32
	State State
	gen   uint16
	dirty int32 // place in the dirty list + 1, 0 if not there
}

// Handle names a cell for as long as its storage lives. Bit 62 is set and the low 20 bits are zero. So no address
// inside a storage of any real size is mapped memory, and a stray access faults at once. Between them lie the slot (28
// bits) and a generation (14 bits), which tells a handle of a dead storage from its successor's.
type Handle uint64

const (
	handleMark = 1 << 62
	slotBits   = 28
	slotShift  = 20
	genShift   = slotShift + slotBits
	genMask    = 1<<14 - 1
)

func makeHandle(slot uint32, gen uint16) Handle {
	return Handle(handleMark | uint64(gen&genMask)<<genShift | uint64(slot)<<slotShift)
}

func (h Handle) slot() uint32 { return uint32(h>>slotShift) & (1<<slotBits - 1) }
func (h Handle) gen() uint16  { return uint16(h>>genShift) & genMask }
