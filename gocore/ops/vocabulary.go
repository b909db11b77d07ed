package ops

import (
	"strings"
	"sync"

	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// Vocabulary is the table's names, by which package ir prints and reads graphs.
var Vocabulary ir.Vocabulary = vocabulary{}

type vocabulary struct{}

func (vocabulary) Name(op ir.Op) string { return Name(op) }

func (vocabulary) Lookup(name string) (ir.Op, bool) {
	op, ok := Lookup(strings.TrimPrefix(name, "aten::"))
	return op, ok && Name(op) == name
}

func (vocabulary) Arguments(op ir.Op) []ir.Argument {
	if i := int(op) - int(ir.FirstRow); i >= 0 && i < len(Table) {
		return arguments()[i]
	}
	return nil
}

// arguments are the arguments of all rows, from their schemas.
var arguments = sync.OnceValue(func() [][]ir.Argument {
	all := make([][]ir.Argument, len(Table))
	for i := range Table {
		all[i] = readArguments(Table[i].Schema)
		for _, k := range Table[i].Offsets {
			all[i][k].Operand, all[i][k].Scalars = true, true
		}
	}
	return all
})

func readArguments(schema string) (out []ir.Argument) {
	list := schema[1:strings.LastIndex(schema, ") ->")]
	for arg := range strings.SplitSeq(list, ",") {
		arg, _, defaulted := strings.Cut(strings.TrimSpace(arg), "=")
		typ, name, ok := strings.Cut(arg, " ") // not so "*", nor the rest of a default
		if !ok {
			continue
		}
		base := strings.TrimRight(typ, "?[]0123456789")
		out = append(out, ir.Argument{Name: name, Operand: base == "Tensor" || base == "Scalar", Scalars: base == "Scalar",
			Floats: base == "float", Needed: !defaulted && !strings.HasSuffix(typ, "?")})
	}
	return out
}
