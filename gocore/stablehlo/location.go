package stablehlo

import (
	"strconv"
	"strings"
)

// location is a source position: the name of what is being lowered, and "file:line".
type location struct{ op, where string }

// Locations turns source locations in the text on or off; they are off at first. XLA carries them
// into HLO metadata (op_name, source_file, source_line) and into its errors.
func (b *Builder) Locations(on bool) { b.locations = on }

// Loc sets the location of the operations that follow: op is a name such as "aten::add.Tensor",
// where is "file:line" or empty. Errors name it even where Locations is off.
func (b *Builder) Loc(op, where string) {
	l := location{op, where}
	if l == (location{}) {
		b.loc = 0
		return
	}
	if i, ok := b.locIndex[l]; ok {
		b.loc = i
		return
	}
	if b.locIndex == nil {
		b.locIndex = make(map[location]int32)
	}
	b.locs = append(b.locs, l)
	b.loc = int32(len(b.locs))
	b.locIndex[l] = b.loc
}

func (b *Builder) locText() string {
	if b.loc == 0 {
		return ""
	}
	l := b.locs[b.loc-1]
	switch {
	case l.where == "":
		return l.op
	case l.op == "":
		return l.where
	}
	return l.where + " in " + l.op
}

// emitLoc refers to the location by its alias, which appendLocs defines at the end of the module.
func (b *Builder) emitLoc() {
	if !b.locations || b.loc == 0 {
		return
	}
	b.out = append(b.out, " loc(#loc"...)
	b.out = strconv.AppendInt(b.out, int64(b.loc), 10)
	b.out = append(b.out, ')')
}

func (b *Builder) appendLocs(out []byte) []byte {
	if !b.locations {
		return out
	}
	for i, l := range b.locs {
		out = append(out, "#loc"...)
		out = strconv.AppendInt(out, int64(i+1), 10)
		out = append(out, " = loc("...)
		if l.op != "" {
			out = appendQuoted(out, l.op)
		}
		if l.where != "" {
			if l.op != "" {
				out = append(out, '(')
			}
			out = appendFileLine(out, l.where)
			if l.op != "" {
				out = append(out, ')')
			}
		}
		out = append(out, ")\n"...)
	}
	return out
}

// appendFileLine prints "file":line:0; where without a line number counts as line 0.
func appendFileLine(out []byte, where string) []byte {
	file, line := where, uint64(0)
	if i := strings.LastIndexByte(where, ':'); i >= 0 {
		if n, err := strconv.ParseUint(where[i+1:], 10, 32); err == nil {
			file, line = where[:i], n
		}
	}
	out = appendQuoted(out, file)
	out = append(out, ':')
	out = strconv.AppendUint(out, line, 10)
	return append(out, ":0"...)
}
