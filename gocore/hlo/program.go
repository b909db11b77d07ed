package hlo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

// Fields of HloModuleProto, HloComputationProto, HloInstructionProto and ShapeProto, and of the messages in them,
// besides those of collectives.go and shardings.go.
const (
	moduleName    = 1
	moduleEntry   = 6
	moduleAliases = 8

	computationName = 1
	computationID   = 5
	computationRoot = 6

	instructionName       = 1
	instructionParameter  = 9
	instructionFusion     = 11
	instructionTupleIndex = 13
	instructionDimensions = 14
	instructionTarget     = 28
	instructionOperands   = 36
	instructionCalls      = 38
	instructionHost       = 47

	shapeLayout = 5

	layoutOrder  = 1
	layoutMemory = 8

	aliasEntries     = 1
	aliasResultIndex = 1
	aliasParameter   = 2
	aliasKind        = 4
)

// hostMemory is the number of the host's memory in layouts.
const hostMemory = 5

// Program is an optimized module in the parts that one reads it for.
type Program struct {
	Name string `json:"name"`
	// Ops counts the instructions of all computations by their HLO op.
	Ops map[string]int `json:"ops"`
	// CustomCalls counts the calls of code that is not the compiler's, by target.
	CustomCalls map[string]int `json:"custom_calls"`
	// Collectives are in the order of the schedule; see the function.
	Collectives []Collective `json:"collectives"`
	// Aliases are the parameters whose memory results take over.
	Aliases []Alias `json:"aliases"`
	// HostTransfers are the instructions that move data from or to the host, by name.
	HostTransfers []string `json:"host_transfers"`
}

// Alias says that a result is written into the memory of a parameter.
type Alias struct {
	Result    []int64 `json:"result"` // its place in the tuple of results
	Parameter int64   `json:"parameter"`
	// Must says that the caller has to give the parameter up; else it may.
	Must bool `json:"must"`
}

// computation is one of a module, with its instructions as the module has them.
type computation struct {
	name         string
	id, root     int64
	instructions []*instruction
}

// instruction is an HloInstructionProto in the fields that are shown.
type instruction struct {
	id                          int64
	name, opcode, shape, target string
	kind                        string // of a fusion
	operands, calls, dimensions []int64
	parameter, index            int64
	onHost, movesFromHost       bool
}

// Read reads a module.
func Read(module []byte) *Program {
	p := &Program{Ops: map[string]int{}, CustomCalls: map[string]int{}, Collectives: append([]Collective{}, Collectives(module)...),
		Aliases: []Alias{}, HostTransfers: []string{}}
	for f := range fields(module) {
		switch f.number {
		case moduleName:
			p.Name = string(f.bytes)
		case moduleAliases:
			for e := range fields(f.bytes) {
				if e.number == aliasEntries {
					p.Aliases = append(p.Aliases, alias(e.bytes))
				}
			}
		case moduleComputations:
			for _, i := range readComputation(f.bytes).instructions {
				p.Ops[i.opcode]++
				if i.opcode == "custom-call" {
					p.CustomCalls[i.target]++
				}
				if i.movesFromHost || i.onHost {
					p.HostTransfers = append(p.HostTransfers, i.name)
				}
			}
		}
	}
	return p
}

func alias(m []byte) Alias {
	a := Alias{Result: []int64{}}
	for f := range fields(m) {
		switch f.number {
		case aliasResultIndex:
			a.Result = f.ints(a.Result)
		case aliasParameter:
			a.Parameter = int64(f.value)
		case aliasKind:
			a.Must = f.value == 2
		}
	}
	return a
}

func readComputation(m []byte) *computation {
	c := &computation{}
	for f := range fields(m) {
		switch f.number {
		case computationName:
			c.name = string(f.bytes)
		case computationID:
			c.id = int64(f.value)
		case computationRoot:
			c.root = int64(f.value)
		case computationInstructions:
			c.instructions = append(c.instructions, readInstruction(f.bytes))
		}
	}
	return c
}

func readInstruction(m []byte) *instruction {
	i := &instruction{}
	for f := range fields(m) {
		switch f.number {
		case instructionName:
			i.name = string(f.bytes)
		case instructionOpcode:
			i.opcode = string(f.bytes)
		case instructionShape:
			i.shape, i.onHost = shapeText(f.bytes)
		case instructionParameter:
			i.parameter = int64(f.value)
		case instructionFusion:
			i.kind = string(f.bytes)
		case instructionTupleIndex:
			i.index = int64(f.value)
		case instructionDimensions:
			i.dimensions = f.ints(i.dimensions)
		case instructionTarget:
			i.target = string(f.bytes)
		case instructionID:
			i.id = int64(f.value)
		case instructionOperands:
			i.operands = f.ints(i.operands)
		case instructionCalls:
			i.calls = f.ints(i.calls)
		case instructionHost:
			i.movesFromHost = f.value != 0
		}
	}
	i.movesFromHost = i.movesFromHost || i.opcode == "infeed" || i.opcode == "outfeed"
	return i
}

// shapeText is a shape as XLA prints it, such as f32[2,3]{1,0}; host says that some of it is in the host's memory.
func shapeText(m []byte) (text string, host bool) {
	var parts []string
	var dims, order []int64
	var memory, kind uint64
	tuple := false
	for f := range fields(m) {
		switch f.number {
		case shapeType:
			kind = f.value
			tuple = kind == 13
		case shapeDims:
			dims = f.ints(dims)
		case shapeTuple:
			part, onHost := shapeText(f.bytes)
			parts, host = append(parts, part), host || onHost
		case shapeLayout:
			for l := range fields(f.bytes) {
				switch l.number {
				case layoutOrder:
					order = l.ints(order)
				case layoutMemory:
					memory = l.value
				}
			}
		}
	}
	if tuple {
		return "(" + strings.Join(parts, ", ") + ")", host
	}
	name := primitive[kind].String()
	switch {
	case kind == 17:
		name = "token"
	case primitive[kind] == dtype.Invalid:
		name = fmt.Sprintf("type%d", kind)
	}
	text = name + "[" + list(dims) + "]"
	if len(order) > 0 {
		text += "{" + list(order)
		if memory != 0 {
			text += fmt.Sprintf(":S(%d)", memory)
		}
		text += "}"
	}
	return text, memory == hostMemory
}

func list(numbers []int64) string {
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ",")
}

// Text prints a module much as XLA does: computations that are called before those that call them, instructions in the
// order of the schedule. Literals and configurations of backends are left out.
func Text(module []byte) string {
	var b strings.Builder
	turn := schedule(module)
	names := map[int64]string{}
	var all []*computation
	entry := int64(0)
	for f := range fields(module) {
		switch f.number {
		case moduleName:
			fmt.Fprintf(&b, "HloModule %s\n", f.bytes)
		case moduleEntry:
			entry = int64(f.value)
		case moduleComputations:
			c := readComputation(f.bytes)
			all, names[c.id] = append(all, c), c.name
		}
	}
	for _, c := range all {
		slices.SortStableFunc(c.instructions, func(x, y *instruction) int { return int(turn[x.id] - turn[y.id]) })
		c.print(&b, names, c.id == entry)
	}
	return b.String()
}

func (c *computation) print(b *strings.Builder, computations map[int64]string, entry bool) {
	b.WriteString("\n")
	if entry {
		b.WriteString("ENTRY ")
	}
	fmt.Fprintf(b, "%%%s {\n", c.name)
	names := map[int64]string{}
	for _, i := range c.instructions {
		names[i.id] = "%" + i.name
	}
	for _, i := range c.instructions {
		b.WriteString("  ")
		if i.id == c.root {
			b.WriteString("ROOT ")
		}
		i.print(b, names, computations)
	}
	b.WriteString("}\n")
}

func (i *instruction) print(b *strings.Builder, names, computations map[int64]string) {
	of := make([]string, len(i.operands))
	for k, id := range i.operands {
		of[k] = names[id]
	}
	switch i.opcode {
	case "parameter":
		of = []string{fmt.Sprint(i.parameter)}
	case "constant":
		of = []string{"…"}
	}
	fmt.Fprintf(b, "%%%s = %s %s(%s)", i.name, i.shape, i.opcode, strings.Join(of, ", "))
	if len(i.dimensions) > 0 {
		fmt.Fprintf(b, ", dimensions={%s}", list(i.dimensions))
	}
	if i.opcode == "get-tuple-element" {
		fmt.Fprintf(b, ", index=%d", i.index)
	}
	if i.kind != "" {
		fmt.Fprintf(b, ", kind=%s", i.kind)
	}
	if len(i.calls) > 0 {
		called := make([]string, len(i.calls))
		for k, id := range i.calls {
			called[k] = "%" + computations[id]
		}
		fmt.Fprintf(b, ", calls={%s}", strings.Join(called, ", "))
	}
	if i.target != "" {
		fmt.Fprintf(b, ", custom_call_target=%q", i.target)
	}
	b.WriteString("\n")
}
