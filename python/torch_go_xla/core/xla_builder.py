"""Functions of JAX on xla tensors: `call_jax`, by the name of torch_xla's ``torch_xla.core.xla_builder``.

JAX only traces the function. Its program becomes part of the step's program, so that XLA fuses it with what is around
it. JAX computes nothing and needs no device: ``JAX_PLATFORMS=cpu`` keeps it from opening one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch

from .. import _absent
from .._backend.core import is_xla
from .._backend.functions import Function, define
from ..runtime import device_type

__all__ = ["call_jax"]

__getattr__ = _absent.attributes(__name__)


def call_jax(
    jax_func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    name: str | None = None,
    override_hash: Any = None,
) -> Any:
    """Return what a function of JAX computes of xla tensors. Gradients pass through it, by ``jax.vjp``.

    The function is traced once for each combination of the shapes and dtypes of the tensors and of the other
    arguments. Define it once, and not in each step: another function object is traced again. Kernels of Pallas work
    where JAX lowers them: on the CPU with ``interpret=True``.

    JAX has no 64-bit types unless ``jax_enable_x64`` is set. Without it the function gets int32 for int64, as JAX's own
    do.

    Args:
        jax_func: a pure function that ``jax.jit`` can trace.
        args: its arguments: pytrees of JAX whose leaves are xla tensors and hashable values. A tensor becomes an array,
            a ``torch.dtype`` becomes that of JAX. Other values stay as they are.
        kwargs: its keyword arguments, likewise.
        name: accepted for torch_xla's programs.
        override_hash: stands for the function in the cache. Give it where each call has a function object of its own.

    Returns:
        A tensor, or a pytree with tensors in the place of arrays.

    Raises:
        ImportError: JAX is not installed.
        TypeError: a leaf of the arguments is neither a tensor nor hashable.
        RuntimeError: a tensor is not on an xla device.
        ValueError: a tensor has a type that JAX does not have, or has only with ``jax_enable_x64``.
        CompileError: where a result is read: XLA refuses the program.

    Example:
        >>> import torch, torch_go_xla.core.xla_builder as xb
        >>> def f(x, scale):
        ...     import jax.numpy as jnp
        ...     return {"y": jnp.sin(x) * scale}
        >>> x = torch.zeros(2, device="xla", requires_grad=True)
        >>> y = xb.call_jax(f, (x, 3.0))["y"]  # doctest: +SKIP
        >>> y.sum().backward()  # doctest: +SKIP
        >>> x.grad.tolist()  # doctest: +SKIP
        [3.0, 3.0]
    """
    jax = _jax()
    leaves, tree = jax.tree.flatten((tuple(args), kwargs or {}))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if off := [x for x in tensors if not is_xla(x)]:
        raise RuntimeError(f"call_jax: expected xla tensors, got one on {off[0].device}")
    constants = tuple(_TENSOR if isinstance(x, torch.Tensor) else (type(x), x) for x in leaves)
    try:
        function = _function(_Named(jax_func, override_hash), tree, constants, _settings(jax))
    except TypeError as e:
        odd = [type(x).__name__ for x in leaves if not isinstance(x, torch.Tensor) and not _is_hashable(x)]
        if not odd:
            raise
        raise TypeError(f"call_jax: the arguments have a {odd[0]}, which is not a tensor and not hashable") from e
    values = _call(function, tensors)
    return jax.tree.unflatten(function.results[tuple(map(_kind, tensors))], values)


def _jax() -> ModuleType:
    try:
        import jax  # type: ignore[import-not-found]
    except ImportError as e:
        raise ImportError('functions of JAX need JAX: pip install "jax[cpu]"') from e
    return jax  # type: ignore[no-any-return]


def _settings(jax: Any) -> tuple[Any, ...]:
    """Return the settings of JAX that change what is traced."""
    names = ("enable_x64", "default_matmul_precision", "numpy_dtype_promotion", "default_prng_impl")
    return tuple(getattr(jax.config, f"jax_{name}", None) for name in names)


def _is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


_TENSOR = "tensor"  # stands for a tensor among the constant arguments; the others are pairs


class _Named:
    """A function with what stands for it in the cache."""

    def __init__(self, call: Callable[..., Any], name: Any) -> None:
        self.call = call
        self._name = call if name is None else name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)


class _Kind(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


def _kind(x: torch.Tensor) -> _Kind:
    return _Kind(str(x.dtype).removeprefix("torch."), tuple(x.shape))


def _is_float(kind: _Kind) -> bool:
    return "float" in kind.dtype or "complex" in kind.dtype


class _Function:
    """A function of JAX over a list of arrays, which returns a list of arrays."""

    def __init__(self, call: Callable[..., Sequence[Any]], results: dict[tuple[_Kind, ...], Any] | None = None) -> None:
        self.call = call
        self.results = {} if results is None else results  # their structures, where ``call`` notes them
        self.program = functools.lru_cache(maxsize=256)(self._program)
        self.derivative = functools.lru_cache(maxsize=256)(functools.partial(_Derivative, self))

    def _program(self, kinds: tuple[_Kind, ...]) -> Function:
        jax = _jax()
        specs = [jax.ShapeDtypeStruct(k.shape, _jax_type(jax, k.dtype)) for k in kinds]
        platform = device_type().lower()
        traced = jax.jit(lambda *xs: self.call(kinds, *xs), keep_unused=True).trace(*specs)
        known = platform if platform in ("cpu", "cuda", "rocm", "tpu") else "cpu"
        return define(str(traced.lower(lowering_platforms=(known,)).as_text()))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Record a call."""
        program = self.program(tuple(map(_kind, tensors)))
        return program([x.to(want.dtype) for x, want in zip(tensors, program.arguments, strict=True)])


class _Derivative:
    """The derivative of a function, by the arguments whose places are wanted."""

    def __init__(self, function: _Function, kinds: tuple[_Kind, ...], wanted: tuple[int, ...]) -> None:
        self._function, self._kinds, self._wanted = function, kinds, wanted
        self.count = 0  # of the results, known when `forward` is traced
        self._saved: Any = None  # the structure of what `forward` saves
        self.forward = _Function(self._forward)
        self.backward = _Function(self._backward)
        self.again = _Function(self._again)

    def _pulled(self, xs: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return the results, and the function of the gradients of those that are floats."""
        jax = _jax()

        def of(*some: Any) -> tuple[list[Any], list[Any]]:
            given = list(xs)
            for i, x in zip(self._wanted, some, strict=True):
                given[i] = x
            values = list(self._function.call(self._kinds, *given))
            return [v for v in values if jax.numpy.issubdtype(v.dtype, jax.numpy.inexact)], values

        _, derivative, values = jax.vjp(of, *(xs[i] for i in self._wanted), has_aux=True)
        return values, derivative

    def _forward(self, _: Any, *xs: Any) -> list[Any]:
        """Return the results, and what the derivative needs."""
        values, derivative = self._pulled(xs)
        saved, self._saved = _jax().tree.flatten(derivative)
        self.count = len(values)
        return [*values, *saved]

    def _backward(self, _: Any, *xs: Any) -> Sequence[Any]:
        """Return the gradients, of what `_forward` saved and the gradients of the results."""
        count = self._saved.num_leaves
        derivative = _jax().tree.unflatten(self._saved, xs[:count])
        return derivative(list(xs[count:]))  # type: ignore[no-any-return]

    def _again(self, _: Any, *xs: Any) -> Sequence[Any]:
        """Return the gradients, of the arguments and the gradients of the results."""
        count = len(self._kinds)
        return self._pulled(xs[:count])[1](list(xs[count:]))  # type: ignore[no-any-return]


def _jax_type(jax: Any, name: str) -> Any:
    try:
        dtype = jax.numpy.dtype(name)
    except TypeError:
        raise ValueError(f"call_jax: JAX has no type {name}") from None
    short = jax.dtypes.canonicalize_dtype(dtype)
    if short != dtype and jax.numpy.issubdtype(dtype, jax.numpy.inexact):
        raise ValueError(f"call_jax: JAX has {name} only with jax.config.update('jax_enable_x64', True)")
    return short


@functools.lru_cache(maxsize=1024)
def _function(named: _Named, tree: Any, constants: tuple[Any, ...], settings: tuple[Any, ...]) -> _Function:
    """Return a function of only the tensors: the other arguments are constants of it."""
    jax = _jax()

    results: dict[tuple[_Kind, ...], Any] = {}

    def call(kinds: tuple[_Kind, ...], *tensors: Any) -> list[Any]:
        rest: Iterator[Any] = iter(tensors)
        leaves = [next(rest) if c is _TENSOR else _constant(jax, c[1]) for c in constants]
        args, kwargs = jax.tree.unflatten(tree, leaves)
        values, results[kinds] = jax.tree.flatten(named.call(*args, **kwargs))
        return [jax.numpy.asarray(v) for v in values]

    return _Function(call, results)


def _constant(jax: Any, x: Any) -> Any:
    return jax.numpy.dtype(str(x).removeprefix("torch.")) if isinstance(x, torch.dtype) else x


def _call(function: _Function, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    kinds = tuple(map(_kind, tensors))
    wanted = tuple(i for i, x in enumerate(tensors) if x.requires_grad and _is_float(kinds[i]))
    if not wanted or not torch.is_grad_enabled():
        return function.run(tensors)
    return list(_Differentiated.apply(function, wanted, *tensors))


class _Differentiated(torch.autograd.Function):
    """A call whose gradients are those of ``jax.vjp``."""

    @staticmethod
    def forward(ctx: Any, function: _Function, wanted: tuple[int, ...], *tensors: torch.Tensor) -> Any:
        """Record the call, and keep what the derivative needs."""
        derivative = function.derivative(tuple(map(_kind, tensors)), wanted)
        values = derivative.forward.run(tensors)
        results, saved = values[: derivative.count], values[derivative.count :]
        ctx.derivative, ctx.wanted, ctx.count = derivative, wanted, len(tensors)
        ctx.floats = [_is_float(_kind(x)) for x in results]
        ctx.save_for_backward(*tensors, *saved)
        ctx.mark_non_differentiable(*(x for x, f in zip(results, ctx.floats, strict=True) if not f))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Record the derivative; a derivative that is itself derived starts from the arguments."""
        given = [
            g.conj().resolve_conj() for g, f in zip(grads, ctx.floats, strict=True) if f
        ]  # JAX's gradients are torch's conjugates
        tensors, saved = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        if torch.is_grad_enabled():
            found = _call(ctx.derivative.again, [*tensors, *given])
        else:
            found = ctx.derivative.backward.run([*saved, *given])
        result: list[Any] = [None] * ctx.count
        for i, g in zip(ctx.wanted, found, strict=True):
            result[i] = g.conj().resolve_conj()
        return None, None, *result
