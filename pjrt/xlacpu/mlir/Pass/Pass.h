// Stands in for MLIR's header of this name; see ../IR/BuiltinOps.h.
#include "mlir/IR/BuiltinOps.h"  // IWYU pragma: export
