"""Ops without a row: first by what torch can make of other ops, at last on the CPU.

In this order: the functional form and a copy, for in-place and ``out=`` forms; torch's decomposition; the
CPU, with the operands copied there and the results back. The last is counted under the op's name and
warned of once, as it waits for the device.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from . import partitioning
from . import schema as schemas
from .core import device_index, is_xla, native
from .errors import ForkedProcessError, NotLoweredError

# Decompositions that would not do: into this very op's family, or into something that is worse than a copy.
_NO_DECOMPOSITION = {
    "aten::_to_copy",
    "aten::copy",
    "aten::copy_",
    "aten::empty_like",
    "aten::new_empty",
    "aten::lift",
    "aten::lift_fresh",
    "aten::_local_scalar_dense",
    "aten::resize_as",
    "aten::uniform",  # both draw numbers, on the CPU they come from torch's own stream
    "aten::normal_functional",
}

has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key

# Files of torch and of this package: a warning points to the first caller outside.
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSIDE = tuple(os.path.join(d, "") for d in (os.path.dirname(torch.__file__), _OURS))

_warned: set[str] = set()  # ops that have warned; it only grows
_running = threading.local()  # .ops: those whose decomposition or functional form is running in this thread


@functools.cache
def overload(key: str) -> Any:
    """Return the operator of "add.Tensor"."""
    base, _, name = key.partition(".")
    return getattr(getattr(torch.ops.aten, base), name or "default")


@functools.cache
def schema_of(op: Any) -> schemas.Schema:
    """Return the schema of an operator."""
    return schemas.read(op._schema)


# ---- functional form and copy ----


@functools.cache
def _functional_form(op: Any) -> Any:
    """Return the overload that gives as a result what op writes to an argument; None if there is none."""
    schema = schema_of(op)
    written = schema.written
    outs = tuple(a for a in written if a.keyword_only)
    kept = written[: len(written) - len(outs)] if outs else ()  # what the functional overload writes too
    if not written or any(a.type != "Tensor" for a in written):
        return None
    if not outs and (len(written) > 1 or not schema.base.endswith("_") or written[0] is not schema.args[0]):
        return None
    given = [(a.name, a.type) for a in schema.args if a not in outs]
    namespace = getattr(torch.ops, op.namespace)
    packet = getattr(namespace, schema.base if outs else schema.base[:-1], None)
    for name in packet.overloads() if packet is not None else ():
        candidate = getattr(packet, name)
        form = schema_of(candidate)
        same = [(a.name, a.type) for a in form.args] == given
        if same and len(form.written) == len(kept) and len(form.returns) == len(outs or written):
            return candidate
    return None


def _by_functional_form(op: Any, form: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    schema = schema_of(op)
    outs = [a.name for a in schema.written if a.keyword_only]
    targets = [kwargs[name] for name in outs] or [args[0]]
    rest = {k: v for k, v in kwargs.items() if k not in outs}
    results = _run_functional(form, args, rest)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for target, result in zip(targets, results, strict=True):
        if outs and target.shape != result.shape:
            target.resize_(result.shape)
        _check_cast(result, target)
        target.copy_(result)
    return targets[0] if len(targets) == 1 else tuple(targets)


def _run_functional(form: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a functional overload. Torch may implement it by the very form that has led here: then not by that."""
    name = form.name()
    if form not in _running_ops():
        own = has_kernel(name, "PrivateUse1")
        composite = has_kernel(name, "CompositeExplicitAutograd") or has_kernel(name, "CompositeImplicitAutograd")
        if own or composite:
            return _while_running(form, form, args, kwargs)
    return _without_kernel(form, args, kwargs)


def _check_cast(result: torch.Tensor, target: torch.Tensor) -> None:
    if target.shape != result.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if not torch.can_cast(result.dtype, target.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {target.dtype}")


# ---- decomposition ----


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    import torch._decomp  # a second of imports: only when there is need for it

    return torch._decomp.decomposition_table


def _decomposition(op: Any) -> Callable[..., Any] | None:
    if op._schema.name in _NO_DECOMPOSITION or op in _running_ops():
        return None
    return _decompositions().get(op)


def _running_ops() -> tuple[Any, ...]:
    return getattr(_running, "ops", ())


def _while_running(op: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ops = _running_ops()
    _running.ops = (*ops, op)
    try:
        return function(*args, **kwargs)
    finally:
        _running.ops = ops


# ---- the CPU ----


def _note(op: Any) -> None:
    name = op._schema.name
    native().count(name)
    if name not in _warned:
        _warned.add(name)
        text = (
            f"{name} has no lowering for xla: it runs on the CPU, and its operands and results are copied "
            "(torch_go_xla.register_lowering gives it one)"
        )
        warnings.warn(text, UserWarning, stacklevel=user_level())


def user_level() -> int:
    """Return the stack level of the first caller outside torch and this package, as seen from the caller."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
        level += 1
    return level


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    found: list[torch.device] = []
    tree_map(lambda x: found.append(x.device) if is_xla(x) else None, (args, kwargs))
    return found[0] if found else torch.device("xla", device_index(kwargs.get("device")))


def on_cpu(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an op on the CPU. Arguments that it writes are written back; the results come to the device."""
    schema = schema_of(op)
    if any(r.alias and not r.write for r in schema.returns):
        raise NotImplementedError(f"{op} returns a view, and has no kernel for xla")
    if partitioning.any_manual((args, kwargs)):
        raise NotLoweredError(
            f"{op} has no lowering for xla, and the CPU cannot run it: a tensor has a value of its own on each device"
        )
    _note(op)
    device = _device_of(args, kwargs)
    copies: dict[int, torch.Tensor] = {}  # one for each tensor, so that what was one stays one

    def to_cpu(x: Any) -> Any:
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if not is_xla(x):
            return x
        if id(x) not in copies:
            copies[id(x)] = x.cpu()
        return copies[id(x)]

    result = op(*tree_map(to_cpu, args), **tree_map(to_cpu, kwargs))
    given = dict(zip((a.name for a in schema.args), args, strict=False)) | kwargs
    for a in schema.written:
        _write_back(given.get(a.name), copies)
    return _results(schema, result, given, device)


def _results(schema: schemas.Schema, result: Any, given: dict[str, Any], device: torch.device) -> Any:
    """Bring results to the device; those that are arguments are the arguments."""

    def one(r: schemas.Arg, value: Any) -> Any:
        if r.alias:
            return next(given[a.name] for a in schema.args if a.alias == r.alias)
        return tree_map(lambda x: _to_device(x, device), value)

    if len(schema.returns) == 1:
        return one(schema.returns[0], result)
    return None if result is None else tuple(map(one, schema.returns, result))


def _to_device(x: Any, device: torch.device) -> Any:
    return x.to(device) if isinstance(x, torch.Tensor) and x.device.type == "cpu" else x


def _write_back(target: Any, copies: dict[int, torch.Tensor]) -> None:
    if isinstance(target, (list, tuple)):
        for t in target:
            _write_back(t, copies)
    elif is_xla(target):
        value = copies[id(target)]
        if value.shape != target.shape:
            target.resize_(value.shape)
        target.copy_(value)


# ---- the kernel ----


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an op that has no kernel of its own."""
    if native().fast.forked():
        raise ForkedProcessError(f"{op}: an xla tensor was used in a forked process")
    form = _functional_form(op)
    if form is not None:
        return _by_functional_form(op, form, args, kwargs)
    return _without_kernel(op, args, kwargs)


def _without_kernel(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _decomposition(op)
    if function is not None:
        result = _while_running(op, function, args, kwargs)
        if result is not NotImplemented:
            return result
    return on_cpu(op, args, kwargs)
