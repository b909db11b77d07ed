package hlo

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

// message writes fields: a number, text, another message, or []int64 for packed numbers.
func message(parts ...any) []byte {
	var m []byte
	for i := 0; i < len(parts); i += 2 {
		number := uint64(parts[i].(int))
		switch v := parts[i+1].(type) {
		case int:
			m = binary.AppendUvarint(binary.AppendUvarint(m, number<<3), uint64(v))
			continue
		case string:
			m = bytesField(m, number, []byte(v))
		case []byte:
			m = bytesField(m, number, v)
		case []int64:
			var packed []byte
			for _, x := range v {
				packed = binary.AppendUvarint(packed, uint64(x))
			}
			m = bytesField(m, number, packed)
		}
	}
	return m
}

func bytesField(m []byte, number uint64, v []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(m, number<<3|2), uint64(len(v))), v...)
}

func TestResults(t *testing.T) {
	rows := message(shardingType, typeOther, shardingTiles, []int64{4, 1}, shardingIota, []int64{4}, shardingTranspose, []int64{0})
	for _, tc := range []struct {
		name     string
		sharding []byte
		want     string
	}{
		{"one", rows, "[{devices=[4,1]<=[4]}]"},
		{"replicated", nil, "[{replicated}]"},
		{"maximal", message(shardingType, typeMaximal, shardingDevices, []int64{2}), "[{maximal device=2}]"},
		{"tuple", message(shardingType, typeTuple, shardingTuple, rows, shardingTuple, "",
			shardingTuple, message(shardingType, typeOther, shardingTiles, []int64{2, 1, 2}, shardingDevices, []int64{0, 1, 2, 3}, shardingPartial, 1),
			shardingTuple, message(shardingType, typeOther, shardingTiles, []int64{2, 2}, shardingSubgroups, []int64{0}, shardingIota, []int64{2, 2}, shardingTranspose, []int64{1, 0})),
			"[{devices=[4,1]<=[4]} {replicated} {devices=[2,1,2]<=[4] last_tile_dim_replicate} {devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}]"},
	} {
		got, err := Results(message(1, "name", moduleSharding, tc.sharding, 20, 7))
		if err != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
	for _, bad := range [][]byte{nil, message(1, "name"),
		message(moduleSharding, message(shardingType, typeOther, shardingTiles, []int64{4, 1})),
		message(moduleSharding, message(shardingType, typeOther, shardingTiles, []int64{1, 4}, shardingSubgroups, []int64{4}, shardingIota, []int64{4}, shardingTranspose, []int64{0}))} {
		if got, err := Results(bad); err == nil {
			t.Errorf("%x: %v", bad, got)
		}
	}
}

func TestModule(t *testing.T) {
	m := message(1, "name")
	if got, err := Module(m, "hlo"); err != nil || string(got) != string(m) {
		t.Error(got, err)
	}
	if got, err := Module(message(1, m, 2, "config"), "hlo_with_config"); err != nil || string(got) != string(m) {
		t.Error(got, err)
	}
	for _, format := range []string{"mlir", "hlo_with_config"} {
		if _, err := Module(nil, format); err == nil {
			t.Errorf("%s can be read", format)
		}
	}
}

func TestCollectives(t *testing.T) {
	f32 := message(shapeType, 11, shapeDims, []int64{8, 4})
	op := func(kind string, shape []byte, more ...any) []byte {
		return message(append([]any{1, "name", instructionOpcode, kind, instructionShape, shape}, more...)...)
	}
	iota := message(iotaGroups, 2, iotaSize, 2, iotaDims, []int64{2, 2}, iotaTranspose, []int64{1, 0})
	module := message(1, "name", moduleComputations, message(
		computationInstructions, op("add", f32),
		computationInstructions, op("all-reduce", message(shapeType, 13, shapeTuple, f32, shapeTuple, message(shapeType, 16)),
			instructionGroups, message(groupIDs, []int64{0, 1}), instructionGroups, message(groupIDs, []int64{2, 3})),
		computationInstructions, op("all-gather", f32, instructionDeviceList, message(deviceListIota, iota)),
	), moduleComputations, message(
		computationInstructions, op("all-gather-start", message(shapeType, 13, shapeTuple, message(shapeType, 11, shapeDims, []int64{2, 4}), shapeTuple, f32),
			instructionIotaList, iota),
		computationInstructions, op("all-gather-done", f32),
		computationInstructions, op("collective-permute", f32, instructionPairs, message(2, 1), instructionPairs, message(1, 1)),
		computationInstructions, op("reduce-scatter", f32, instructionDeviceList, message(deviceListGroups, message(groupIDs, []int64{1, 0}))),
	))
	want := []Collective{
		{"all-reduce", []string{"f32[8,4]", "bf16[]"}, 130, [][]int64{{0, 1}, {2, 3}}},
		{"all-gather", []string{"f32[8,4]"}, 128, [][]int64{{0, 2}, {1, 3}}},
		{"all-gather", []string{"f32[8,4]"}, 128, [][]int64{{0, 2}, {1, 3}}},
		{"collective-permute", []string{"f32[8,4]"}, 128, [][]int64{{0, 1}, {1, 0}}},
		{"reduce-scatter", []string{"f32[8,4]"}, 128, [][]int64{{1, 0}}},
	}
	got := Collectives(module)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestProgram(t *testing.T) {
	f32 := message(shapeType, 11, shapeDims, []int64{8, 4}, shapeLayout, message(layoutOrder, []int64{1, 0}))
	host := message(shapeType, 11, shapeDims, []int64{4}, shapeLayout, message(layoutOrder, []int64{0}, layoutMemory, hostMemory))
	module := message(moduleName, "step", moduleEntry, 2,
		moduleComputations, message(computationName, "fused", computationID, 1, computationRoot, 1, computationInstructions,
			message(instructionName, "p", instructionOpcode, "parameter", instructionShape, f32, instructionID, 1)),
		moduleComputations, message(computationName, "main", computationID, 2, computationRoot, 13,
			computationInstructions, message(instructionName, "a", instructionOpcode, "parameter", instructionShape, f32, instructionID, 10, instructionParameter, 1),
			computationInstructions, message(instructionName, "f", instructionOpcode, "fusion", instructionShape, f32, instructionID, 11,
				instructionOperands, []int64{10}, instructionCalls, []int64{1}, instructionFusion, "kLoop"),
			computationInstructions, message(instructionName, "c", instructionOpcode, "custom-call", instructionShape,
				message(shapeType, 13, shapeTuple, f32, shapeTuple, host), instructionID, 12, instructionOperands, []int64{11}, instructionTarget, "__cublas$gemm"),
			computationInstructions, message(instructionName, "g", instructionOpcode, "get-tuple-element", instructionShape, f32, instructionID, 13, instructionOperands, []int64{12})),
		moduleAliases, message(aliasEntries, message(aliasResultIndex, []int64{2}, aliasParameter, 1, aliasKind, 2)))
	got := Read(module)
	want := &Program{Name: "step", Ops: map[string]int{"parameter": 2, "fusion": 1, "custom-call": 1, "get-tuple-element": 1},
		CustomCalls: map[string]int{"__cublas$gemm": 1}, Collectives: []Collective{}, Aliases: []Alias{{[]int64{2}, 1, true}}, HostTransfers: []string{"c"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	const text = `HloModule step

%fused {
  ROOT %p = f32[8,4]{1,0} parameter(0)
}

ENTRY %main {
  %a = f32[8,4]{1,0} parameter(1)
  %f = f32[8,4]{1,0} fusion(%a), kind=kLoop, calls={%fused}
  %c = (f32[8,4]{1,0}, f32[4]{0:S(5)}) custom-call(%f), custom_call_target="__cublas$gemm"
  ROOT %g = f32[8,4]{1,0} get-tuple-element(%c), index=0
}
`
	if got := Text(module); got != text {
		t.Errorf("%s", got)
	}
}

// FuzzModule reads any bytes without harm.
func FuzzModule(f *testing.F) {
	f.Add(message(moduleSharding, message(shardingType, typeOther, shardingTiles, []int64{4, 1}, shardingIota, []int64{4}, shardingTranspose, []int64{0})))
	f.Add(message(moduleComputations, message(computationInstructions, message(instructionOpcode, "all-reduce", instructionShape, message(shapeType, 11)))))
	f.Fuzz(func(_ *testing.T, m []byte) {
		_, _ = Results(m)
		Collectives(m)
		_, _ = Module(m, "hlo_with_config")
		Read(m)
		Text(m)
	})
}

func TestCollectivesComeInTheOrderOfTheSchedule(t *testing.T) {
	op := func(kind string, id int) []byte {
		return message(instructionOpcode, kind, instructionID, id, instructionShape, message(shapeType, 11))
	}
	module := message(moduleComputations, message(
		computationInstructions, op("all-reduce", 7), computationInstructions, op("add", 8), computationInstructions, op("all-gather", 9)),
		moduleSchedule, message(1, message(1, 3, 2, message(1, []int64{9, 8, 7}))))
	got := Collectives(module)
	if len(got) != 2 || got[0].Kind != "all-gather" || got[1].Kind != "all-reduce" {
		t.Errorf("%+v", got)
	}
}

func TestEachElementTypeHasItsNumber(t *testing.T) {
	if len(primitive) != int(dtype.Count)-1 {
		t.Errorf("%d numbers of %d element types: two have the same", len(primitive), dtype.Count-1)
	}
	// As in xla_data.proto.
	for number, want := range map[uint64]dtype.DType{1: dtype.Bool, 11: dtype.F32, 16: dtype.BF16, 18: dtype.C128, 20: dtype.F8E4M3FN, 33: dtype.F8E8M0FNU} {
		if primitive[number] != want {
			t.Errorf("number %d is %s, want %s", number, primitive[number], want)
		}
	}
}
