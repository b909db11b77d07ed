"""Which module recorded which nodes: slots of the recorded graph, noted as modules begin and end."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .._backend.core import is_xla, native


class Modules:
    """The modules that recorded the nodes of a graph; see `modules`."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._sync = -1
        self._slots: list[int] = []  # from which on a module records, rising
        self._paths: list[tuple[str, ...]] = []
        self._seen: set[Any] = set()  # functions of autograd that a module has

    def enter(self, path: tuple[str, ...]) -> None:
        """Note that a module records what comes next; () for none."""
        core = native()
        if self._sync != core.syncs():  # the graph is a new one
            self._sync = core.syncs()
            self._slots, self._paths, self._seen = [], [], set()
        self._slots.append(core.next_slot(self._device))
        self._paths.append(path)

    def backward(self, outputs: Any, path: tuple[str, ...], begin: int) -> None:
        """Let the functions of autograd that a module has made note it when they run.

        Args:
            outputs: what the module has returned.
            path: the path of the module.
            begin: the number of autograd's next function as the module began: those before it are its callers'.
        """
        left = [t.grad_fn for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        path = (f"{path[0]} backward", *path[1:])
        reached = set()
        while left:
            function = left.pop()
            if function in reached or function._sequence_nr() < begin:
                continue
            reached.add(function)
            left += [f for f, _ in function.next_functions if f is not None]
            if function not in self._seen:  # else a module within this one has made it
                self._seen.add(function)
                function.register_prehook(lambda *_, path=path: self.enter(path))
                function.register_hook(lambda *_: self.enter(()))

    def of(self, slot: int) -> tuple[str, ...]:
        """Return the path of the module that recorded a slot; () for none."""
        i = bisect.bisect_right(self._slots, slot)
        return self._paths[i - 1] if i else ()

    def __repr__(self) -> str:
        return f"<modules of {len(set(self._paths) - {()})} kinds of nodes>"


@contextlib.contextmanager
def modules(*roots: nn.Module) -> Iterator[Modules]:
    """Note which module records each node, forward and backward, while the block runs.

    Args:
        roots: models on one device. Names begin with the class of the model.

    Yields:
        What `of` needs to fold the graph. It is good until the next sync.

    Raises:
        ValueError: there is no model, or none has a parameter or buffer on an xla device.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).to("xla")
        >>> torch_go_xla.sync()
        >>> with graph.modules(model) as found:
        ...     loss = model(torch.ones(2, 4, device="xla")).sum()
        ...     loss.backward()
        >>> recorded = graph.of(loss, model[0].weight.grad, modules=found)
        >>> sorted({node.module for node in recorded.nodes.values() if node.module})
        [('Sequential', '0'), ('Sequential', '1'), ('Sequential backward', '0'), ('Sequential backward', '1')]
    """
    tensors = (t for root in roots for t in (*root.parameters(), *root.buffers()))
    first = next(filter(is_xla, tensors), None)
    if first is None:
        raise ValueError("graph.modules needs a model with parameters or buffers on an xla device")
    found = Modules(first.device.index)
    stack: list[tuple[tuple[str, ...], int]] = []
    handles = []

    def begin(path: tuple[str, ...]) -> None:
        stack.append((path, torch._C._autograd._get_sequence_nr()))
        found.enter(path)

    def end(output: Any) -> None:
        found.backward(output, *stack.pop())
        found.enter(stack[-1][0] if stack else ())

    for root in roots:
        for name, module in root.named_modules():
            path = (type(root).__name__, *(name.split(".") if name else ()))
            handles += [
                module.register_forward_pre_hook(lambda *_, path=path: begin(path)),
                module.register_forward_hook(lambda _m, _i, output: end(output), always_call=True),
            ]
    found.enter(())
    try:
        yield found
    finally:
        found.enter(())
        for handle in handles:
            handle.remove()
