"""Functions that are traced once: torch_xla's ``torch_xla.experimental.assume_pure``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import _absent
from .._backend.core import native, recording, scalar_type
from .._backend.functions import Function, from_recorded
from .._backend.partitioning import is_traced
from ..core import xla_builder, xla_model

__all__ = ["PureModule", "assume_pure", "assume_pure_torch", "j2t_autograd"]

__getattr__ = _absent.attributes(__name__)


def j2t_autograd(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of JAX as one of xla tensors, with gradients; see `torch_go_xla.core.xla_builder.call_jax`.

    Args:
        fn: the function of JAX.

    Raises:
        ImportError: JAX is not installed; raised at a call.

    Example:
        >>> import torch
        >>> from torch_go_xla.experimental.assume_pure import j2t_autograd
        >>> double = j2t_autograd(lambda x: x * 2)
        >>> double(torch.ones(2, device="xla")).tolist()  # doctest: +SKIP
        [2.0, 2.0]
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return xla_builder.call_jax(fn, args, kwargs)

    return call


def assume_pure(fn: Callable[..., Any], *, add_rng_seed_argument: bool = False) -> Callable[..., Any]:
    """Return a function that does what ``fn`` does, and is traced once for each kind of arguments.

    Calls record one op in the place of all those of the function, with gradients. The function must be pure: it is
    called only to be traced.

    Args:
        fn: a function of xla tensors and hashable values, in nested data. Tensors that it needs are arguments of it.
        add_rng_seed_argument: the result takes ``rng_seed=``, an int, by which ``fn`` draws random numbers. It is then
            called each time.

    Returns:
        The function. It raises TypeError for an argument that is neither a tensor nor hashable. It raises
        NotLoweredError if ``fn`` draws random numbers without a seed.

    Example:
        >>> import torch
        >>> from torch_go_xla.experimental.assume_pure import assume_pure
        >>> @assume_pure
        ... def f(x):
        ...     return x.sin() + 1
        >>> x = torch.zeros(2, device="xla", requires_grad=True)
        >>> f(x).sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0]
    """
    if add_rng_seed_argument:

        @functools.wraps(fn)
        def seeded(*args: Any, rng_seed: int | None = None, **kwargs: Any) -> Any:
            if rng_seed is None:
                raise AssertionError("Missing keyword argument rng_seed.")
            with xla_model.fork_rng():
                xla_model.set_rng_state(int(rng_seed))
                return fn(*args, **kwargs)

        return seeded

    known: dict[Any, tuple[Callable[..., Any], list[Any]]] = {}

    @functools.wraps(fn)
    def pure(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        if any(map(is_traced, tensors)):
            return fn(*args, **kwargs)
        key = tree, tuple(map(_key, leaves)), _modes()
        if key not in known:
            known[key] = _traced(fn, leaves, tree)
        call, trees = known[key]
        values = iter(call(*tensors))
        result, constants = trees[0]
        return pytree.tree_unflatten([next(values) if c is _TENSOR else c for c in constants], result)

    return pure


_TENSOR = object()  # stands for a tensor among constants


def _modes() -> tuple[Any, ...]:
    """Return what a trace depends on besides its arguments."""
    cast = torch.is_autocast_enabled("xla") and torch.get_autocast_dtype("xla")
    return torch.is_grad_enabled(), torch.get_default_dtype(), cast


def _key(x: Any) -> Any:
    """Return what a trace depends on of an argument."""
    if not isinstance(x, torch.Tensor):
        hash(x)
        return type(x), x
    return x.dtype, tuple(x.shape), x.requires_grad, x.device


def _traced(fn: Callable[..., Any], leaves: Sequence[Any], tree: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of only the tensors, and where the structure of its result will be."""
    from torch._functorch.aot_autograd import aot_function

    trees: list[Any] = []

    def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = iter(tensors)
        args, kwargs = pytree.tree_unflatten([next(given) if isinstance(x, torch.Tensor) else x for x in leaves], tree)
        values, result = pytree.tree_flatten(fn(*args, **kwargs))
        trees[:] = [(result, [_TENSOR if isinstance(v, torch.Tensor) else v for v in values])]
        return [v for v in values if isinstance(v, torch.Tensor)]

    leaves = [_TENSOR_LIKE if isinstance(x, torch.Tensor) else x for x in leaves]
    compiler: Any = _compiler
    return aot_function(flat, fw_compiler=compiler, bw_compiler=compiler), trees


_TENSOR_LIKE = torch.empty(0)  # keeps no argument alive


def _compiler(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """Return a graph as one op, which is traced when it is called first."""
    known: tuple[Function, list[bool]] | None = None

    def run(args: list[Any]) -> list[Any]:
        nonlocal known
        given = list(args)
        args.clear()  # the boxed convention: the caller keeps no argument alive
        function, there = known = known or _function(graph, given)
        values = iter(function(given))
        return [next(values) if is_there else None for is_there in there]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _function(graph: torch.fx.GraphModule, given: Sequence[torch.Tensor]) -> tuple[Function, list[bool]]:
    """Return a graph as a function of the core, and which of its results there are."""
    core = native()
    with torch.no_grad(), recording():
        inputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in given]
        for x in inputs:
            core.placeholder(core.fast.handle(x), scalar_type(x.dtype), x.shape)
        results = graph(*inputs)
        values = [x.to("xla").clone(memory_format=torch.contiguous_format) for x in results if x is not None]
    return from_recorded(inputs, values), [x is not None for x in results]


def assume_pure_torch(func: Callable[..., Any], use_cache: bool = False) -> Callable[..., Any]:
    """Return what `assume_pure` returns, under torch_xla's other name; gradients pass through it, too.

    Args:
        func: the function.
        use_cache: accepted for torch_xla's programs: traces are always kept, one for each kind of arguments.

    Example:
        >>> import torch
        >>> from torch_go_xla.experimental.assume_pure import assume_pure_torch
        >>> with torch.no_grad():
        ...     f = assume_pure_torch(lambda x: x + 1)
        ...     f(torch.zeros(2, device="xla")).tolist()
        [1.0, 1.0]
    """
    return assume_pure(func)


class PureModule(torch.nn.Module):
    """A module whose forward pass is traced once for each kind of arguments, as by `assume_pure`.

    Args:
        module: the module. Its forward pass must write to no buffer.

    Example:
        >>> import torch
        >>> from torch_go_xla.experimental.assume_pure import PureModule
        >>> model = PureModule(torch.nn.Linear(2, 1).to("xla"))
        >>> model(torch.ones(3, 2, device="xla")).shape
        torch.Size([3, 1])
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._pure_forward = assume_pure(functools.partial(_forward, module))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns.

        Args:
            args: what it takes.
            kwargs: what it takes by name.

        Example:
            >>> import torch
            >>> from torch_go_xla.experimental.assume_pure import PureModule
            >>> PureModule(torch.nn.ReLU()).forward(-torch.ones(2, device="xla")).tolist()
            [0.0, 0.0]
        """
        named = dict(self._module.named_parameters()), dict(self._module.named_buffers())
        training = tuple(m.training for m in self._module.modules())
        return self._pure_forward(training, *named, args, kwargs)


def _forward(
    module: torch.nn.Module, training: tuple[bool, ...], parameters: Any, buffers: Any, args: Any, kwargs: Any
) -> Any:
    """Run a module; ``training`` tells its modes apart."""
    return torch.func.functional_call(module, (parameters, buffers), args, kwargs)
