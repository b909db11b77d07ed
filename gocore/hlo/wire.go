// Package hlo reads what an XLA compiler has made of a program, a serialized HloModuleProto. It finds the shardings of
// its results, its collectives, custom calls and donated parameters, and its text. Field numbers are those of XLA's
// hlo.proto and xla_data.proto.
//
// The package imports sharding, shape, dtype and errs.
package hlo

import (
	"encoding/binary"
	"iter"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// field is one field of a protocol buffer: a number, or bytes.
type field struct {
	number int
	value  uint64
	bytes  []byte // nil for a number
}

// fields walks over an encoded message; what cannot be read ends it.
func fields(m []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(m) > 0 {
			tag, n := binary.Uvarint(m)
			if n <= 0 {
				return
			}
			m = m[n:]
			f := field{number: int(tag >> 3)}
			size := 0
			switch tag & 7 {
			case 0:
				f.value, size = binary.Uvarint(m)
			case 1:
				size = 8
			case 5:
				size = 4
			case 2:
				length, n := binary.Uvarint(m)
				if n <= 0 || length > uint64(len(m)-n) {
					return
				}
				f.bytes, size = m[n:n+int(length):n+int(length)], n+int(length)
			}
			if size <= 0 || size > len(m) {
				return
			}
			m = m[size:]
			if !yield(f) {
				return
			}
		}
	}
}

// ints appends a repeated integer field, packed or not.
func (f field) ints(to []int64) []int64 {
	if f.bytes == nil {
		return append(to, int64(f.value))
	}
	for m := f.bytes; len(m) > 0; {
		v, n := binary.Uvarint(m)
		if n <= 0 {
			break
		}
		to, m = append(to, int64(v)), m[n:]
	}
	return to
}

// Module is the HloModuleProto in an optimized program of a format that PJRT plugins use. Another format is an error of
// kind Compile.
func Module(program []byte, format string) ([]byte, error) {
	switch format {
	case "hlo":
		return program, nil
	case "hlo_with_config":
		for f := range fields(program) {
			if f.number == 1 {
				return f.bytes, nil
			}
		}
	}
	return nil, errs.New(errs.Compile, "the plugin gives its optimized program in the format %q, which cannot be read", format)
}
