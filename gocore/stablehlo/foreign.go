package stablehlo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Foreign reads the signature of a program that came from elsewhere, and refuses one that reaches out of itself. Such
// a program calls code of the process by name, or exchanges data with the host or other devices. Others say how their
// arguments are laid out in memory, or donated. What is left computes its results from its arguments.
func Foreign(module []byte) (Signature, error) {
	t, err := newText(module)
	if err != nil {
		return Signature{}, err
	}
	for _, token := range t.tokens {
		if token.kind != tokenWord && token.kind != tokenText {
			continue
		}
		if strings.Contains(token.word, "x") && tooLong(token.word) {
			return Signature{}, fmt.Errorf("stablehlo: the program has an array of sizes %.100s; a program from elsewhere may have sizes below 2³¹", token.word)
		}
		_, op, _ := strings.Cut(token.word, ".")
		starts := func(name string) bool { return strings.HasPrefix(op, name) }
		if slices.ContainsFunc(outside, starts) || slices.ContainsFunc(memory, starts) {
			return Signature{}, fmt.Errorf("stablehlo: the program has %.100s, which a program from elsewhere may not have", token.word)
		}
	}
	e, err := t.main()
	if err != nil {
		return Signature{}, err
	}
	return e.signature()
}

// tooLong reports, in the words of an array's type, a size for which compilers count in 32 bits: XLA:CPU divides by
// what they leave of 2³².
func tooLong(sizes string) bool {
	for size := range strings.SplitSeq(sizes, "x") {
		if n, err := strconv.ParseUint(size, 10, 64); err == nil && n > math.MaxInt32 || errors.Is(err, strconv.ErrRange) {
			return true
		}
	}
	return false
}

// outside are the operations, whatever the dialect, that reach out of a program. Its collectives are among them: a
// program from elsewhere runs on one device.
var outside = []string{"custom_call", "infeed", "outfeed", "send", "recv", "all_gather", "all_reduce", "all_to_all",
	"collective_", "reduce_scatter", "partition_id", "replica_id", "cross-replica-sum"}

// memory are the attributes, whatever the dialect, that say who owns the arguments' memory and what lies where in it.
var memory = []string{"aliasing_output", "buffer_donor", "input_output_alias", "layout_mode", "memory_kind", "memory_space",
	"xla_entry_computation", "cross_program_prefetches", "is_dynamic", "sharding", "mesh", "manual_computation", "spmd_"}
