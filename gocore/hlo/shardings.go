package hlo

import (
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// Fields of HloModuleProto.
const (
	moduleComputations = 3
	moduleSchedule     = 7
	moduleSharding     = 12 // spmd_output_sharding
)

// Fields of OpSharding, and its types.
const (
	shardingType      = 1
	shardingTiles     = 3
	shardingDevices   = 4
	shardingTuple     = 5
	shardingPartial   = 6
	shardingSubgroups = 8
	shardingIota      = 9
	shardingTranspose = 10

	typeMaximal = 1
	typeTuple   = 2
	typeOther   = 3
	typeManual  = 4
)

// Results is the shardings of a partitioned module's results; an error of kind Compile if the module does not have
// them.
func Results(module []byte) ([]*sharding.Sharding, error) {
	for f := range fields(module) {
		if f.number != moduleSharding {
			continue
		}
		one, tuple, err := opSharding(f.bytes)
		if err != nil || tuple != nil {
			return tuple, err
		}
		return []*sharding.Sharding{one}, nil
	}
	return nil, errs.New(errs.Compile, "the compiler does not say how the results are sharded")
}

// opSharding reads an OpSharding: one, or those of a tuple.
func opSharding(m []byte) (one *sharding.Sharding, tuple []*sharding.Sharding, err error) {
	var kind uint64
	var tiles, devices, iota, perm, subgroups []int64
	var partial bool
	for f := range fields(m) {
		switch f.number {
		case shardingType:
			kind = f.value
		case shardingTiles:
			tiles = f.ints(tiles)
		case shardingDevices:
			devices = f.ints(devices)
		case shardingIota:
			iota = f.ints(iota)
		case shardingTranspose:
			perm = f.ints(perm)
		case shardingSubgroups:
			subgroups = f.ints(subgroups)
		case shardingPartial:
			partial = f.value != 0
		case shardingTuple:
			s, _, err := opSharding(f.bytes)
			if err != nil {
				return nil, nil, err
			}
			tuple = append(tuple, s)
		}
	}
	text := "{replicated}"
	switch kind {
	case typeTuple:
		return nil, tuple, nil
	case typeManual:
		text = "{manual}"
	case typeMaximal:
		text = "{maximal device=" + commas(devices) + "}"
	case typeOther:
		text = "{devices=" + shape.Dims(tiles)
		if len(iota) > 0 {
			text += "<=" + shape.Dims(iota) + "T(" + commas(perm) + ")"
		} else {
			text += commas(devices)
		}
		switch {
		case partial || len(subgroups) == 1 && subgroups[0] == 0:
			text += " last_tile_dim_replicate"
		case len(subgroups) > 0:
			text += fmt.Sprintf(" subgroups %v", subgroups)
		}
		text += "}"
	}
	one, err = sharding.Parse(text)
	return one, nil, err
}

func commas(x []int64) string { return strings.Trim(shape.Dims(x), "[]") }
