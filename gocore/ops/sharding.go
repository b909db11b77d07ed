package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// shardingRows are the ops of SPMD, in the order of the ir.Op constants from ir.OpAnnotate on. They are ops
// of torch's namespace torch_go_xla.
var shardingRows = []Row{
	{Name: "torch_go_xla::annotate", Schema: "(Tensor self, str sharding) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			s, err := c.sharding(1, c.In(0).Dims)
			if err == nil {
				err = s.Markable()
			}
			if err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) { l.Return(sharded(l.B, l.In(0), l.Text(1))) }},
}

// sharding is a str argument as a sharding of an array of dimensions dims.
func (c *Ctx) sharding(i int, dims []int64) (*sharding.Sharding, error) {
	if c.Partitions == 0 {
		return nil, errs.New(errs.Runtime, "sharding needs SPMD: call use_spmd() first")
	}
	s, err := sharding.Parse(c.Text(i))
	if err != nil {
		return nil, err
	}
	return s, s.Check(c.Partitions, dims)
}

// sharded is x with the sharding that a text says.
func sharded(b *stablehlo.Builder, x value, text string) value {
	out := b.CustomCall("Sharding", []value{x}, []*shape.Shape{x.Shape()},
		stablehlo.CustomCallOptions{Attrs: []stablehlo.Attr{stablehlo.Sharding(text)}})
	return out[0]
}
