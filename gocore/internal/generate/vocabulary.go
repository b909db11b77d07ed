package main

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"unicode"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// constantOf is one constant of package wire.
type constantOf struct {
	name    string
	value   int64
	comment string
}

// group is the constants of one type.
type group struct {
	typ, doc  string
	constants []constantOf
}

// vocabulary is all that crosses between the languages.
type vocabulary struct {
	groups []group
	hash   string
}

// vocabularyOf reads the constants of a Go file that imports nothing. The rest is compiled into this program, but for
// what the hash must follow besides.
func vocabularyOf(path, besides string) (*vocabulary, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	info := &types.Info{Defs: make(map[*ast.Ident]types.Object)}
	if _, err := new(types.Config).Check("wire", set, []*ast.File{file}, info); err != nil {
		return nil, err
	}
	v := &vocabulary{}
	docs := make(map[string]string)
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				docs[s.Name.Name] = sentence(decl.Doc)
			case *ast.ValueSpec:
				if decl.Tok == token.CONST {
					c := info.Defs[s.Names[0]].(*types.Const)
					value, _ := constant.Int64Val(c.Val())
					comment := s.Comment
					if comment == nil {
						comment = s.Doc
					}
					v.add(c.Type().(*types.Named).Obj().Name(), docs, constantOf{c.Name(), value, line(comment)})
				}
			}
		}
	}
	v.hash = fmt.Sprintf("%x", sha256.Sum256([]byte(v.facts()+besides)))[:16]
	return v, nil
}

func (v *vocabulary) add(typ string, docs map[string]string, c constantOf) {
	if n := len(v.groups); n == 0 || v.groups[n-1].typ != typ {
		v.groups = append(v.groups, group{typ: typ, doc: docs[typ]})
	}
	last := &v.groups[len(v.groups)-1]
	last.constants = append(last.constants, c)
}

// line is a comment in one line.
func line(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// sentence is the first sentence of a comment.
func sentence(c *ast.CommentGroup) string {
	text, _, _ := strings.Cut(line(c), ". ")
	return strings.TrimSuffix(text, ".") + "."
}

// facts is every list in a form that changes with what it says, and with nothing else.
func (v *vocabulary) facts() string {
	var b strings.Builder
	for _, g := range v.groups {
		for _, c := range g.constants {
			fmt.Fprintf(&b, "%s %s %d\n", g.typ, c.name, c.value)
		}
	}
	fmt.Fprintln(&b, wire.SchemaTypes, errs.Classes())
	for d := dtype.Bool; d < dtype.Count; d++ {
		fmt.Fprintln(&b, d.Torch(), d.C10(), d.TorchCode(), d, d.PJRT(), d.DLPack(), d.Size(), d.Kind())
	}
	return b.String()
}

// upper is HOST_ZERO for HostZero and OUT_OF_MEMORY_ERROR for OutOfMemoryError.
func upper(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// cName is the name of a constant in C.
func cName(typ, name string) string {
	switch typ {
	case "Kind":
		name = strings.TrimPrefix(name, "K")
	case "ArgType":
		return "TGX_T_" + upper(strings.TrimPrefix(name, "Arg"))
	}
	return "TGX_" + upper(name)
}

const origin = "Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit."

func (v *vocabulary) goHash() string {
	return "// " + origin + "\n\npackage wire\n\n// Hash names the state of the vocabulary.\nconst Hash = \"" + v.hash + "\"\n"
}

func (v *vocabulary) cHeader() string {
	var b strings.Builder
	fmt.Fprintf(&b, "/* %s */\n#ifndef TGX_VOCABULARY_H\n#define TGX_VOCABULARY_H\n\n", origin)
	fmt.Fprintf(&b, "#define TGX_VOCABULARY \"%s\"\n", v.hash)
	for _, g := range v.groups {
		tag := ""
		if g.typ == "ArgType" {
			tag = "tgx_type "
		}
		fmt.Fprintf(&b, "\n/* %s */\nenum %s{\n", g.doc, tag)
		for _, c := range g.constants {
			comment := ""
			if c.comment != "" {
				comment = " /* " + c.comment + " */"
			}
			fmt.Fprintf(&b, "  %s = %d,%s\n", cName(g.typ, c.name), c.value, comment)
		}
		b.WriteString("};\n")
	}
	b.WriteString("\n/* Kinds of errors, by the names of their Python classes. */\nenum {\n")
	for kind, class := range errs.Classes() {
		if kind > 0 {
			fmt.Fprintf(&b, "  TGX_%s = %d,\n", upper(class), kind)
		}
	}
	b.WriteString("};\n\n/* Element types: X(name, number of the c10::ScalarType, bytes, code of DLPack). */\n#define TGX_DTYPES(X)")
	for d := dtype.Bool; d < dtype.Count; d++ {
		fmt.Fprintf(&b, " \\\n  X(%s, %d, %d, %d)", strings.ToUpper(d.Torch()), d.TorchCode(), d.Size(), d.DLPack())
	}
	b.WriteString("\n\n#define TGX_DTYPE(name, number, bytes, code) TGX_DTYPE_##name = number,\nenum { TGX_DTYPES(TGX_DTYPE) };\n#undef TGX_DTYPE\n\n#endif\n")
	return b.String()
}

func (v *vocabulary) python() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\"\"\"The vocabulary that this package shares with the Go library; see gocore/wire.\n\n%s\n\"\"\"\n\n", origin)
	b.WriteString("from __future__ import annotations\n\n")
	fmt.Fprintf(&b, "# State of the vocabulary; the library must have the same.\nHASH = \"%s\"\n", v.hash)
	for _, g := range v.groups {
		if g.typ != "Disposition" && g.typ != "Lazy" {
			continue
		}
		fmt.Fprintf(&b, "\n# %s\n", g.doc)
		for _, c := range g.constants {
			fmt.Fprintf(&b, "%s = %d\n", upper(c.name), c.value)
		}
	}
	b.WriteString("\n# How a kernel encodes an argument, by its type in a schema, without \"?\" and list lengths.\nTYPE_CODES = {\n")
	for code, names := range wire.SchemaTypes {
		for _, name := range names {
			fmt.Fprintf(&b, "    %q: %d,\n", name, code)
		}
	}
	b.WriteString("}\n\n# Names of exception classes, by the kind of the error.\nERROR_CLASSES = (\n")
	for _, class := range errs.Classes() {
		fmt.Fprintf(&b, "    %q,\n", class)
	}
	b.WriteString(")\n\n# Numbers of c10::ScalarType, by the names of the torch module, of the types that the device has tensors of.\nSCALAR_TYPES = {\n")
	for d := dtype.Bool; d < dtype.Count; d++ {
		fmt.Fprintf(&b, "    %q: %d,\n", d.Torch(), d.TorchCode())
	}
	b.WriteString("}\n\n# Names of the torch module, by the names of StableHLO.\nHLO_TYPES = {\n")
	for d := dtype.Bool; d < dtype.Count; d++ {
		fmt.Fprintf(&b, "    %q: %q,\n", d, d.Torch())
	}
	b.WriteString("}\n")
	return b.String()
}

// pjrtName is the name of a PJRT type in Go.
func pjrtName(name string) string {
	switch name {
	case "INVALID":
		return "InvalidType"
	case "PRED", "TOKEN":
		return name[:1] + strings.ToLower(name[1:])
	}
	return name
}

func (v *vocabulary) pjrtGo() string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n\npackage pjrt\n\n", origin)
	b.WriteString("// The element types. The names are XLA's: S signed, U unsigned, F and BF\n// floating point, C complex, Pred a boolean in one byte, Token no data.\nconst (\n")
	for number, t := range dtype.Buffers {
		fmt.Fprintf(&b, "\t%s Type = %d\n", pjrtName(t.Name), number)
	}
	b.WriteString(")\n\n// types lists name and bits by number.\nvar types = [...]struct {\n\tname string\n\tbits int\n}{\n")
	for _, t := range dtype.Buffers {
		fmt.Fprintf(&b, "\t{%q, %d},\n", t.Name, t.Bits)
	}
	b.WriteString("}\n")
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (v *vocabulary) pjrtC() string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n#ifndef PJ_TYPES_H\n#define PJ_TYPES_H\n\n", origin)
	b.WriteString("// X(name, code, bits): bits per element in host memory, 0 for a token.\n#define PJ_TYPES(X)")
	for number, t := range dtype.Buffers[1:] {
		fmt.Fprintf(&b, " \\\n  X(%s, %d, %d)", t.Name, number+1, t.Bits)
	}
	b.WriteString("\n\n// X(name, StableHLO's name)\n#define PJ_TYPE_NAMES(X)")
	for d := dtype.Bool; d < dtype.Count; d++ {
		fmt.Fprintf(&b, " \\\n  X(%s, %q)", d.PJRTName(), d)
	}
	b.WriteString("\n\n#endif\n")
	return b.String()
}

func (v *vocabulary) xlacpu() string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n#ifndef PJRT_XLACPU_TYPES_H_\n#define PJRT_XLACPU_TYPES_H_\n\n", origin)
	b.WriteString("// X(name): PJRT and XLA number the same types differently, and give them the same names.\n#define XLACPU_TYPES(X)")
	for _, t := range dtype.Buffers[1:] {
		fmt.Fprintf(&b, " \\\n  X(%s)", t.Name)
	}
	b.WriteString("\n\n#endif\n")
	return b.String()
}
