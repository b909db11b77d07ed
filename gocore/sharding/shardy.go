package sharding

import (
	"slices"
	"strconv"
	"strings"
)

// Axis is an axis of the mesh that Shardy's text form of shardings refers to.
type Axis struct {
	Name   string
	Size   int64
	stride int64 // between devices that are neighbours along it
}

// Axes is the mesh of n devices in order: an axis for each prime factor of n, the one of the largest strides first.
func Axes(n int) []Axis {
	var axes []Axis
	for rest, p := int64(n), int64(2); rest > 1; {
		if rest%p != 0 {
			p++
			continue
		}
		rest /= p
		axes = append(axes, Axis{Name: "a" + strconv.Itoa(len(axes)), Size: p, stride: rest})
	}
	return axes
}

// Shardy is the sharding in Shardy's text form, for an array of sizes and the mesh @mesh of Axes. Dimensions open may
// be divided further. It is false if no axes of the mesh make it, as for one of local values. It is false where parts
// are uneven, too: there Shardy does without some of the axes.
func (s *Sharding) Shardy(sizes, open []int64) (string, bool) {
	if s.Kind != Replicated && s.Kind != Tiled {
		return "", false
	}
	by, ok := s.byAxes(len(sizes))
	if !ok {
		return "", false
	}
	dims := make([]string, len(sizes))
	for d := range dims {
		if s.Kind == Tiled && sizes[d]%s.Tiles[d] != 0 {
			return "", false
		}
		var parts []string
		for _, a := range by[d] {
			parts = append(parts, strconv.Quote(a.Name))
		}
		if slices.Contains(open, int64(d)) {
			parts = append(parts, "?")
		}
		dims[d] = "{" + strings.Join(parts, ", ") + "}"
	}
	return "@mesh, [" + strings.Join(dims, ", ") + "]", true
}

// byAxes is for each dimension the axes that it is tiled over; false if there are none that do it.
func (s *Sharding) byAxes(rank int) ([][]Axis, bool) {
	by := make([][]Axis, rank)
	if s.Kind == Replicated {
		return by, true
	}
	axes, inner := Axes(len(s.Devices)), int64(len(s.Devices))
	for d, rest := range s.Tiles {
		inner /= rest
		for step := int64(1); rest > 1; {
			stride := s.Devices[step*inner] - s.Devices[0]
			i := slices.IndexFunc(axes, func(a Axis) bool { return a.stride == stride })
			if i < 0 || rest%axes[i].Size != 0 {
				return nil, false
			}
			by[d] = append(by[d], axes[i])
			rest /= axes[i].Size
			step *= axes[i].Size
		}
		slices.Reverse(by[d])
	}
	for device, place := range s.place {
		tile := int64(0)
		for d := range s.Tiles {
			for _, a := range by[d] {
				tile = tile*a.Size + int64(device)/a.stride%a.Size
			}
		}
		if tile != place/s.Copies {
			return nil, false
		}
	}
	return by, true
}
