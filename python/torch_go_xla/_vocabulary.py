"""The vocabulary that this package shares with the Go library; see gocore/wire.

Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit.
"""

from __future__ import annotations

# State of the vocabulary; the library must have the same.
HASH = "6ada875185d047bb"

# Disposition is what becomes of a result.
NEW = 0
WRITE = 1
DROP = 2
DISPOSITION_MASK = 255
RESIZABLE = 256

# Lazy is a bit that torch sets on a tensor in place of computing.
LAZY_CONJ = 1
LAZY_NEG = 2

# How a kernel encodes an argument, by its type in a schema, without "?" and list lengths.
TYPE_CODES = {
    "Tensor": 0,
    "Tensor[]": 1,
    "Tensor?[]": 1,
    "int": 2,
    "SymInt": 2,
    "bool": 2,
    "int[]": 3,
    "SymInt[]": 3,
    "bool[]": 3,
    "float": 4,
    "float[]": 5,
    "Scalar": 6,
    "Scalar[]": 7,
    "str": 8,
    "Layout": 9,
    "MemoryFormat": 9,
    "ScalarType": 10,
    "Device": 11,
    "Generator": 12,
}

# Names of exception classes, by the kind of the error.
ERROR_CLASSES = (
    "RuntimeError",
    "RuntimeError",
    "TypeError",
    "ValueError",
    "IndexError",
    "NotLoweredError",
    "XlaError",
    "OutOfMemoryError",
    "CompileError",
    "DonatedBufferError",
    "ForkedProcessError",
    "MemoryError",
    "NotImplementedError",
    "KeyboardInterrupt",
    "BlockingIOError",
    "LinAlgError",
)

# Numbers of c10::ScalarType, by the names of the torch module, of the types that the device has tensors of.
SCALAR_TYPES = {
    "bool": 11,
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
    "float16": 5,
    "bfloat16": 15,
    "float32": 6,
    "float64": 7,
    "complex64": 9,
    "complex128": 10,
    "float8_e4m3fn": 24,
    "float8_e5m2": 23,
    "float8_e4m3fnuz": 26,
    "float8_e5m2fnuz": 25,
    "float8_e8m0fnu": 44,
}

# Names of the torch module, by the names of StableHLO.
HLO_TYPES = {
    "i1": "bool",
    "ui8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}
