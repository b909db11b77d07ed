// Package wire is the vocabulary of the border between the C kernels, the core and Python. It says what the words of a
// traced op and of its results mean, and how a call ends.
//
// Each list is stated here and nowhere else. `go generate ./gocore/wire` writes them out, with the element types of
// package dtype and the kinds of errors of package errs. It makes a C header (vocabulary.h in gocore/pyfast and
// gocore/torchcpu) and a Python module (torch_go_xla/_vocabulary.py). A constant Head of type HeadWord becomes
// TGX_HEAD_…. Hash names the state of the lists: a library and a package that differ in it refuse each other.
//
// A record is what a kernel hands to engine.Trace for one op:
//
//	row, arguments, dispositions, device, location, element    the head, see HeadWord
//	argument…                                                   a tag, then its payload, see Kind
//	disposition…                                                a Write is followed by the tensor to write to
//
// The package imports dtype.
package wire

//go:generate go run ../internal/generate

// Kind says what an encoded argument is. Its first word, the tag, is kind | count<<CountShift (| type<<TypeShift).
//
// The same encoding serves twice. On the wire from the C kernels a tensor or number carries its data
// behind the tag; in a node the data has moved to the operands and only the tag is left:
//
//	kind      on the wire                                              in a node
//	Null      –                                                        –
//	Tensor    n=ndim, type<<16; handle, offset, sizes[n], strides[n]   – (one operand)
//	Int       value (Scalar argument or number in a Tensor place)      – (one operand, an OpScalar)
//	Float     IEEE bits                                                – (one operand, an OpScalar)
//	Bool      0 or 1                                                   – (one operand, an OpScalar)
//	Complex   IEEE bits, IEEE bits                                     – (one operand, an OpScalar)
//	HostZero  type<<16; two words of value (a 0-dim CPU tensor)        – (one operand, an OpScalar)
//	Const     value (int, bool, SymInt, enum or None-able int)         the same
//	ConstF    IEEE bits (float argument)                               the same
//	Ints      n values (int[], bool[])                                 the same
//	Floats    n IEEE bits                                              the same
//	Tensors   n encoded Tensor or Null arguments                       – (n operands, None for Null)
//	Scalars   n encoded numbers                                        – (n operands)
//	Text      n bytes, padded to words                                 the same
//	Type      c10::ScalarType number                                   the same
//	Device    device index                                             Null (the graph has one device)
//	Generator number of a generator                                    Null
type Kind uint8

// The kinds of encoded arguments.
const (
	KNull Kind = iota
	KTensor
	KInt
	KFloat
	KBool
	KComplex
	KHostZero
	KConst
	KConstF
	KInts
	KFloats
	KTensors
	KScalars
	KText
	KType
	KDevice
	KGenerator
	KResult Kind = 32 // memory like that of result n, whose values do not matter; only in a call of a torch kernel
)

// TagBits are the places of what a tag holds.
type TagBits int

// The places in a tag. The count takes 48 bits for a list and 8 for a tensor, whose type is above it.
const (
	KindMask   TagBits = 0xff
	CountShift TagBits = 8
	RankMask   TagBits = 0xff
	TypeShift  TagBits = 16
)

// Limit bounds what a record holds.
type Limit int

// The limits.
const (
	MaxArgs Limit = 48  // arguments of a schema; torch's longest has 30-odd
	MaxDims Limit = 255 // dimensions of a tensor
)

// HeadWord is a word of a record before its arguments.
type HeadWord int

// The words of the head.
const (
	HeadRow          HeadWord = iota // number of the op's row in the table
	HeadArgs                         // how many arguments follow
	HeadDispositions                 // how many dispositions follow them; 0 for an op that returns a list
	HeadDevice                       // index of the device for an op without tensors, else -1
	HeadLocation                     // number of the Python line; 0 for none
	HeadElement                      // of a foreach call; 0 for its first, and for all other calls
	HeadWords                        // how many they are
)

// Disposition is what becomes of a result.
type Disposition int64

// The dispositions. Resizable is or-ed to Write for out= arguments.
const (
	New             Disposition = 0 // a new tensor
	Write           Disposition = 1 // written to the tensor that follows
	Drop            Disposition = 2
	DispositionMask Disposition = 0xff
	Resizable       Disposition = 0x100
)

// ResultWord is a word of one result. out[0] is how many results there are, the first begins at out[1].
type ResultWord int

// The words of a result. Its tensor is dense; it lies row by row unless its rank is marked Strided.
const (
	ResultHandle ResultWord = iota // of its storage; 0: no tensor is made, and the next result follows at once
	ResultType                     // c10::ScalarType number
	ResultDevice
	ResultRank
	ResultSizes // the first of as many sizes
)

// RankMark is or-ed to the rank of a result or of a resize.
type RankMark int64

// Strided marks a result, or a resize, whose strides follow its sizes; no rank is as large.
const Strided RankMark = 1 << 30

// ResizeWord is a word of out after the status Resize.
type ResizeWord int

// The words that ask for another size of an out= argument.
const (
	ResizeDisposition ResizeWord = iota // which disposition it stands in
	ResizeQuiet                         // 1: without torch's warning that it had elements
	ResizeRank
	ResizeSizes // the first of as many sizes
)

// Status is how a call of the core ends.
type Status int64

// The statuses.
const (
	Done   Status = iota
	Failed        // the error is given beside it
	Resize        // an out= argument must take other sizes first: see ResizeWord
	Busy          // another thread holds the core, or no device is open
)

// Outcome is what the call of a captured computation has done.
type Outcome int64

// The outcomes.
const (
	Missed Outcome = iota // nothing: it was captured for other shapes, or for a storage that is gone; record it again
	Ran                   // it was launched
	Synced                // it was launched, and a Sync would do nothing: no more is recorded, no launch waits for its turn
)

// ArgType is how a kernel encodes an argument: the type that its schema declares, less "?" and list lengths.
type ArgType int

// The types of arguments.
const (
	ArgTensor ArgType = iota
	ArgTensors
	ArgInt
	ArgInts
	ArgFloat
	ArgFloats
	ArgScalar
	ArgScalars
	ArgText
	ArgEnum
	ArgScalarType
	ArgDevice
	ArgGenerator
	ArgCount
)

// SchemaTypes are the types as torch's schemas write them, by ArgType.
var SchemaTypes = [ArgCount][]string{
	ArgTensor:     {"Tensor"},
	ArgTensors:    {"Tensor[]", "Tensor?[]"},
	ArgInt:        {"int", "SymInt", "bool"},
	ArgInts:       {"int[]", "SymInt[]", "bool[]"},
	ArgFloat:      {"float"},
	ArgFloats:     {"float[]"},
	ArgScalar:     {"Scalar"},
	ArgScalars:    {"Scalar[]"},
	ArgText:       {"str"},
	ArgEnum:       {"Layout", "MemoryFormat"},
	ArgScalarType: {"ScalarType"},
	ArgDevice:     {"Device"},
	ArgGenerator:  {"Generator"},
}

// Lazy is a bit that torch sets on a tensor in place of computing.
type Lazy int

// The lazy bits.
const (
	LazyConj Lazy = 1 << iota // the data is to be read conjugated
	LazyNeg                   // the data is to be read negated
)

// Tag makes the first word of an encoded argument.
func Tag(k Kind, n int) int64 { return int64(k) | int64(n)<<CountShift }

// Untag splits the first word of an argument that is not a tensor into its kind and count.
func Untag(w int64) (k Kind, n int) { return Kind(w & int64(KindMask)), int(uint64(w) >> CountShift) }

// payloads are those of the kinds whose count does not matter.
var payloads = [...]int8{
	KNull: 0, KTensor: -1, KInt: 1, KFloat: 1, KBool: 1, KComplex: 2, KHostZero: 2, KConst: 1, KConstF: 1, KInts: -1,
	KFloats: -1, KTensors: 0, KScalars: 0, KText: -1, KType: 1, KDevice: 1, KGenerator: 1,
}

// Payload is the words behind the tag of an argument, without the members of a list of arguments. It is
// negative for a kind that does not exist.
func Payload(tag int64) int {
	if k := tag & int64(KindMask); k < int64(len(payloads)) && payloads[k] >= 0 {
		return int(payloads[k])
	}
	return counted(tag)
}

func counted(tag int64) int {
	switch k, n := Untag(tag); k {
	case KTensor:
		return 2 + 2*(n&int(RankMask))
	case KInts, KFloats:
		return n
	case KText:
		return (n + 7) / 8
	}
	return -1
}
