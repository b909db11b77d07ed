// Stands in for MLIR's header of this name; see BuiltinOps.h.
#include "mlir/IR/BuiltinOps.h"  // IWYU pragma: export
