package alias

import (
	"iter"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// Leaf is a buffer that the current graph reads.
type Leaf struct {
	ID  ir.ID
	Buf Buffer
}

// Sharding is the buffer's; nil if there is none.
func (l Leaf) Sharding() *sharding.Sharding {
	if l.Buf == nil {
		return nil
	}
	return l.Buf.Sharding()
}

// Trace is the graph that is being recorded for one device, with the buffers it reads and the cells it
// changed.
type Trace struct {
	Graph ir.Graph
	// Leaves are the buffers behind the OpData nodes, in order of first use; attribute word 0 of such a
	// node is its place here, word 1 the hash of its sharding. The trace owns a reference to each.
	Leaves []Leaf
	// Dirty are the slots of the Pending cells, in the order in which they became so; 0 marks a gap.
	Dirty []uint32
	// Effects are the values that are computed even if no cell needs them: what a process exchanges with
	// others, who count on it.
	Effects []ir.ID
	// Partitions is the number of devices that SPMD spreads the graph over; 0 without SPMD.
	Partitions int
	// SweepAt is how many nodes the graph may have before it is worth a look for those that no one needs.
	SweepAt  int
	gaps     int
	epoch    uint32
	words    words
	operands []ir.ID
	perm     []int64
	dims     []int64
	need     []ir.ID // scratch of Compact
}

// Store is all cells of the process. It is not safe for concurrent use.
type Store struct {
	cells  []Cell // slot 0 is not used
	free   []uint32
	traces []Trace
	views  *strided.Cache
	live   int
}

// NewStore makes a store for a number of devices.
func NewStore(devices int) *Store {
	s := &Store{cells: make([]Cell, 1, 1024), traces: make([]Trace, devices),
		views: strided.NewCache(4096)}
	for i := range s.traces {
		s.traces[i].epoch = 1
	}
	return s
}

// Devices is the number of devices.
func (s *Store) Devices() int { return len(s.traces) }

// Trace is the recording of a device.
func (s *Store) Trace(dev int32) *Trace { return &s.traces[dev] }

// Live is the number of cells in use.
func (s *Store) Live() int { return s.live }

// New makes an Empty cell of a number of bytes. It is an errs.Runtime for a device that does not exist, and an
// errs.Memory if there are too many cells.
func (s *Store) New(bytes int64, dev int32) (Handle, error) {
	if dev < 0 || int(dev) >= len(s.traces) {
		return 0, errs.New(errs.Runtime, "xla:%d: there is no such device; this process has %d", dev, len(s.traces))
	}
	var slot uint32
	if n := len(s.free); n > 0 {
		slot = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		if len(s.cells) >= 1<<slotBits {
			return 0, errs.New(errs.Memory, "too many live tensors")
		}
		slot = uint32(len(s.cells))
		s.cells = append(s.cells, Cell{})
	}
	c := &s.cells[slot]
	*c = Cell{Bytes: bytes, Dev: dev, State: Empty, gen: c.gen}
	s.live++
	return makeHandle(slot, c.gen), nil
}

// Cell is the cell of a handle. The pointer is good until the next New. A handle of a storage that has
// died is an error.
func (s *Store) Cell(h Handle) (*Cell, error) {
	if slot := h.slot(); h&handleMark != 0 && int(slot) < len(s.cells) {
		if c := &s.cells[slot]; c.gen&genMask == h.gen() && c.State != Free {
			return c, nil
		}
	}
	return nil, errs.New(errs.Runtime, "stale or foreign storage handle %#x", uint64(h))
}

// Cells gives the cells in use. The store must not change meanwhile.
func (s *Store) Cells() iter.Seq[*Cell] {
	return func(yield func(*Cell) bool) {
		for i := range s.cells[1:] {
			if c := &s.cells[1+i]; c.State != Free && !yield(c) {
				return
			}
		}
	}
}

// At is the cell in a slot of a dirty list.
func (s *Store) At(slot uint32) *Cell { return &s.cells[slot] }

// Release frees the cell of a storage that has died. A stale handle is ignored: the storage is gone
// either way.
func (s *Store) Release(h Handle) {
	c, err := s.Cell(h)
	if err != nil {
		return
	}
	s.set(c, h.slot(), Free)
	c.gen++
	c.Shape, c.Sharding, c.Err = nil, nil, nil
	s.free = append(s.free, h.slot())
	s.live--
}

// set is the one transition of a cell: it releases what the old state held and keeps the dirty list.
func (s *Store) set(c *Cell, slot uint32, to State) {
	t := &s.traces[c.Dev]
	if c.State == Device && c.Buf != nil {
		c.Buf.Release()
		c.Buf = nil
	}
	switch {
	case to == Pending && c.dirty == 0:
		t.Dirty = append(t.Dirty, slot)
		c.dirty = int32(len(t.Dirty))
	case to != Pending && c.dirty != 0:
		t.Dirty[c.dirty-1] = 0
		c.dirty = 0
		t.gaps++
		if t.gaps > 64 && t.gaps > len(t.Dirty)/2 {
			s.squeeze(t)
		}
	}
	if to != Poisoned && to != Dead {
		c.Err = nil
	}
	if to != Pending {
		c.Value, c.Origin = ir.None, ir.None
	}
	c.State = to
	c.Writes++
}

// squeeze drops the gaps that cells left which died or were overwritten before a sync.
func (s *Store) squeeze(t *Trace) {
	kept := t.Dirty[:0]
	for _, slot := range t.Dirty {
		if slot != 0 {
			kept = append(kept, slot)
			s.cells[slot].dirty = int32(len(kept))
		}
	}
	t.Dirty, t.gaps = kept, 0
}

// SetPending gives the storage a recorded value, which covers all of it.
func (s *Store) SetPending(h Handle, c *Cell, v ir.ID) {
	t := &s.traces[c.Dev]
	origin := ir.None
	if c.Epoch == t.epoch {
		switch {
		case c.State == Device:
			origin = c.Value
		case c.State == Pending && c.Writes == 1 && t.Partitions == 0 && t.Graph.At(c.Value).Op == ir.OpZeros:
			origin = c.Value
			t.Dirty[c.dirty-1] = 0 // it is dirty from here on, as if it had held a buffer
			c.dirty = 0
			t.gaps++
		default:
			origin = c.Origin
		}
	}
	s.set(c, h.slot(), Pending)
	c.Value, c.Origin, c.Epoch = v, origin, t.epoch
	c.reshape(t.Graph.Shape(v))
}

// reshape sets the shape of a value that replaces the cell's. What the user said of the sharding holds for
// values of the same dimensions.
func (c *Cell) reshape(sh *shape.Shape) {
	if c.Sharding != nil && (c.Shape == nil || !slices.Equal(c.Shape.Dims, sh.Dims)) {
		c.Sharding = nil
	}
	c.Shape = sh
}

// SetDevice gives the storage a buffer of a shape; the cell takes over the caller's reference.
func (s *Store) SetDevice(slot uint32, sh *shape.Shape, buf Buffer) {
	c := &s.cells[slot]
	s.set(c, slot, Device)
	c.reshape(sh)
	c.Buf = buf
}

// SetFailed makes the cell Poisoned or Dead with a cause.
func (s *Store) SetFailed(slot uint32, to State, cause error) {
	c := &s.cells[slot]
	s.set(c, slot, to)
	c.Err = cause
}

// Slot is the slot of a live handle.
func (s *Store) Slot(h Handle) uint32 { return h.slot() }

// leaf is the OpData node of a Device cell in the current graph.
func (s *Store) leaf(c *Cell) ir.ID {
	t := &s.traces[c.Dev]
	if c.Epoch == t.epoch && c.Value != ir.None {
		return c.Value
	}
	c.Value = t.AddLeaf(c.Shape, c.Buf)
	c.Epoch, c.Origin = t.epoch, ir.None
	return c.Value
}

// LeafOf is the leaf of the current graph that is the storage's value, or was before the graph wrote the
// storage; None if the graph does not read it.
func (s *Store) LeafOf(h Handle) ir.ID {
	c, err := s.Cell(h)
	if err != nil || c.Epoch != s.traces[c.Dev].epoch {
		return ir.None
	}
	switch c.State {
	case Device:
		return c.Value
	case Pending:
		if s.traces[c.Dev].Graph.At(c.Origin).Op == ir.OpData {
			return c.Origin
		}
	}
	return ir.None
}

// Reached lists the storages of a device that the current graph reads or writes, without those of a list, in the order
// of their slots.
func (s *Store) Reached(dev int32, but []Handle) (out []Handle) {
	for i := range s.cells {
		c := &s.cells[i]
		h := makeHandle(uint32(i), c.gen)
		if c.Dev == dev && (c.State == Pending || c.State == Device && s.LeafOf(h) != ir.None) && !slices.Contains(but, h) {
			out = append(out, h)
		}
	}
	return out
}

// AddLeaf records that the graph reads a buffer.
func (t *Trace) AddLeaf(sh *shape.Shape, buf Buffer) ir.ID {
	attr := [2]int64{int64(len(t.Leaves))}
	words := attr[:1]
	var flags ir.Flags
	if s := buf.Sharding(); s != nil {
		attr[1] = int64(s.Hash)
		words = attr[:]
		if s.Kind == sharding.Manual {
			flags = ir.Manual
		}
	}
	buf.Retain()
	id := t.Graph.Add(ir.OpData, nil, words, sh, flags)
	t.Leaves = append(t.Leaves, Leaf{id, buf})
	return id
}

// MakeLeaf makes a leaf of a node without operands, whose value is in a buffer.
func (t *Trace) MakeLeaf(id ir.ID, buf Buffer) {
	buf.Retain()
	t.Graph.MakeLeaf(id, int64(len(t.Leaves)))
	t.Leaves = append(t.Leaves, Leaf{id, buf})
}

// Epoch is the number of the graph being recorded; it changes when the graph is flushed.
func (t *Trace) Epoch() uint32 { return t.epoch }

// Idle reports that no cell is Pending and that there are no effects: no one needs the graph.
func (t *Trace) Idle() bool { return t.gaps == len(t.Dirty) && len(t.Effects) == 0 }

// EndGraph ends the graph. The caller has moved every Pending cell to another state, or recorded it again. It owns the
// references of the leaves that it took.
func (t *Trace) EndGraph() {
	t.Graph.Reset()
	clear(t.Leaves)
	t.Leaves, t.Dirty, t.Effects, t.gaps = t.Leaves[:0], t.Dirty[:0], t.Effects[:0], 0
	t.SweepAt = 0
	t.epoch++
}

// Merge makes one device of all, for SPMD over a number of partitions: device 0, whose buffers move
// replaces. It is an error if another device has storages. No graph is being recorded.
func (s *Store) Merge(partitions int, move func(Buffer) (Buffer, error)) (err error) {
	for i := range s.cells {
		if c := &s.cells[i]; c.State != Free && c.Dev > 0 {
			return errs.New(errs.Runtime, "use_spmd: there are tensors on xla:%d; call it before, or keep to xla:0", c.Dev)
		}
	}
	moved := make(map[Buffer]Buffer)
	defer func() {
		for _, b := range moved {
			b.Release() // the cells have their own references
		}
	}()
	for i := range s.cells {
		if c := &s.cells[i]; c.State == Device && moved[c.Buf] == nil {
			to, err := move(c.Buf)
			if err != nil {
				return err
			}
			moved[c.Buf] = to
		}
	}
	for i := range s.cells {
		if c := &s.cells[i]; c.State == Device {
			to := moved[c.Buf]
			to.Retain()
			s.SetDevice(uint32(i), c.Shape, to)
		}
	}
	s.traces = s.traces[:1]
	s.traces[0].Partitions, s.traces[0].Graph.Local = partitions, true
	return nil
}
