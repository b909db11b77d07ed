"""Ops whose computation is a program that you give: StableHLO, or a C function that XLA calls.

`custom_op` makes an op of torch from a StableHLO text, however it was made: by hand, by JAX, by an exporter of another
framework. `register_lowering` gives such a text to an op that there is. `register_ffi_target` makes a C function
callable from it.
"""

from __future__ import annotations

import ctypes
import functools
from _ctypes import CFuncPtr
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._backend.core import native
from ._backend.functions import Array, Function, define, describe

__all__ = ["custom_op", "register_ffi_target", "register_lowering"]


def custom_op(
    schema: str,
    *,
    stablehlo: str | Callable[..., str],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    cpu: Callable[..., Any] | None = None,
) -> torch._ops.OpOverload:
    """Define an op of torch that a StableHLO program computes on xla devices.

    The op is one of torch's: it takes part in `torch.compile`, exports and captured steps, and functions of
    `torch.library` such as ``register_vmap`` extend it. The program becomes part of the step's program, so that XLA
    fuses it with what is around it.

    Args:
        schema: name and types, such as ``"mylib::scale(Tensor x, float by) -> Tensor"``. The op may write to no
            argument. It returns a tensor, several, or ``Tensor[]``.
        stablehlo: a module in MLIR's text form, whose ``@main`` takes the tensors of the arguments, in order, and
            returns those of the result; all sizes are fixed. Or a function that returns such a text.
            It is called with the op's arguments, once for each combination. Meta tensors stand for tensors.
        backward: computes the gradients, as for ``torch.library.register_autograd``. Without it the op has none.
        setup_context: saves what ``backward`` needs, likewise.
        cpu: computes the op for tensors on the CPU. Without it they are an error.

    Returns:
        The op, which is called as ``op(x, 2.0)`` or by ``torch.ops.mylib.scale``.

    Raises:
        ValueError: the schema is not one, or writes to an argument. Later, at a call: the text is not a program whose
            results are those of the schema.
        RuntimeError: there is an op of this name. At a call: operands of other types than the program's.
        CompileError: where a result is read: XLA refuses the program.

    Example:
        >>> import torch, torch_go_xla
        >>> text = '''
        ... func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
        ...   %0 = stablehlo.add %x, %x : tensor<3xf32>
        ...   return %0 : tensor<3xf32>
        ... }
        ... '''
        >>> twice = torch_go_xla.custom_op("docs::twice(Tensor x) -> Tensor", stablehlo=text)
        >>> twice(torch.ones(3, device="xla")).tolist()
        [2.0, 2.0, 2.0]
    """
    name, parenthesis, types = schema.partition("(")
    name = name.strip()
    if not parenthesis or "::" not in name:
        raise ValueError(f'custom_op: expected a schema such as "mylib::scale(Tensor x) -> Tensor", got {schema!r}')
    if torch._C.parse_schema(schema).is_mutable:
        raise ValueError(f"custom_op: {name} writes to an argument; its program cannot")
    torch.library.define(name, parenthesis + types)
    op = _existing(name)
    program = _Program(op, stablehlo)
    torch.library.impl(name, "privateuseone")(program.compute)
    torch.library.register_fake(name, program.describe)
    if cpu is not None:
        torch.library.impl(name, "cpu")(cpu)
    if backward is not None:
        torch.library.register_autograd(name, backward, setup_context=setup_context)
    return op


def register_lowering(op: str | torch._ops.OpOverload, stablehlo: str | Callable[..., str]) -> None:
    """Give an op that a library has defined, and that xla devices cannot compute, a StableHLO program.

    Its gradients, its shapes on meta tensors and its kernels for other devices stay those of the library. If it has no
    function for meta tensors, the program tells the shapes.

    Args:
        op: an overload, such as ``torch.ops.mylib.scale.default``, or its name, ``"mylib::scale"``.
        stablehlo: as for `custom_op`.

    Raises:
        ValueError: there is no such op, it writes to an argument, or torch composes it of other ops, which are what
            needs lowerings.
        TypeError: it is neither an overload nor a name.
        RuntimeError: the op has a lowering.

    Example:
        >>> import torch, torch_go_xla
        >>> torch.library.define("docs::negated", "(Tensor x) -> Tensor")
        >>> text = '''
        ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...   %0 = stablehlo.negate %x : tensor<2xf32>
        ...   return %0 : tensor<2xf32>
        ... }
        ... '''
        >>> torch_go_xla.register_lowering("docs::negated", text)
        >>> torch.ops.docs.negated(torch.ones(2, device="xla")).tolist()
        [-1.0, -1.0]
    """
    overload = _existing(op) if isinstance(op, str) else op
    if not isinstance(overload, torch._ops.OpOverload):
        raise TypeError(
            f"register_lowering: want an overload, such as torch.ops.mylib.scale.default, or its name, got {op!r}"
        )
    name = overload.name()  # type: ignore[no-untyped-call]
    if overload._schema.is_mutable:
        raise ValueError(f"register_lowering: {name} writes to an argument; its program cannot")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if has(name, "PrivateUse1"):
        raise RuntimeError(f"register_lowering: {name} has a lowering for xla")
    if has(name, "CompositeImplicitAutograd"):
        raise ValueError(f"register_lowering: torch composes {name} of other ops, which are lowered one by one")
    program = _Program(overload, stablehlo)
    torch.library.impl(name, "privateuseone")(program.compute)  # type: ignore[no-untyped-call]
    if not has(name, "Meta") and not has(name, "CompositeExplicitAutograd"):
        torch.library.register_fake(name, program.describe)


def _existing(name: str) -> torch._ops.OpOverload:
    """Return the op of a name; ValueError if there is none."""
    namespace, _, rest = name.partition("::")
    bare, _, overload = rest.partition(".")
    try:
        op: torch._ops.OpOverload = getattr(getattr(getattr(torch.ops, namespace), bare), overload or "default")
    except (AttributeError, RuntimeError):
        raise ValueError(f"register_lowering: there is no op {name!r}") from None
    return op


torch.library.register_fake("torch_go_xla::call")(describe)


def _array(x: torch.Tensor) -> Array:
    return Array(x.dtype, tuple(x.shape))


def _frozen(x: Any) -> Any:
    """Return an argument of an op as a key: tensors count by their dtype and shape."""
    if isinstance(x, torch.Tensor):
        return _array(x)
    return (list, *map(_frozen, x)) if isinstance(x, list | tuple) else x


def _thawed(x: Any) -> Any:
    """Return an argument by its key, a meta tensor for a tensor."""
    if isinstance(x, Array):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return [_thawed(y) for y in x[1:]] if isinstance(x, tuple) else x


def _tensors(arguments: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor)]


def _shown(arrays: Iterable[Array]) -> str:
    return ", ".join(map(str, arrays)) or "nothing"


class _Program:
    """What computes an op."""

    def __init__(self, op: torch._ops.OpOverload, stablehlo: str | Callable[..., str]) -> None:
        self.op = op
        self._stablehlo = stablehlo
        self._function = functools.lru_cache(maxsize=256)(self._define)
        self._many = str(op._schema.returns[0].type) == "List[Tensor]" if op._schema.returns else False

    def _write(self, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> str:
        if isinstance(self._stablehlo, str):
            return self._stablehlo
        text = self._stablehlo(*map(_thawed, args), **{name: _thawed(x) for name, x in kwargs})
        if not isinstance(text, str):
            raise TypeError(f"{self.op}: expected its StableHLO as a str, got {type(text).__name__}")
        return text

    def _define(self, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> Function:
        text = self._write(args, kwargs)
        try:
            function = define(text)
        except ValueError as e:
            raise ValueError(f"{self.op}: {e}") from None
        if not self._many and len(function.results) != len(self.op._schema.returns):
            wanted, given = len(self.op._schema.returns), _shown(function.results)
            raise ValueError(f"{self.op}: the schema has {wanted} results, its program returns {given}")
        return function

    def _of(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
        """Return the program for some arguments."""
        return self._function(tuple(map(_frozen, args)), tuple((name, _frozen(x)) for name, x in kwargs.items()))

    def _returned(self, tensors: list[torch.Tensor]) -> Any:
        return tensors if self._many else tensors[0] if len(tensors) == 1 else tuple(tensors)

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call of the program."""
        function, tensors = self._of(args, kwargs), _tensors((args, kwargs))
        if [_array(x) for x in tensors] != function.arguments:
            got = _shown(map(_array, tensors))
            raise RuntimeError(f"{self.op}: its program takes {_shown(function.arguments)}, got {got}")
        return self._returned(function(tensors))

    def describe(self, *args: Any, **kwargs: Any) -> Any:
        """Return tensors without values, like those that the program returns."""
        tensors = _tensors((args, kwargs))
        device = tensors[0].device if tensors else torch.device("xla")
        results = self._of(args, kwargs).results
        return self._returned([torch.empty(r.shape, dtype=r.dtype, device=device) for r in results])


def register_ffi_target(name: str, function: Any) -> None:
    """Make a C function callable from StableHLO, by ``stablehlo.custom_call @name`` with ``api_version = 4``.

    The function is a handler of XLA's foreign function interface (``XLA_FFI_Handler``), as ``XLA_FFI_DEFINE_HANDLER``
    of ``xla/ffi/api/ffi.h`` makes one. It must stay loaded. It is trusted: it runs within the process, on memory of
    the device.

    Args:
        name: the name of the target, for all programs of the process.
        function: an attribute of a ``ctypes.CDLL``, a capsule such as ``jax.ffi.pycapsule`` makes, or an address.

    Raises:
        TypeError: it is not a function.
        ValueError: the name is empty, or the package's own.
        RuntimeError: the target has another handler, or the device's plugin takes none.

    Example:
        >>> import ctypes, torch_go_xla
        >>> torch_go_xla.register_ffi_target("scale", ctypes.CDLL("libscale.so").Scale)  # doctest: +SKIP
    """
    native().register_target(name, _address(function))


def _address(function: Any) -> int:
    """Return where the code of a function is."""
    if isinstance(function, int) and not isinstance(function, bool):
        return function
    if isinstance(function, CFuncPtr):
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    if type(function).__name__ == "PyCapsule":
        api = ctypes.pythonapi
        name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
        return int(pointer(function, name(function)))
    raise TypeError(f"expected a C function, a capsule or an address, got {type(function).__name__}")
