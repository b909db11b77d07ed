"""``torch_go_xla.compile``: a step that is recorded twice and then runs without being recorded."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import torch
from torch.utils import _pytree as pytree

from ._backend import eager, html
from ._backend.core import native
from ._backend.recorded import Recorded

_LEAVES = frozenset((bool, int, float, str, type(None), torch.Tensor, torch.nn.Parameter))


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the global names of a function's code and of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _reachable(function: Any) -> Iterator[Callable[[], Any]]:
    """Yield, for every value that a function takes from outside, what gives that value now."""
    while isinstance(function, functools.partial):
        for value in (*function.args, *function.keywords.values()):
            yield functools.partial(_itself, value)
        function = function.func
    if isinstance(function, types.MethodType | torch.nn.Module):
        owner = function.__self__ if isinstance(function, types.MethodType) else function
        yield functools.partial(_itself, owner)
        for name in vars(owner):
            yield functools.partial(vars(owner).get, name)
        function = function.__func__ if isinstance(function, types.MethodType) else None
    if not isinstance(function, types.FunctionType):
        return
    for cell in function.__closure__ or ():
        yield functools.partial(getattr, cell, "cell_contents", None)
    space = function.__globals__
    for name in dict.fromkeys(_names(function.__code__)):
        if name in space:
            yield functools.partial(space.get, name)


def _itself(value: Any) -> Any:
    return value


def _count_on_device(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer that counts its steps on the CPU count them on the device, so that they can be replayed.

    That is torch's ``capturable=True``. Its state dict says ``capturable=False`` as before, for it is loaded elsewhere.
    """
    changed = False
    for group in getattr(optimizer, "param_groups", ()):
        if group.get("capturable", True) or not any(p.device.type == "xla" for p in group["params"]):
            continue
        group["capturable"] = changed = True
        for p in group["params"]:
            state = optimizer.state.get(p, {})
            for name in ("step", "mu_product"):  # what optimizers of torch keep on the CPU by default
                if isinstance(state.get(name), torch.Tensor):
                    state[name] = state[name].to(p.device)
    if changed and _hide_capturable not in optimizer._optimizer_state_dict_post_hooks.values():
        optimizer.register_state_dict_post_hook(_hide_capturable)


def _hide_capturable(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    for group in state["param_groups"]:
        group["capturable"] = False


class Compiled:
    """A function under `compile`; calling it replays the recorded program where one fits."""

    def __init__(self, function: Callable[..., Any], full_graph: bool, name: str | None, graphs: int | None) -> None:
        self._function = eager.whole(function)
        self._full_graph = full_graph
        self._name = name or getattr(function, "__name__", type(function).__name__)
        self._graphs = graphs
        self._outside = list(_reachable(function))
        self._optimizers: list[Callable[[], Any]] = []  # those of them that give optimizers
        # By device and tree of the arguments, None where they are leaves themselves.
        self._recorded: dict[tuple[int, Any], Recorded] = {}
        self._latest: Recorded | None = None
        self._arranged = False
        functools.update_wrapper(self, function, updated=())

    def _flat(self, tree: Any, *leaves: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(list(leaves), tree)
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: Sequence[Any] = args
        tree = None
        if kwargs or not _LEAVES.issuperset(map(type, args)):
            leaves, tree = pytree.tree_flatten((args, kwargs))
        fast = native().fast
        if self._latest is None or self._latest.reason:  # the latest call was not a replay
            self._optimizers = [value for value in self._outside if isinstance(value(), torch.optim.Optimizer)]
        for value in self._optimizers:
            _count_on_device(value())
        device = fast.device_of(leaves)
        recorded = self._recorded.get((device, tree))
        if recorded is None:
            flat = self._function if tree is None else functools.partial(self._flat, tree)
            recorded = self._recorded[device, tree] = Recorded(flat, device, state=True)
        outside = fast.describe([value() for value in self._outside], torch.nn.Module, torch.optim.Optimizer)
        result = recorded(leaves, (outside, torch.is_grad_enabled()))
        if recorded.reason:
            native().sync(device)  # a replay has seen to that
        self._latest = recorded
        if self._full_graph and recorded.reason.startswith("it reads a value") and not self._arranges_buckets():
            raise RuntimeError(f"compile(full_graph=True): {self._name} is more than one graph: {recorded.reason}")
        if self._graphs is not None and (graphs := sum(r.graphs for r in self._recorded.values())) > self._graphs:
            raise RuntimeError(f"compile: {self._name} has {graphs} different graphs, {self._graphs} are allowed")
        return result

    def _arranges_buckets(self) -> bool:
        """Say if the step may be two graphs, once: in its second step DDP exchanges the order of its buckets."""
        was, self._arranged = self._arranged, True
        return not was and any(
            isinstance(value(), torch.nn.parallel.DistributedDataParallel) for value in self._outside
        )

    @property
    def replays(self) -> int:
        """How many calls were replays."""
        return sum(r.replays for r in self._recorded.values())

    def explain(self) -> str:
        """Return how the latest call ran, and why it was recorded if it was."""
        if self._latest is None:
            return f"{self._name}: never called"
        if self._latest.reason:
            return f"{self._name}: recorded at the latest call: {self._latest.reason}"
        return f"{self._name}: {self.replays} replays"

    def __repr__(self) -> str:
        return f"<compiled {self.explain()}>"

    def _repr_html_(self) -> str:
        kinds = self._recorded.values()
        rows = [(i, r.graphs, r.replays, r.reason or "a replay") for i, r in enumerate(kinds, 1)]
        return html.table(rows, ("kind of call", "graphs", "replays", "the latest call"), f"compiled {self._name}")


class Region:
    """What ``compile()`` without a function is: a decorator, or a context whose block is a step of its own."""

    def __init__(self, full_graph: bool, name: str | None, graphs: int | None) -> None:
        self._full_graph = full_graph
        self._name = name or "block"
        self._graphs = graphs
        self._before = 0
        self._whole = eager.recorded_whole()

    def __call__(self, f: Callable[..., Any]) -> Compiled:
        """Return the function, compiled."""
        return Compiled(f, self._full_graph, self._name if self._name != "block" else None, self._graphs)

    def __enter__(self) -> Region:
        native().sync_all(-1, wait=False)
        self._before = native().syncs()
        self._whole = eager.recorded_whole()
        self._whole.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._whole.__exit__(None, None, None)
        broken = self._full_graph and native().syncs() != self._before
        native().sync_all(-1, wait=False)
        if broken and kind is None:
            raise RuntimeError(
                f"compile(full_graph=True): {self._name} is more than one graph: it reads a value or syncs"
            )


@overload
def compile(
    f: Callable[..., Any],
    full_graph: bool = ...,
    name: str | None = ...,
    max_different_graphs: int | None = ...,
) -> Compiled: ...
@overload
def compile(
    f: None = ..., full_graph: bool = ..., name: str | None = ..., max_different_graphs: int | None = ...
) -> Region: ...
def compile(
    f: Callable[..., Any] | None = None,
    full_graph: bool = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> Compiled | Region:
    """Make a step that runs without being recorded, once it is known: a function, a decorator or a ``with`` block.

    A block is recorded every time, as one step: ``with torch_go_xla.compile(): ...``.

    The first two calls record the step as usual, backward pass and optimizer included. If both are the same program
    with the same numbers, later calls only hand over the tensors. Parameters, optimizer states and the random state
    are read and written where they are. A call with other shapes, types, aliasing or values of its arguments is
    recorded again. So is one after a change of what the function takes from its closure or its module's globals. That
    may be a number, flag, tensor, sequence of these, module (its modes, parameters and buffers) or optimizer setting.
    A function whose numbers differ from call to call is recorded at every call; `Compiled.explain` says so. Optimizers
    that the function takes from there count their steps on the device, as with torch's ``capturable=True``.

    The step may return its loss, after it has called backward. The result of a replay requires grad as the loss does,
    but has no graph. If the program calls backward itself, by what the step returns, every call is recorded.

    As with ``jax.jit``, other effects on Python happen while recording only, and other Python state is seen then only.

    Args:
        f: the function. Without it, a decorator or context is returned.
        full_graph: raise an error if the function reads a value on the way.
        name: the function's name in messages.
        max_different_graphs: raise an error if the function turns out to be more graphs than that.

    Returns:
        `Compiled`, which is called as the function. Its `explain` says how the latest call ran, and `replays` counts.
        Without a function `Region`, a decorator and context.

    Raises:
        RuntimeError: at a call, or where a block ends: what ``full_graph`` and ``max_different_graphs`` forbid.

    Example:
        >>> import torch, torch_go_xla
        >>> model = torch.nn.Linear(4, 1, device="xla")
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> @torch_go_xla.compile
        ... def step(x):
        ...     optimizer.zero_grad()
        ...     loss = model(x).square().mean()
        ...     loss.backward()
        ...     optimizer.step()
        ...     return loss
        >>> losses = [step(torch.ones(8, 4, device="xla")).item() for _ in range(5)]
        >>> step.explain()  # three calls were recorded: in the first there were no gradients yet
        'step: 2 replays'
    """
    if f is None:
        return Region(full_graph, name, max_different_graphs)
    return Compiled(f, full_graph, name, max_different_graphs)
