package hlo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// Collective is an exchange of data between devices.
type Collective struct {
	// Kind is the HLO op: all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute,
	// collective-broadcast.
	Kind string `json:"kind"`
	// Shapes are those of the results on one device; several where the compiler has combined some.
	Shapes []string `json:"shapes"`
	// Bytes is the size of the results on one device.
	Bytes int64 `json:"bytes"`
	// Groups are the devices that exchange data with each other; none at all: all of them. For a permute,
	// the pairs of source and target.
	Groups [][]int64 `json:"groups"`
}

var collectiveKinds = []string{"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
	"collective-permute", "collective-broadcast"}

// Fields of HloComputationProto, HloInstructionProto and ShapeProto, and of the messages in them.
const (
	computationInstructions = 2

	instructionOpcode     = 2
	instructionShape      = 3
	instructionID         = 35
	instructionGroups     = 49
	instructionPairs      = 52
	instructionDeviceList = 87
	instructionIotaList   = 92

	shapeType  = 2
	shapeDims  = 3
	shapeTuple = 4

	deviceListGroups = 1
	deviceListIota   = 2

	groupIDs = 1

	iotaGroups    = 1
	iotaSize      = 2
	iotaDims      = 3
	iotaTranspose = 4
)

// Collectives lists those of a module, in the order in which the compiler has scheduled them, or as they
// stand if it has not. An asynchronous one counts once, where it starts.
func Collectives(module []byte) []Collective {
	type instruction struct {
		Collective
		turn int
	}
	var found []instruction
	turn := schedule(module)
	for c := range fields(module) {
		if c.number != moduleComputations {
			continue
		}
		for i := range fields(c.bytes) {
			if i.number != computationInstructions {
				continue
			}
			if x, id, ok := collective(i.bytes); ok {
				found = append(found, instruction{x, turn[id]})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b instruction) int { return cmp.Compare(a.turn, b.turn) })
	var all []Collective
	for _, x := range found {
		all = append(all, x.Collective)
	}
	return all
}

// schedule is the place of each instruction in its computation's sequence, by the instruction's number;
// computations count one behind the other.
func schedule(module []byte) map[int64]int {
	turn := make(map[int64]int)
	for f := range fields(module) {
		if f.number != moduleSchedule {
			continue
		}
		for entry := range fields(f.bytes) { // a map from the computation's number to the sequence
			for sequence := range fields(entry.bytes) {
				if sequence.number != 2 {
					continue
				}
				for list := range fields(sequence.bytes) {
					for _, id := range list.ints(nil) {
						turn[id] = len(turn) + 1
					}
				}
			}
		}
	}
	return turn
}

// collective reads an instruction and its number; ok is false if it is not one.
func collective(m []byte) (c Collective, id int64, ok bool) {
	for f := range fields(m) {
		switch f.number {
		case instructionOpcode:
			kind, started := strings.CutSuffix(string(f.bytes), "-start")
			if !slices.Contains(collectiveKinds, kind) {
				return c, 0, false
			}
			c.Kind, ok = kind, true
			if started {
				defer func() { c.lastHalf() }()
			}
		case instructionID:
			id = int64(f.value)
		case instructionShape:
			c.result(f.bytes)
		case instructionGroups:
			c.Groups = append(c.Groups, group(f.bytes))
		case instructionPairs:
			var pair [2]int64
			for g := range fields(f.bytes) {
				if g.number == 1 || g.number == 2 {
					pair[g.number-1] = int64(g.value)
				}
			}
			c.Groups = append(c.Groups, pair[:])
		case instructionDeviceList:
			for g := range fields(f.bytes) {
				switch g.number {
				case deviceListGroups:
					c.Groups = append(c.Groups, group(g.bytes))
				case deviceListIota:
					c.Groups = counted(g.bytes)
				}
			}
		case instructionIotaList:
			c.Groups = counted(f.bytes)
		}
	}
	return c, id, ok
}

// lastHalf keeps the results of a started collective, whose shape has the operands before them.
func (c *Collective) lastHalf() {
	if n := len(c.Shapes); n > 1 && n%2 == 0 {
		c.Shapes = c.Shapes[n/2:]
	}
	c.Bytes = 0
	for _, text := range c.Shapes {
		if s, ok := shape.Parse(text); ok {
			c.Bytes += s.Bytes()
		}
	}
}

// result adds the shape of a result, or those of a tuple.
func (c *Collective) result(m []byte) {
	var kind dtype.DType
	var dims []int64
	tuple := false
	for f := range fields(m) {
		switch f.number {
		case shapeType:
			kind = primitive[f.value]
		case shapeDims:
			dims = f.ints(dims)
		case shapeTuple:
			tuple = true
			c.result(f.bytes)
		}
	}
	if !tuple && kind != dtype.Invalid {
		s := shape.Of(kind, dims)
		c.Shapes = append(c.Shapes, s.String())
		c.Bytes += s.Bytes()
	}
}

// primitive is the element types by their number in xla_data.proto's PrimitiveType.
var primitive = func() map[uint64]dtype.DType {
	m := make(map[uint64]dtype.DType)
	for d := dtype.Invalid + 1; d < dtype.Count; d++ {
		m[uint64(dtype.Buffers[d.PJRT()].XLA)] = d
	}
	return m
}()

func group(m []byte) (ids []int64) {
	for f := range fields(m) {
		if f.number == groupIDs {
			ids = f.ints(ids)
		}
	}
	return ids
}

// counted is the groups of an IotaReplicaGroupListProto.
func counted(m []byte) (groups [][]int64) {
	var n, size int64
	var dims, perm []int64
	for f := range fields(m) {
		switch f.number {
		case iotaGroups:
			n = int64(f.value)
		case iotaSize:
			size = int64(f.value)
		case iotaDims:
			dims = f.ints(dims)
		case iotaTranspose:
			perm = f.ints(perm)
		}
	}
	if len(perm) != len(dims) {
		return nil
	}
	ids := sharding.Iota(dims, perm)
	if size < 1 || int64(len(ids)) != n*size {
		return nil
	}
	return slices.Collect(slices.Chunk(ids, int(size)))
}
