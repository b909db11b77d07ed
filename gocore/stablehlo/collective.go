package stablehlo

import (
	"fmt"
	"strconv"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Groups say which devices take part in a collective.
type Groups struct {
	// Replica lists the members of each group. Without a Channel they are replica ids, with one replica ids of every
	// partition; with GlobalIDs, flattened ids (replica * partitions + partition). No groups at all: one group of
	// everybody.
	Replica [][]int64
	// Channel is a positive number that is the same on all devices; 0 is none (within replicas).
	Channel int64
	// GlobalIDs makes the ids flattened device ids; it needs a Channel.
	GlobalIDs bool
}

// size is the number of members of the first group, 0 if unknown.
func (g *Groups) size() int64 {
	if len(g.Replica) == 0 {
		return 0
	}
	return int64(len(g.Replica[0]))
}

func (b *Builder) attrGroups(g Groups) {
	cols := 0
	for _, r := range g.Replica {
		cols = max(cols, len(r))
	}
	b.attrMatrix("replica_groups", g.Replica, cols)
	b.attrChannel(g.Channel)
}

func (b *Builder) attrChannel(channel int64) {
	if channel > 0 {
		b.attrRaw("channel_handle", "#stablehlo.channel_handle<handle = ", strconv.FormatInt(channel, 10), ", type = 1>")
	}
}

// attrGlobal appends the unit attribute use_global_device_ids.
func (b *Builder) attrGlobal(g Groups) {
	if g.GlobalIDs {
		b.attrs = append(b.attrs, ", use_global_device_ids"...)
	}
}

func (b *Builder) groupsFit(op string, g Groups, xs ...Value) bool {
	if g.Channel < 0 || g.GlobalIDs && g.Channel == 0 {
		b.fail(op, fmt.Sprintf("channel %d does not fit", g.Channel), xs...)
		return false
	}
	return true
}

// AllReduce folds the values of all members of a group, for each of xs, which have one element type.
// XLA:CPU takes several operands only without a Channel.
func (b *Builder) AllReduce(xs []Value, g Groups, body Combiner) []Value {
	const op = "stablehlo.all_reduce"
	if len(xs) == 0 || !b.groupsFit(op, g, xs...) || !b.checkAll(op, xs) {
		return b.failAll(op, "no operands", xs)
	}
	d := xs[0].DType()
	for _, x := range xs {
		if x.DType() != d {
			return b.failAll(op, "operands differ in element type", xs)
		}
	}
	regions, ok := b.combiner(op, xs[:1], body)
	if !ok {
		return b.failAll(op, "", xs)
	}
	b.attrGroups(g)
	b.attrGlobal(g)
	return b.opN(op, xs, regions, shapesOf(xs))
}

// AllGather joins the values of all members along dim; shards is their number.
func (b *Builder) AllGather(x Value, dim, shards int64, g Groups) Value {
	const op = "stablehlo.all_gather"
	if !b.sharded(op, x, dim, shards, g) {
		return Value{s: x.s}
	}
	dims := append([]int64(nil), x.Dims()...)
	dims[dim] *= shards
	b.attrInt("all_gather_dim", dim)
	b.attrGroups(g)
	b.attrGlobal(g)
	return b.op1(op, shape.Of(x.DType(), dims), x)
}

func (b *Builder) sharded(op string, x Value, dim, shards int64, g Groups) bool {
	if !b.groupsFit(op, g, x) {
		return false
	}
	if dim < 0 || dim >= int64(x.Rank()) || shards < 1 || g.size() != 0 && g.size() != shards {
		b.fail(op, fmt.Sprintf("dimension %d among %d members does not fit", dim, shards), x)
		return false
	}
	return true
}

// ReduceScatter folds the values of all members and gives each its part along dim; shards is their
// number.
func (b *Builder) ReduceScatter(x Value, dim, shards int64, g Groups, body Combiner) Value {
	const op = "stablehlo.reduce_scatter"
	if !b.sharded(op, x, dim, shards, g) {
		return Value{s: x.s}
	}
	if x.Dims()[dim]%shards != 0 {
		return b.fail(op, fmt.Sprintf("dimension %d does not divide by %d", dim, shards), x)
	}
	dims := append([]int64(nil), x.Dims()...)
	dims[dim] /= shards
	var regions [][]byte
	if b.checkAll(op, []Value{x}) {
		regions, _ = b.combiner(op, []Value{x}, body)
	}
	b.attrInt("scatter_dimension", dim)
	b.attrGroups(g)
	b.attrGlobal(g)
	return b.emit(op, []Value{x}, regions, shape.Of(x.DType(), dims))
}

// AllToAll splits x along split into count parts, sends each member one, and joins what it gets
// along concat.
func (b *Builder) AllToAll(x Value, split, concat, count int64, g Groups) Value {
	const op = "stablehlo.all_to_all"
	if !b.sharded(op, x, split, count, g) || !b.sharded(op, x, concat, count, g) {
		return Value{s: x.s}
	}
	dims := append([]int64(nil), x.Dims()...)
	if dims[split]%count != 0 {
		return b.fail(op, fmt.Sprintf("dimension %d does not divide by %d", split, count), x)
	}
	dims[split] /= count
	dims[concat] *= count
	b.attrInt("split_dimension", split)
	b.attrInt("concat_dimension", concat)
	b.attrInt("split_count", count)
	b.attrGroups(g)
	return b.op1(op, shape.Of(x.DType(), dims), x)
}

// CollectivePermute sends x from the first of each pair to the second; who gets nothing has zeros.
func (b *Builder) CollectivePermute(x Value, pairs [][2]int64, channel int64) Value {
	const op = "stablehlo.collective_permute"
	rows := make([][]int64, len(pairs))
	for i := range pairs {
		rows[i] = pairs[i][:]
		for _, p := range pairs[:i] {
			if p[0] == pairs[i][0] || p[1] == pairs[i][1] {
				return b.fail(op, fmt.Sprintf("pairs %v name a device twice", pairs), x)
			}
		}
	}
	b.attrMatrix("source_target_pairs", rows, 2)
	b.attrChannel(channel)
	return b.op1(op, x.Shape(), x)
}

// CollectiveBroadcast gives every member the value of its group's first; others have zeros.
func (b *Builder) CollectiveBroadcast(x Value, g Groups) Value {
	const op = "stablehlo.collective_broadcast"
	if !b.groupsFit(op, g, x) {
		return Value{s: x.s}
	}
	b.attrGroups(g)
	return b.op1(op, x.Shape(), x)
}

// PartitionId is the number of the partition that runs the program, a ui32 of rank 0.
func (b *Builder) PartitionId() Value {
	return b.op1("stablehlo.partition_id", shape.Of(dtype.U32, nil))
}

// ReplicaId is the number of the replica that runs the program, a ui32 of rank 0.
func (b *Builder) ReplicaId() Value {
	return b.op1("stablehlo.replica_id", shape.Of(dtype.U32, nil))
}

// MeshAxis is a named axis of a mesh of devices.
type MeshAxis struct {
	Name string
	Size int64
}

type mesh struct {
	name string
	axes []MeshAxis
}

// Mesh defines a Shardy mesh that ShardySharding attributes refer to as @name.
func (b *Builder) Mesh(name string, axes ...MeshAxis) { b.meshes = append(b.meshes, mesh{name, axes}) }

// HasMesh reports that a mesh is defined: shardings are Shardy's.
func (b *Builder) HasMesh() bool { return len(b.meshes) > 0 }

func (m mesh) append(out []byte) []byte {
	out = append(out, "  sdy.mesh @"...)
	out = appendSymbol(out, m.name)
	out = append(out, " = <["...)
	for i, a := range m.axes {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendQuoted(out, a.Name)
		out = append(out, '=')
		out = strconv.AppendInt(out, a.Size, 10)
	}
	return append(out, "]>\n"...)
}

// ShardingConstraint fixes x's Shardy sharding; text is as for ShardySharding.
func (b *Builder) ShardingConstraint(x Value, text string) Value {
	b.attrRaw("sharding", "#sdy.sharding<", text, ">")
	return b.op1("sdy.sharding_constraint", x.Shape(), x)
}
