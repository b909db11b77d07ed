package stablehlo

import (
	"fmt"
	"strconv"
	"strings"
)

// Attr is a named MLIR attribute of a parameter, a result, an operation or the module.
type Attr struct{ name, value string }

// RawAttr is an attribute whose value is MLIR text, such as `#sdy.sharding<@mesh, [{"x"}, {}]>`.
func RawAttr(name, value string) Attr { return Attr{name, value} }

// StringAttr is a string attribute, such as mhlo.sharding.
func StringAttr(name, value string) Attr { return Attr{name, string(appendQuoted(nil, value))} }

// Int32Attr is an integer attribute of type i32, such as mhlo.num_partitions.
func Int32Attr(name string, value int32) Attr {
	return Attr{name, strconv.Itoa(int(value)) + " : i32"}
}

// Int64Attr is an integer attribute of type i64.
func Int64Attr(name string, value int64) Attr {
	return Attr{name, strconv.FormatInt(value, 10) + " : i64"}
}

// Float32Attr is a floating attribute of type f32.
func Float32Attr(name string, value float32) Attr {
	return Attr{name, string(appendFloat32(nil, value)) + " : f32"}
}

// BoolAttr is a boolean attribute.
func BoolAttr(name string, value bool) Attr { return Attr{name, strconv.FormatBool(value)} }

// Int64sAttr is an array<i64: …> attribute.
func Int64sAttr(name string, value []int64) Attr {
	return Attr{name, string(appendInt64Array(nil, value))}
}

// DenseAttr is a tensor attribute of rank 1, such as dense<[1, 2]> : tensor<2xi64>.
func DenseAttr[T int64 | float32 | bool](name string, values []T) Attr {
	element := "i64"
	out := []byte("dense<[")
	for i, value := range values {
		if i > 0 {
			out = append(out, ", "...)
		}
		switch v := any(value).(type) {
		case int64:
			out = strconv.AppendInt(out, v, 10)
		case float32:
			out, element = appendFloat32(out, v), "f32"
		case bool:
			out, element = strconv.AppendBool(out, v), "i1"
		}
	}
	return Attr{name, fmt.Sprintf("%s]> : tensor<%dx%s>", out, len(values), element)}
}

// FrontendAttrs are attributes that the compiler passes on to its passes (mhlo.frontend_attributes).
func FrontendAttrs(attrs ...Attr) Attr {
	return Attr{"mhlo.frontend_attributes", strings.TrimPrefix(string(appendAttrs(nil, attrs)), " ")}
}

// Alias says that the parameter's buffer must become that of the result with this index
// (tf.aliasing_output): a donation with a named receiver.
func Alias(result int) Attr { return Int32Attr("tf.aliasing_output", int32(result)) }

// Donate says that the parameter's buffer may be reused for any result (jax.buffer_donor).
func Donate() Attr { return BoolAttr("jax.buffer_donor", true) }

// Sharding is a GSPMD sharding (mhlo.sharding), such as "{devices=[2,1]0,1}".
func Sharding(text string) Attr { return StringAttr("mhlo.sharding", text) }

// ShardySharding is a Shardy sharding (sdy.sharding) over a mesh made by Builder.Mesh; text is what
// stands between the brackets of #sdy.sharding, such as `@mesh, [{"x"}, {}]`.
func ShardySharding(text string) Attr { return RawAttr("sdy.sharding", "#sdy.sharding<"+text+">") }

// appendAttrs prints " {a = 1, b = 2}", nothing for an empty list.
func appendAttrs(out []byte, attrs []Attr) []byte {
	if len(attrs) == 0 {
		return out
	}
	out = append(out, " {"...)
	for i, a := range attrs {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendAttrName(out, a.name)
		if a.value != "" {
			out = append(out, " = "...)
			out = append(out, a.value...)
		}
	}
	return append(out, '}')
}

// appendAttrName prints a name, quoted where MLIR would not read it bare.
func appendAttrName(out []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '$' || c == '.')) {
			return appendQuoted(out, name)
		}
	}
	return append(out, name...)
}

// appendQuoted prints an MLIR string literal: escapes are \\, \" and two hex digits.
func appendQuoted(out []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '"' || c == '\\' || c < ' ' || c > '~' {
			out = append(out, '\\', hex[c>>4], hex[c&15])
			continue
		}
		out = append(out, c)
	}
	return append(out, '"')
}

func appendInts(out []byte, xs []int64) []byte {
	for i, x := range xs {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendInt(out, x, 10)
	}
	return out
}

func appendInt64Array(out []byte, xs []int64) []byte {
	out = append(out, "array<i64"...)
	if len(xs) > 0 {
		out = append(out, ": "...)
	}
	out = appendInts(out, xs)
	return append(out, '>')
}

// The methods below append one attribute each to the operation being written.

func (b *Builder) attrName(name string) {
	if len(b.attrs) > 0 {
		b.attrs = append(b.attrs, ", "...)
	}
	b.attrs = append(b.attrs, name...)
	b.attrs = append(b.attrs, " = "...)
}

func (b *Builder) attrRaw(name string, parts ...string) {
	b.attrName(name)
	for _, p := range parts {
		b.attrs = append(b.attrs, p...)
	}
}

func (b *Builder) attrDims(name string, xs []int64) {
	b.attrName(name)
	b.attrs = appendInt64Array(b.attrs, xs)
}

func (b *Builder) attrInt(name string, x int64) {
	b.attrName(name)
	b.attrs = strconv.AppendInt(b.attrs, x, 10)
	b.attrs = append(b.attrs, " : i64"...)
}

func (b *Builder) attrInt32(name string, x int64) {
	b.attrName(name)
	b.attrs = strconv.AppendInt(b.attrs, x, 10)
	b.attrs = append(b.attrs, " : i32"...)
}

func (b *Builder) attrBool(name string, x bool) {
	b.attrName(name)
	b.attrs = strconv.AppendBool(b.attrs, x)
}

func (b *Builder) attrString(name, x string) {
	b.attrName(name)
	b.attrs = appendQuoted(b.attrs, x)
}

// attrMatrix appends a dense tensor of type tensor<RxCxi64>; rows shorter than cols are filled up
// with -1, as replica_groups of unequal size are.
func (b *Builder) attrMatrix(name string, rows [][]int64, cols int) {
	b.attrName(name)
	b.attrs = append(b.attrs, "dense<"...)
	if len(rows) > 0 && cols > 0 {
		b.attrs = append(b.attrs, '[')
		for i, r := range rows {
			if i > 0 {
				b.attrs = append(b.attrs, ", "...)
			}
			b.attrs = append(b.attrs, '[')
			b.attrs = appendInts(b.attrs, r)
			for k := len(r); k < cols; k++ {
				if k > 0 {
					b.attrs = append(b.attrs, ", "...)
				}
				b.attrs = append(b.attrs, "-1"...)
			}
			b.attrs = append(b.attrs, ']')
		}
		b.attrs = append(b.attrs, ']')
	}
	b.attrs = append(b.attrs, "> : tensor<"...)
	b.attrs = strconv.AppendInt(b.attrs, int64(len(rows)), 10)
	b.attrs = append(b.attrs, 'x')
	b.attrs = strconv.AppendInt(b.attrs, int64(cols), 10)
	b.attrs = append(b.attrs, "xi64>"...)
}

// field appends "name = [1, 2]" to a dimension-number attribute, a comma before it unless first.
func (b *Builder) field(first *bool, name string, xs []int64) {
	if len(xs) == 0 {
		return
	}
	if !*first {
		b.attrs = append(b.attrs, ", "...)
	}
	*first = false
	b.attrs = append(b.attrs, name...)
	b.attrs = append(b.attrs, " = ["...)
	b.attrs = appendInts(b.attrs, xs)
	b.attrs = append(b.attrs, ']')
}

// fieldInt appends "name = 1" in the same way.
func (b *Builder) fieldInt(first *bool, name string, x int64) {
	if !*first {
		b.attrs = append(b.attrs, ", "...)
	}
	*first = false
	b.attrs = append(b.attrs, name...)
	b.attrs = append(b.attrs, " = "...)
	b.attrs = strconv.AppendInt(b.attrs, x, 10)
}
