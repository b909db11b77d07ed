package stablehlo

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Function is what a module computes, for other modules to call: the branch of a condition, the body of a
// loop. Get one from Builder.Function.
type Function struct {
	// Name says what it computes: functions of equal texts have equal names.
	Name            string
	Params, Results []*shape.Shape
	funcs           []*Func // itself, then those that it calls
}

// Function ends the module like Bytes, with its errors, but gives it as a function. The module has no locations.
func (b *Builder) Function() (*Function, error) {
	text, err := b.Bytes()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	main := b.main
	main.name, main.public = "fn_"+hex.EncodeToString(sum[:16]), false
	return &Function{Name: main.name, Params: shapesOf(main.params), Results: shapesOf(main.results),
		funcs: append([]*Func{{main}}, b.funcs...)}, nil
}

// Import adds a function to the module, unless it is there, for Call.
func (b *Builder) Import(f *Function) *Func {
	for _, g := range f.funcs {
		if b.Func(g.f.name) == nil {
			b.funcs = append(b.funcs, g)
		}
	}
	return b.Func(f.Name)
}
