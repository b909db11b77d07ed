package stablehlo

import (
	"strconv"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// CustomCallOptions say how a custom call is made; the zero value is a pure call of the original
// API without configuration.
type CustomCallOptions struct {
	APIVersion    int       // 1 (also 0): original, 2: status returning, 3: unified, 4: typed FFI
	BackendConfig string    // opaque text, versions 1 to 3
	Config        []Attr    // typed attributes, version 4
	HasSideEffect bool      // may not be removed or run twice
	OperandLayout [][]int64 // minor-to-major order of each operand's dimensions; nil: the default
	ResultLayout  [][]int64 // the same for each result
	Called        []*Func   // called_computations
	Aliases       [][2]int  // pairs of result and operand that share a buffer
	Attrs         []Attr    // further attributes, such as Sharding
}

// CustomCall calls code that the backend knows by name.
func (b *Builder) CustomCall(target string, operands []Value, results []*shape.Shape, o CustomCallOptions) []Value {
	const op = "stablehlo.custom_call"
	version := max(o.APIVersion, 1)
	for _, s := range results {
		if !valid(s) {
			b.fail(op, "a result of type "+s.String(), operands...)
		}
	}
	switch {
	case version > 4:
		b.fail(op, "no API version "+strconv.Itoa(version), operands...)
	case version == 4 && o.BackendConfig != "", version < 4 && len(o.Config) > 0:
		b.fail(op, "BackendConfig is for API versions 1 to 3, Config for 4", operands...)
	case o.OperandLayout != nil && !layoutsFit(o.OperandLayout, shapesOf(operands)),
		o.ResultLayout != nil && !layoutsFit(o.ResultLayout, results),
		(o.OperandLayout == nil) != (o.ResultLayout == nil):
		b.fail(op, "layouts do not fit", operands...)
	case o.OperandLayout != nil && len(o.Called) > 0:
		b.fail(op, "XLA takes layouts or called functions, not both", operands...)
	}
	b.attrString("call_target_name", target)
	b.attrInt32("api_version", int64(version))
	b.attrBool("has_side_effect", o.HasSideEffect)
	if version == 4 {
		b.attrName("backend_config")
		if len(o.Config) == 0 {
			b.attrs = append(b.attrs, "{}"...)
		} else {
			b.attrs = appendAttrs(b.attrs, o.Config)
		}
	} else if o.BackendConfig != "" {
		b.attrString("backend_config", o.BackendConfig)
	}
	if o.OperandLayout != nil {
		b.attrLayouts("operand_layouts", o.OperandLayout)
		b.attrLayouts("result_layouts", o.ResultLayout)
	}
	b.attrCalled(o.Called)
	b.attrAliases(o.Aliases, len(results))
	for _, a := range o.Attrs {
		b.attrRaw(a.name, a.value)
	}
	return b.opN(op, operands, nil, results)
}

func layoutsFit(layouts [][]int64, shapes []*shape.Shape) bool {
	if len(layouts) != len(shapes) {
		return false
	}
	for i, l := range layouts {
		if len(l) != shapes[i].Rank() || !distinct(l, int64(len(l))) {
			return false
		}
	}
	return true
}

func (b *Builder) attrLayouts(name string, layouts [][]int64) {
	b.attrName(name)
	b.attrs = append(b.attrs, '[')
	for i, l := range layouts {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		}
		b.attrs = append(b.attrs, "dense<"...)
		if len(l) > 0 {
			b.attrs = append(b.attrs, '[')
			b.attrs = appendInts(b.attrs, l)
			b.attrs = append(b.attrs, ']')
		}
		b.attrs = append(b.attrs, "> : tensor<"...)
		b.attrs = strconv.AppendInt(b.attrs, int64(len(l)), 10)
		b.attrs = append(b.attrs, "xindex>"...)
	}
	b.attrs = append(b.attrs, ']')
}

func (b *Builder) attrCalled(fs []*Func) {
	if len(fs) == 0 {
		return
	}
	b.attrName("called_computations")
	b.attrs = append(b.attrs, '[')
	for i, f := range fs {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		}
		b.attrs = appendSymbol(append(b.attrs, '@'), f.f.name)
	}
	b.attrs = append(b.attrs, ']')
}

// attrAliases prints output_operand_aliases. A single result is not a tuple: its index is empty.
func (b *Builder) attrAliases(pairs [][2]int, results int) {
	if len(pairs) == 0 {
		return
	}
	b.attrName("output_operand_aliases")
	b.attrs = append(b.attrs, '[')
	for i, p := range pairs {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		}
		b.attrs = append(b.attrs, "#stablehlo.output_operand_alias<output_tuple_indices = ["...)
		if results > 1 {
			b.attrs = strconv.AppendInt(b.attrs, int64(p[0]), 10)
		}
		b.attrs = append(b.attrs, "], operand_index = "...)
		b.attrs = strconv.AppendInt(b.attrs, int64(p[1]), 10)
		b.attrs = append(b.attrs, ", operand_tuple_indices = []>"...)
	}
	b.attrs = append(b.attrs, ']')
}
