// Package sharding says how an array lies on the devices of a program: in GSPMD's terms and text form.
//
//	{replicated}                                           every device holds all of it
//	{maximal device=1}                                     one device holds it
//	{devices=[2,4]<=[8]}                                   2 × 4 tiles, one a device
//	{devices=[2,4]<=[4,2]T(1,0)}                           the devices in another order
//	{devices=[2,1,4]<=[8] last_tile_dim_replicate}         2 × 1 tiles, each on 4 devices
//	{manual}                                               every device holds an array of its own
//	{manual devices=[4,2]<=[2,4]T(1,0)}                    4 arrays, each divided between 2 devices as the compiler likes
//
// Tiles have one size on all devices, the dimension divided by their number and rounded up. If an array does not
// divide, the last ones reach past its end, where their content means nothing.
//
// A *Sharding is immutable and unique in the process: two shardings place every array alike exactly when
// their pointers are equal. The package imports only errs.
package sharding

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Kind is the form of a sharding.
type Kind uint8

// The kinds.
const (
	Replicated Kind = iota
	Maximal
	Tiled
	Manual
)

// Sharding is a placement. Get one from Parse; never write to its fields.
type Sharding struct {
	Kind Kind
	// Tiles is the number of tiles by dimension of the array; for Manual that of the arrays, nil if each device
	// has one; else nil.
	Tiles []int64
	// Copies is the number of devices that hold each tile, or that one of Manual's arrays is divided between.
	Copies int64
	// Devices lists the devices tile by tile in row-major order, and for each tile its copies; for
	// Maximal, the one device; for Manual array by array, nil if each device has one.
	Devices []int64
	// Hash is a hash of the content, the same in every process.
	Hash uint64

	text  string
	place []int64 // by device: where it stands in Devices, if all do
}

var table struct {
	sync.RWMutex                      // guards the fields below; they only grow
	byText       map[string]*Sharding // canonical and other texts
}

// The shardings without parameters.
var (
	Everywhere = intern(&Sharding{Kind: Replicated}) // {replicated}
	PerDevice  = intern(&Sharding{Kind: Manual})     // {manual}
)

// intern returns the sharding of equal content that is known, or s.
func intern(s *Sharding) *Sharding {
	s.text = s.print()
	table.Lock()
	defer table.Unlock()
	if known, ok := table.byText[s.text]; ok {
		return known
	}
	if table.byText == nil {
		table.byText = make(map[string]*Sharding)
	}
	s.Hash = hash(s.text)
	if s.Kind != Maximal && s.Devices != nil {
		s.place = make([]int64, len(s.Devices))
		for i, d := range s.Devices {
			s.place[d] = int64(i)
		}
	}
	table.byText[s.text] = s
	return s
}

func hash(text string) uint64 {
	h := uint64(1469598103934665603)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// tiled is the sharding of a tile assignment whose devices are a permutation of 0 … n-1. It is
// Everywhere if there is one tile.
func tiled(tiles []int64, copies int64, devices []int64) *Sharding {
	if product(tiles) == 1 {
		return Everywhere
	}
	return intern(&Sharding{Kind: Tiled, Tiles: slices.Clone(tiles), Copies: copies, Devices: inOrder(devices, copies)})
}

// grouped is the manual sharding of as many arrays as there are groups of devices. It is PerDevice if the groups
// are single devices.
func grouped(groups, size int64, devices []int64) *Sharding {
	if size == 1 {
		return PerDevice
	}
	sets := slices.Collect(slices.Chunk(inOrder(devices, size), int(size)))
	slices.SortFunc(sets, func(a, b []int64) int { return int(a[0] - b[0]) }) // which array is which makes none either
	return intern(&Sharding{Kind: Manual, Tiles: []int64{groups}, Copies: size, Devices: slices.Concat(sets...)})
}

// inOrder is a list of devices with each group of a size in ascending order: which copy is which makes no
// difference.
func inOrder(devices []int64, size int64) []int64 {
	devices = slices.Clone(devices)
	for i := int64(0); i < int64(len(devices)); i += size {
		slices.Sort(devices[i : i+size])
	}
	return devices
}

// Rows is how the arrays of a manual sharding, of n devices, are the rows of one, of rank dimensions: dimension 0 is
// tiled.
func (s *Sharding) Rows(rank, n int) *Sharding {
	tiles := slices.Repeat([]int64{1}, rank)
	if s != PerDevice {
		tiles[0] = s.Tiles[0]
		return tiled(tiles, s.Copies, s.Devices)
	}
	tiles[0] = int64(n)
	return tiled(tiles, 1, Iota(tiles[:1], []int64{0}))
}

// HLO is the sharding in the text form of HLO, for an array of rank dimensions.
func (s *Sharding) HLO(rank int) string {
	if s.Kind != Manual || s == PerDevice {
		return s.text
	}
	tiles := append(slices.Repeat([]int64{1}, rank), s.Tiles[0], s.Copies)
	return "{devices=[" + list(tiles) + "]" + assignment(s.Devices) + " last_tile_dims={manual, replicated}}"
}

// Within reports that the devices which share an array of manual sharding m hold the same part of one sharded s.
func (s *Sharding) Within(m *Sharding) bool {
	if m == PerDevice || s.Kind != Tiled {
		return true
	}
	for i, d := range m.Devices {
		if first := m.Devices[int64(i)/m.Copies*m.Copies]; s.place[d]/s.Copies != s.place[first]/s.Copies {
			return false
		}
	}
	return true
}

// String is the text of the sharding; equal shardings have equal texts.
func (s *Sharding) String() string {
	if s == nil {
		return ""
	}
	return s.text
}

func (s *Sharding) print() string {
	switch s.Kind {
	case Replicated:
		return "{replicated}"
	case Manual:
		if s.Tiles == nil {
			return "{manual}"
		}
		return "{manual devices=[" + list([]int64{s.Tiles[0], s.Copies}) + "]" + assignment(s.Devices) + "}"
	case Maximal:
		return "{maximal device=" + strconv.FormatInt(s.Devices[0], 10) + "}"
	}
	var b strings.Builder
	b.WriteString("{devices=[")
	b.WriteString(list(s.Tiles))
	if s.Copies > 1 {
		b.WriteString("," + strconv.FormatInt(s.Copies, 10))
	}
	b.WriteString("]")
	b.WriteString(assignment(s.Devices))
	if s.Copies > 1 {
		b.WriteString(" last_tile_dim_replicate")
	}
	b.WriteString("}")
	return b.String()
}

// assignment is the text of a list of devices. It is counted, as Iota has them, if it can be, so that it does not grow
// with their number.
func assignment(devices []int64) string {
	dims, perm := counted(devices)
	switch {
	case dims == nil:
		return list(devices)
	case len(dims) == 1:
		return "<=[" + list(dims) + "]"
	}
	return "<=[" + list(dims) + "]T(" + list(perm) + ")"
}

// counted is the shortest dims and perm for which Iota gives the devices; nil if there are none.
func counted(devices []int64) (dims, perm []int64) {
	type loop struct{ size, stride int64 }
	var loops []loop // the outermost first
	for x := devices; len(x) > 1; {
		in := loop{1, x[1] - x[0]}
		for in.size < int64(len(x)) && x[in.size] == x[0]+in.size*in.stride {
			in.size++
		}
		if in.stride < 1 || int64(len(x))%in.size != 0 {
			return nil, nil
		}
		var first []int64 // of each run
		for run := range slices.Chunk(x, int(in.size)) {
			for i, d := range run {
				if d != run[0]+int64(i)*in.stride {
					return nil, nil
				}
			}
			first = append(first, run[0])
		}
		loops = append([]loop{in}, loops...)
		x = first
	}
	if len(loops) == 0 || devices[0] != 0 {
		return nil, nil
	}
	order := slices.Clone(loops)
	slices.SortFunc(order, func(a, b loop) int { return cmp.Compare(b.stride, a.stride) })
	stride := int64(1)
	for _, l := range slices.Backward(order) {
		if l.stride != stride {
			return nil, nil
		}
		stride *= l.size
	}
	for _, l := range order {
		dims = append(dims, l.size)
	}
	for _, l := range loops {
		perm = append(perm, int64(slices.Index(order, l)))
	}
	return dims, perm
}

func ascending(x []int64) bool {
	for i, v := range x {
		if v != int64(i) {
			return false
		}
	}
	return true
}

func list(x []int64) string {
	parts := make([]string, len(x))
	for i, v := range x {
		parts[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(parts, ",")
}

func product(x []int64) int64 {
	n := int64(1)
	for _, v := range x {
		n *= v
	}
	return n
}

// Local is the dimensions of the array that each device holds of an array of dimensions dims. For
// Manual, dims are those of each device's array; one without dimensions is held as [1].
func (s *Sharding) Local(dims []int64) []int64 {
	switch {
	case s.Kind == Manual && len(dims) == 0:
		return []int64{1}
	case s.Kind != Tiled:
		return dims
	}
	local := make([]int64, len(dims))
	for i, n := range dims {
		local[i] = (n + s.Tiles[i] - 1) / s.Tiles[i]
	}
	return local
}

// Region is the part of an array of dimensions dims that a device holds: where it starts and its sizes. These are less
// than Local's in the last tiles of a dimension that does not divide, down to 0.
func (s *Sharding) Region(device int, dims []int64) (start, size []int64) {
	start, size = make([]int64, len(dims)), slices.Clone(dims)
	if s.Kind != Tiled {
		return start, size
	}
	tile := s.place[device] / s.Copies
	for i := len(dims) - 1; i >= 0; i-- {
		n := (dims[i] + s.Tiles[i] - 1) / s.Tiles[i]
		start[i] = min(tile%s.Tiles[i]*n, dims[i])
		size[i] = min(n, dims[i]-start[i])
		tile /= s.Tiles[i]
	}
	return start, size
}

// Replica numbers the devices that hold the same part.
func (s *Sharding) Replica(device int) int {
	if s.Kind == Tiled {
		return int(s.place[device] % s.Copies)
	}
	return device
}

// Holders are of count devices from first on, as numbers from 0, one for each part of an array that they hold.
func (s *Sharding) Holders(first, count int) []int {
	var found []int
	seen := make(map[int64]bool)
	for k := range count {
		if tile := s.place[first+k] / s.Copies; !seen[tile] {
			seen[tile] = true
			found = append(found, k)
		}
	}
	return found
}

// Whole reports that all of an array is among each count devices: the first ones, the next ones, and so on.
func (s *Sharding) Whole(count int) bool {
	switch s.Kind {
	case Maximal:
		return false
	case Tiled:
		for first := 0; first < len(s.Devices); first += count {
			if int64(len(s.Holders(first, count))) != product(s.Tiles) {
				return false
			}
		}
	}
	return true
}

// Source is the device to read all of an array from, -1 if it takes several.
func (s *Sharding) Source() int {
	switch s.Kind {
	case Tiled:
		return -1
	case Maximal:
		return int(s.Devices[0])
	}
	return 0
}
