package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// shardingRows are the ops of SPMD, in the order of the ir.Op constants from ir.OpAnnotate on. They are ops of torch's
// namespace torch_go_xla. The groups of a collective are lists of device numbers, one behind the other, of a size
// each. They are devices of this process with SPMD, without it one of each process.
var shardingRows = []Row{
	{Name: "torch_go_xla::annotate", Schema: "(Tensor self, str sharding, bool open=False) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			s, err := c.sharding(1, c.In(0).Dims)
			if err == nil {
				err = s.Markable()
			}
			if err == nil && c.Graph.Manual(c.ID(0)) {
				err = ErrLocal
			}
			if err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			sh := l.sharding(1)
			var open []int64
			if l.Bool(2) {
				open = undivided(sh, l.Out(0))
			}
			l.Return(place(l.B, "Sharding", l.In(0), l.Out(0), sh, open))
		}},
	{Name: "torch_go_xla::shard_to_full", Schema: "(Tensor self, str sharding, int[] size, str manual=\"{manual}\") -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			local, size := c.In(0), c.Ints(2)
			if _, err := c.even(1, 3, size, local.Dims); err != nil {
				return err
			}
			return c.Return(local.DType, size...)
		},
		Lower: func(l *Lowering) { l.Return(ShardToFull(l.B, l.In(0), l.sharding(1), l.sharding(3), l.Out(0))) }},
	{Name: "torch_go_xla::full_to_shard", Schema: "(Tensor self, str sharding, str manual=\"{manual}\") -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if c.Graph.Manual(c.ID(0)) {
				return errs.New(errs.Value, "full_to_shard: this tensor has a value of its own on each device already")
			}
			sh, err := c.even(1, 2, s.Dims, nil)
			if err != nil {
				return err
			}
			return c.Return(s.DType, sh.Local(s.Dims)...)
		},
		Lower: func(l *Lowering) {
			l.Return(FullToShard(l.B, l.In(0), l.sharding(1), l.sharding(2)))
		}},
	{Name: "torch_go_xla::all_reduce", Schema: "(Tensor self, str op, int[] groups, int size) -> Tensor", Internal: true, Collective: true, Exchanges: true,
		Infer: func(c *Ctx) error {
			if err := c.groups(2); err != nil {
				return err
			}
			if _, err := folding(c.Text(1), c.In(0).DType); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			x := l.exchanged()
			fold, _ := folding(l.Text(1), x.DType())
			if foldedHere(l.Text(1), x.DType()) {
				each := l.B.Reshape(x, append([]int64{1}, x.Dims()...))
				l.Return(folded(l.B, l.B.AllGather(each, 0, l.Int(3), l.groups(2)), fold))
				return
			}
			l.Return(l.averaged(l.B.AllReduce([]value{x}, l.groups(2), combined(fold))[0], 1, 3))
		}},
	{Name: "torch_go_xla::all_gather", Schema: "(Tensor self, int dim, int[] groups, int size) -> Tensor", Internal: true, Collective: true, Exchanges: true,
		Infer: func(c *Ctx) error {
			if err := c.groups(2); err != nil {
				return err
			}
			return c.resized(1, -1, 3)
		},
		Lower: func(l *Lowering) {
			x := l.exchanged()
			l.Return(l.B.AllGather(x, l.dim(1, x), l.Int(3), l.groups(2)))
		}},
	{Name: "torch_go_xla::reduce_scatter", Schema: "(Tensor self, str op, int dim, int[] groups, int size) -> Tensor", Internal: true, Collective: true, Exchanges: true,
		Infer: func(c *Ctx) error {
			if err := c.groups(3); err != nil {
				return err
			}
			if _, err := folding(c.Text(1), c.In(0).DType); err != nil {
				return err
			}
			return c.resized(-1, 2, 4)
		},
		Lower: func(l *Lowering) {
			x := l.exchanged()
			fold, _ := folding(l.Text(1), x.DType())
			if foldedHere(l.Text(1), x.DType()) {
				each := l.B.Reshape(x, append([]int64{1}, x.Dims()...))
				l.Return(folded(l.B, l.B.AllToAll(each, l.dim(2, x)+1, 0, l.Int(4), l.groups(3)), fold))
				return
			}
			l.Return(l.averaged(l.B.ReduceScatter(x, l.dim(2, x), l.Int(4), l.groups(3), combined(fold)), 1, 4))
		}},
	{Name: "torch_go_xla::all_to_all", Schema: "(Tensor self, int split_dim, int concat_dim, int[] groups, int size) -> Tensor", Internal: true, Collective: true, Exchanges: true,
		Infer: func(c *Ctx) error {
			if err := c.groups(3); err != nil {
				return err
			}
			return c.resized(2, 1, 4)
		},
		Lower: func(l *Lowering) {
			x := l.exchanged()
			l.Return(l.B.AllToAll(x, l.dim(1, x), l.dim(2, x), l.Int(4), l.groups(3)))
		}},
	{Name: "torch_go_xla::collective_permute", Schema: "(Tensor self, int[] pairs) -> Tensor", Internal: true, Collective: true, Exchanges: true,
		Infer: func(c *Ctx) error {
			if err := c.pairs(1); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			flat := l.Ints(1)
			pairs := make([][2]int64, len(flat)/2)
			for i := range pairs {
				pairs[i] = [2]int64{flat[2*i], flat[2*i+1]}
			}
			l.Return(l.B.CollectivePermute(l.exchanged(), pairs, l.groups(-1).Channel))
		}},
	{Name: "torch_go_xla::partition_id", Schema: "(Tensor like) -> Tensor", Internal: true, Collective: true, ShapeOnly: []int{0},
		Infer: func(c *Ctx) error {
			return c.Return(dtype.I64)
		},
		Lower: func(l *Lowering) {
			id := l.B.ReplicaId
			if l.B.Partitions() > 0 {
				id = l.B.PartitionId
			}
			l.Return(l.B.Convert(id(), dtype.I64))
		}},
}

// The errors of sharding without SPMD, and of sharding a local value.
var (
	ErrNoSPMD = errs.New(errs.Runtime, "sharding needs SPMD: call use_spmd() first")
	ErrLocal  = errs.New(errs.Value, "this tensor has a value of its own on each device and cannot be sharded; shard_to_full makes one value of them")
)

// sharding is a str argument as a sharding of an array of dimensions dims.
func (c *Ctx) sharding(i int, dims []int64) (*sharding.Sharding, error) {
	if c.Partitions == 0 {
		return nil, ErrNoSPMD
	}
	s, err := sharding.Parse(c.Text(i))
	if err != nil {
		return nil, err
	}
	return s, s.Check(c.Partitions, dims)
}

// even is a str argument as a sharding that divides dims into equal parts, of dimensions local unless nil. Argument m
// is the manual sharding of the parts.
func (c *Ctx) even(i, m int, dims, local []int64) (*sharding.Sharding, error) {
	s, err := c.sharding(i, dims)
	if err == nil {
		err = s.Markable()
	}
	var manual *sharding.Sharding
	if err == nil {
		manual, err = c.sharding(m, nil)
	}
	switch {
	case err != nil:
		return nil, err
	case manual.Kind != sharding.Manual:
		return nil, errs.New(errs.Value, "sharding %s is not manual", manual)
	case !s.Within(manual):
		return nil, errs.New(errs.Value, "sharding %s gives devices that share an array of %s different parts", s, manual)
	}
	part := s.Local(dims)
	for k, n := range part {
		if s.Kind == sharding.Tiled && n*s.Tiles[k] != dims[k] {
			return nil, errs.New(errs.Value, "sharding %s does not divide dimension %d of a tensor of sizes %s into equal parts", s, k, shape.TorchDims(dims))
		}
	}
	if local != nil && shape.Of(dtype.F32, part) != shape.Of(dtype.F32, local) {
		return nil, errs.New(errs.Value, "local values of sizes %s do not make a tensor of sizes %s sharded %s, whose parts have sizes %s",
			shape.TorchDims(local), shape.TorchDims(dims), s, shape.TorchDims(part))
	}
	return s, nil
}

// members is the number of devices that collectives are between: the partitions of SPMD, or a device of each
// process.
func (c *Ctx) members() int { return max(c.Partitions, c.Replicas, 1) }

// groups checks the groups of a collective, argument i with their size behind it: every device is in one.
func (c *Ctx) groups(i int) error {
	n := c.members()
	flat, size := c.Ints(i), c.Int(i+1)
	seen := make([]bool, n)
	for _, d := range flat {
		if d < 0 || d >= int64(n) || seen[d] {
			return errs.New(errs.Value, "the groups %v do not name each of %d devices once", flat, n)
		}
		seen[d] = true
	}
	if len(flat) != n || size < 1 || int64(len(flat))%size != 0 {
		return errs.New(errs.Value, "groups of %d devices, %v, do not divide %d devices", size, flat, n)
	}
	return nil
}

// pairs checks the pairs of a collective permute: each device sends and receives once at most.
func (c *Ctx) pairs(i int) error {
	n := c.members()
	flat := c.Ints(i)
	ok := len(flat)%2 == 0
	seen := make([]bool, 2*n)
	for k, d := range flat {
		if ok = ok && d >= 0 && d < int64(n) && !seen[2*d+int64(k%2)]; ok {
			seen[2*d+int64(k%2)] = true
		}
	}
	if !ok {
		return errs.New(errs.Value, "the pairs %v do not name each of %d devices as source and as target once at most", flat, n)
	}
	return nil
}

// resized returns the operand's shape with two dimensions changed by the size of the groups. The one that argument
// grow names is multiplied by it, the one that argument shrink names divided; -1 stands for no argument.
func (c *Ctx) resized(grow, shrink, size int) error {
	s, n := c.In(0), c.Int(size)
	dims := append([]int64(nil), s.Dims...)
	if len(dims) == 0 {
		return errs.New(errs.Runtime, "a collective along a dimension needs a tensor that has one")
	}
	if shrink >= 0 {
		d, err := c.Dim(c.Int(shrink), len(dims))
		if err != nil {
			return err
		}
		if dims[d]%n != 0 {
			return errs.New(errs.Runtime, "dimension %d of a tensor of sizes %s does not divide by %d devices", d, shape.TorchDims(s.Dims), n)
		}
		dims[d] /= n
	}
	if grow >= 0 {
		d, err := c.Dim(c.Int(grow), len(dims))
		if err != nil {
			return err
		}
		dims[d] *= n
	}
	return c.Return(s.DType, dims...)
}

// folding is the fold of a collective by torch's name of it; "avg" folds as "sum".
func folding(name string, d dtype.DType) (func(b *stablehlo.Builder, x, y value) value, error) {
	switch name {
	case "sum":
		return (*stablehlo.Builder).Add, nil
	case "avg":
		if d.IsFloat() || d.IsComplex() {
			return (*stablehlo.Builder).Add, nil
		}
		return nil, errs.New(errs.Runtime, "an average of %s values is not one", d.Torch())
	case "product":
		return (*stablehlo.Builder).Multiply, nil
	case "min":
		return (*stablehlo.Builder).Minimum, nil
	case "max":
		return (*stablehlo.Builder).Maximum, nil
	case "band", "bor", "bxor":
		if d.IsFloat() || d.IsComplex() {
			return nil, errs.New(errs.Runtime, "cannot fold by %q with a non-integral dtype, %s", name, d.Torch())
		}
		switch name {
		case "band":
			return (*stablehlo.Builder).And, nil
		case "bor":
			return (*stablehlo.Builder).Or, nil
		}
		return (*stablehlo.Builder).Xor, nil
	}
	return nil, errs.New(errs.Value, "a collective cannot fold by %q: want sum, avg, product, min, max, band, bor or bxor", name)
}

// foldedHere reports that a fold is none that XLA's collectives have: the values are exchanged and folded here.
func foldedHere(name string, d dtype.DType) bool {
	return name == "bxor" || d != dtype.Bool && (name == "band" || name == "bor")
}

// folded folds what the members of a group have, along dimension 0.
func folded(b *stablehlo.Builder, all value, fold func(b *stablehlo.Builder, x, y value) value) value {
	var result value
	for i := range all.Dims()[0] {
		part := b.Reshape(b.SliceDim(all, 0, i, i+1, 1), all.Dims()[1:])
		if i == 0 {
			result = part
		} else {
			result = fold(b, result, part)
		}
	}
	return result
}

func combined(fold func(b *stablehlo.Builder, x, y value) value) stablehlo.Combiner {
	return func(b *stablehlo.Builder, x, y []value) []value { return []value{fold(b, x[0], y[0])} }
}

// exchanged is the operand of a collective.
func (l *Lowering) exchanged() value { return l.Src.Exchanged(l.Node, l.In(0)) }

// averaged divides a sum by the size of the groups if argument op says "avg".
func (l *Lowering) averaged(v value, op, size int) value {
	if l.Text(op) != "avg" {
		return v
	}
	return l.B.Divide(v, l.B.ConstLike(v, float64(l.Int(size))))
}

// groups is argument i, a flat list with the size of the groups behind it, as groups of partitions, or of
// replicas without SPMD; -1 stands for no argument.
func (l *Lowering) groups(i int) stablehlo.Groups {
	var g stablehlo.Groups
	if l.B.Partitions() > 0 {
		g.Channel, g.GlobalIDs = l.Src.Channel(), true
	}
	if i >= 0 {
		flat, size := l.Ints(i), l.Int(i+1)
		for ; len(flat) > 0; flat = flat[size:] {
			g.Replica = append(g.Replica, flat[:size])
		}
	}
	return g
}

// dim is argument i as a dimension of x, counted from the front.
func (l *Lowering) dim(i int, x value) int64 {
	d := l.Int(i)
	if d < 0 {
		d += int64(x.Rank())
	}
	return d
}

// sharding is argument i, which the shape rule has checked.
func (l *Lowering) sharding(i int) *sharding.Sharding {
	s, err := sharding.Parse(l.Text(i))
	if err != nil {
		l.B.Failf("sharding", nil, "%v", err)
		return sharding.Everywhere
	}
	return s
}

// ForShardy makes a module one that Shardy partitions, over n devices.
func ForShardy(b *stablehlo.Builder, n int) {
	var axes []stablehlo.MeshAxis
	for _, a := range sharding.Axes(n) {
		axes = append(axes, stablehlo.MeshAxis{Name: a.Name, Size: a.Size})
	}
	b.Mesh("mesh", axes...)
}

// ShardingAttr is the sharding of a parameter or result of shape s.
func ShardingAttr(b *stablehlo.Builder, sh *sharding.Sharding, s *shape.Shape) stablehlo.Attr {
	if b.HasMesh() {
		return stablehlo.ShardySharding(shardyText(b, sh, s, nil))
	}
	return stablehlo.Sharding(sh.HLO(s.Rank()))
}

func shardyText(b *stablehlo.Builder, sh *sharding.Sharding, s *shape.Shape, open []int64) string {
	text, ok := sh.Shardy(s.Dims, open)
	if !ok {
		b.Failf("sharding", nil, "Shardy has no sharding %s of %s", sh, s)
	}
	return text
}

// Annotated is x with a sharding.
func Annotated(b *stablehlo.Builder, x value, sh *sharding.Sharding) value {
	return place(b, "Sharding", x, x.Shape(), sh, nil)
}

// FullToShard is the local values of x, sharded sh, on the devices of manual sharding m. How the devices that share
// a local value divide it, the partitioner finds out on both sides.
func FullToShard(b *stablehlo.Builder, x value, sh, m *sharding.Sharding) value {
	if m == sharding.PerDevice {
		return fullToShard(b, x, sh, m, nil)
	}
	return fullToShard(b, x, sh, m, undivided(sh, x.Shape()))
}

func fullToShard(b *stablehlo.Builder, x value, sh, m *sharding.Sharding, open []int64) value {
	x = place(b, "Sharding", x, x.Shape(), sh, open)
	return place(b, "SPMDFullToShardShape", x, shape.Of(x.DType(), sh.Local(x.Dims())), m, open)
}

// ShardToFull is one value, sharded sh, of the local values x of manual sharding m.
func ShardToFull(b *stablehlo.Builder, x value, sh, m *sharding.Sharding, full *shape.Shape) value {
	var open []int64
	if m != sharding.PerDevice {
		open = undivided(sh, full)
	}
	return place(b, "SPMDShardToFullShape", place(b, "Sharding", x, x.Shape(), m, open), full, sh, open)
}

// Entered is a local value, of manual sharding m, that is x on every device.
func Entered(b *stablehlo.Builder, x value, m *sharding.Sharding) value {
	return FullToShard(b, x, sharding.Everywhere, m)
}

// Local is the marking of operations on local values of manual sharding m. Where devices share a value, the
// partitioner finds out how they divide it: it takes what is marked as it stands.
func Local(b *stablehlo.Builder, m *sharding.Sharding) *stablehlo.Marking {
	mark := &stablehlo.Marking{Constant: func(x value) value { return fullToShard(b, x, sharding.Everywhere, m, nil) }}
	if m == sharding.PerDevice {
		mark.Sharding = m.String()
		return mark
	}
	mark.Apart = &stablehlo.Apart{
		Mark:  Local(b, sharding.PerDevice),
		Into:  func(x value) value { return relocated(b, x, m, sharding.PerDevice, m) },
		OutOf: func(x value) value { return relocated(b, x, sharding.PerDevice, m, m) },
	}
	return mark
}

// relocated is local values of manual sharding from as those of manual sharding to. It goes by way of the array whose
// rows they are: one a group of devices of manual sharding groups.
func relocated(b *stablehlo.Builder, x value, from, to, groups *sharding.Sharding) value {
	dims := slices.Clone(groups.Local(x.Dims()))
	rows := groups.Rows(len(dims), b.Partitions())
	row := b.Reshape(x, dims)
	dims[0] *= rows.Tiles[0]
	all := ShardToFull(b, row, rows, from, shape.Of(x.DType(), dims))
	return b.Reshape(FullToShard(b, all, rows, to), x.Dims())
}

// undivided is the dimensions of an array that a sharding does not tile. Only those the partitioner may divide
// further. Of the others it would take the tiling that it finds for its own, and then the two contradict each other.
func undivided(sh *sharding.Sharding, s *shape.Shape) []int64 {
	var dims []int64
	for d := range int64(s.Rank()) {
		if sh.Kind != sharding.Tiled || sh.Tiles[d] == 1 {
			dims = append(dims, d)
		}
	}
	return dims
}

// place is a custom call of GSPMD's with a sharding, or Shardy's constraint. It may divide the dimensions open further.
func place(b *stablehlo.Builder, target string, x value, out *shape.Shape, sh *sharding.Sharding, open []int64) value {
	if b.HasMesh() {
		return b.ShardingConstraint(x, shardyText(b, sh, out, open))
	}
	defer b.Mark(b.Mark(nil))
	o := stablehlo.CustomCallOptions{Attrs: []stablehlo.Attr{stablehlo.Sharding(sh.HLO(out.Rank()))}}
	if len(open) > 0 {
		o.BackendConfig = "unspecified_dims=" + shape.Dims(open)
	}
	return b.CustomCall(target, []value{x}, []*shape.Shape{out}, o)[0]
}
