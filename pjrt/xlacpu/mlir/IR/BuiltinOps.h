// Stands in for MLIR's header of this name, which the tensorflow package does
// not ship. XLA's headers name these types in signatures only; the plugin hands
// programs over as text and never makes an MLIR object. mlir::ModuleOp is
// passed by value in virtual functions: like the real one, it is one pointer.
#ifndef PJRT_XLACPU_MLIR_IR_BUILTINOPS_H_
#define PJRT_XLACPU_MLIR_IR_BUILTINOPS_H_

namespace mlir {

class DialectRegistry;
class DictionaryAttr;
class MLIRContext;
class Operation;

class ModuleOp {
 public:
  Operation* state = nullptr;
};

template <class Op>
class OwningOpRef;

}  // namespace mlir

#endif  // PJRT_XLACPU_MLIR_IR_BUILTINOPS_H_
