package sharding

import (
	"slices"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Parse reads the text of a sharding. Text that is not one is a ValueError.
func Parse(text string) (*Sharding, error) {
	table.RLock()
	s := table.byText[text]
	table.RUnlock()
	if s != nil {
		return s, nil
	}
	s, why := parse(text)
	if why != "" {
		return nil, errs.New(errs.Value, "sharding %q: %s", text, why)
	}
	table.Lock()
	table.byText[text] = s
	table.Unlock()
	return s, nil
}

func parse(text string) (s *Sharding, why string) {
	body, ok := strings.CutPrefix(text, "{")
	if body, ok = cutSuffix(body, "}", ok); !ok {
		return nil, "expected {…}"
	}
	switch body = strings.TrimSpace(body); {
	case body == "replicated":
		return Everywhere, ""
	case body == "manual":
		return PerDevice, ""
	}
	if device, ok := strings.CutPrefix(body, "maximal device="); ok {
		d, err := strconv.ParseUint(device, 10, 31)
		if err != nil {
			return nil, "expected the number of a device"
		}
		return intern(&Sharding{Kind: Maximal, Devices: []int64{int64(d)}}), ""
	}
	groups, manual := strings.CutPrefix(body, "manual ")
	rest, ok := strings.CutPrefix(groups, "devices=")
	if !ok {
		return nil, "expected replicated, manual, maximal or devices"
	}
	tiles, rest, ok := bracketed(rest, '[', ']')
	if !ok || len(tiles) == 0 || slices.Min(tiles) < 1 {
		return nil, "expected the numbers of tiles, [2,4]"
	}
	assignment, last, _ := strings.Cut(rest, " ")
	devices, why := order(assignment)
	if why != "" {
		return nil, why
	}
	if int64(len(devices)) != product(tiles) {
		return nil, strconv.Itoa(len(devices)) + " devices for " + strconv.FormatInt(product(tiles), 10) + " tiles"
	}
	switch last = strings.TrimSpace(last); {
	case manual && len(tiles) == 2 && last == "":
		return grouped(tiles[0], tiles[1], devices), ""
	case manual:
		return nil, "expected groups of devices, [4,2]"
	case last == "":
		return tiled(tiles, 1, devices), ""
	case last == "last_tile_dim_replicate", last == "last_tile_dims={replicated}":
		n := len(tiles) - 1
		return tiled(tiles[:n], tiles[n], devices), ""
	}
	return nil, "unknown: " + last
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	body, found := strings.CutSuffix(s, suffix)
	return body, ok && found
}

// bracketed reads a list of numbers in brackets and returns what follows.
func bracketed(text string, open, shut byte) (x []int64, rest string, ok bool) {
	end := strings.IndexByte(text, shut)
	if end < 1 || text[0] != open {
		return nil, text, false
	}
	x, ok = numbers(text[1:end])
	return x, text[end+1:], ok
}

func numbers(text string) ([]int64, bool) {
	var x []int64
	for _, f := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil || n < 0 {
			return nil, false
		}
		x = append(x, n)
	}
	return x, true
}

// order reads the devices of a tile assignment: 0,2,1,3 or <=[4] or <=[2,2]T(1,0), which counts up in the
// first shape and reads the numbers after transposing it. They are a permutation.
func order(text string) (devices []int64, why string) {
	const want = "expected devices: 0,1,2,3 or <=[4] or <=[2,2]T(1,0)"
	counted, ok := strings.CutPrefix(text, "<=")
	if !ok {
		if devices, ok = numbers(text); !ok {
			return nil, want
		}
		if sorted := slices.Sorted(slices.Values(devices)); !ascending(sorted) {
			return nil, "the devices are not 0 to " + strconv.Itoa(len(devices)-1) + ", each once"
		}
		return devices, ""
	}
	dims, rest, ok := bracketed(counted, '[', ']')
	if !ok || slices.Min(dims) < 1 || product(dims) > 1<<20 {
		return nil, want
	}
	perm := make([]int64, len(dims))
	for i := range perm {
		perm[i] = int64(i)
	}
	if rest != "" {
		transpose, ok := strings.CutPrefix(rest, "T")
		if !ok {
			return nil, want
		}
		given, after, ok := bracketed(transpose, '(', ')')
		if !ok || after != "" || len(given) != len(dims) || !ascending(slices.Sorted(slices.Values(given))) {
			return nil, want
		}
		perm = given
	}
	return Iota(dims, perm), ""
}

// Iota lists the numbers of a row-major array of dims, 0 and up, in the order of its transpose.
func Iota(dims, perm []int64) []int64 {
	stride := shape.Contiguous(nil, dims)
	out := []int64{0}
	for _, p := range perm {
		next := make([]int64, 0, len(out)*int(dims[p]))
		for _, base := range out {
			for i := range dims[p] {
				next = append(next, base+i*stride[p])
			}
		}
		out = next
	}
	return out
}

// Check reports that an array of these dimensions can lie so on a number of devices; if not, the
// ValueError says why.
func (s *Sharding) Check(devices int, dims []int64) error {
	switch {
	case s.Kind == Maximal && s.Devices[0] >= int64(devices), s.place != nil && len(s.Devices) > devices:
		return errs.New(errs.Value, "sharding %s names more devices than there are: %d", s, devices)
	case s.place != nil && len(s.Devices) < devices:
		return errs.New(errs.Value, "sharding %s names %d of %d devices; it must name all", s, len(s.Devices), devices)
	case s.Kind == Tiled && len(s.Tiles) != len(dims):
		return errs.New(errs.Value, "sharding %s is for %d dimension(s), the tensor has sizes %s", s, len(s.Tiles), shape.TorchDims(dims))
	}
	return nil
}

// Markable is the ValueError of marking a value with a sharding that says nothing of one global value.
func (s *Sharding) Markable() error {
	if s.Kind == Manual {
		return errs.New(errs.Value, "a tensor cannot be marked %s; full_to_shard makes a manual one of it", s)
	}
	return nil
}
