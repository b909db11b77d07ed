"""What the processes of a job exchange, by torch_xla's names; part of `xla_model`.

Collectives are recorded, and run with the step. Every process calls the same ones in the same order. ``groups`` lists
the processes that exchange values with each other: every process in one of them, all of one size; all by default.
``pin_layout``, ``channel_id``, ``use_global_device_ids`` and ``bucket_cap_mb`` are accepted for torch_xla's programs:
layouts, channels and the size of messages are the compiler's.
"""

from __future__ import annotations

import base64
import functools
import io
import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .. import runtime
from .._backend import partitioning
from .._core import core as _native
from ..distributed._members import Members, check_apart

REDUCE_SUM = "sum"  # the sum of the values
REDUCE_MUL = "mul"  # their product
REDUCE_AND = "and"  # logical and, of bools; bitwise, of integers
REDUCE_OR = "or"  # logical or, of bools; bitwise, of integers
REDUCE_MIN = "min"  # the smallest value
REDUCE_MAX = "max"  # the largest value

_FOLDS = {"sum": "sum", "mul": "product", "and": "band", "or": "bor", "min": "min", "max": "max"}

Groups = Sequence[Sequence[int]] | None


def _fold(reduce_type: str) -> str:
    fold = _FOLDS.get(reduce_type)
    if fold is None:
        raise ValueError(f"unknown reduction {reduce_type!r}: want one of {', '.join(_FOLDS)}")
    return fold


def _all(groups: Groups) -> Sequence[Sequence[int]]:
    check_apart()
    return groups or [list(range(runtime.world_size()))]


_all._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result, which loads Dynamo


def _has_whole_values() -> bool:
    return runtime.is_spmd() and runtime.world_size() == 1


_has_whole_values._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as above


def _is_alone(t: torch.Tensor, groups: Groups) -> bool:
    """Tell whether there is nothing to exchange: by SPMD the only process has the one value of a tensor."""
    return not groups and _has_whole_values() and not partitioning.is_manual(t)


def _scaled(t: torch.Tensor, scale: float) -> torch.Tensor:
    return t if scale == 1.0 else t * scale


def _written(output: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor:
    return value if output is None else output.resize_(value.shape).copy_(value)


def all_reduce(
    reduce_type: str,
    inputs: torch.Tensor | list[torch.Tensor],
    scale: float = 1.0,
    groups: Groups = None,
    cctx: Any = None,
    pin_layout: bool = True,
) -> torch.Tensor | list[torch.Tensor]:
    """Return the tensors of all processes folded, and multiplied by a number. A list is folded in place.

    Args:
        reduce_type: ``REDUCE_SUM``, ``REDUCE_MUL``, ``REDUCE_AND``, ``REDUCE_OR``, ``REDUCE_MIN`` or ``REDUCE_MAX``.
        inputs: a tensor, or a list of tensors, of the same shapes in all processes.
        scale: the number.
        groups: lists of the processes that fold their tensors together. Every process is in one of them, and all are
            of one size. All processes by default.
        cctx: accepted for torch_xla's programs.
        pin_layout: accepted for torch_xla's programs.

    Returns:
        A new tensor of the same shape; or the list that was given, with its tensors written to.

    Raises:
        ValueError: there is no such reduction.
        RuntimeError: with SPMD, where the processes of a job share their values.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2, device="xla")
        >>> xm.all_reduce(xm.REDUCE_SUM, x, scale=1 / xm.xrt_world_size()).tolist()  # the mean of all processes
        [1.0, 1.0]
    """
    fold = _fold(reduce_type)
    if isinstance(inputs, torch.Tensor):
        value = inputs.clone() if _is_alone(inputs, groups) else partitioning.all_reduce(inputs, fold, _all(groups))
        return _scaled(value, scale)
    with torch.no_grad():
        sent = []
        for t in inputs:
            if not _is_alone(t, groups):
                sent.append(t)
            elif scale != 1.0:
                t.copy_(t * scale)
        for dtype in dict.fromkeys(t.dtype for t in sent):  # joined: one message is faster than many
            same = [t for t in sent if t.dtype == dtype]
            joined = torch.cat([t.reshape(-1) for t in same])
            reduced = _scaled(partitioning.all_reduce(joined, fold, _all(groups)), scale)
            for t, value in zip(same, torch.split(reduced, [t.numel() for t in same]), strict=True):
                t.copy_(value.view_as(t))
    return inputs


def all_gather(
    value: torch.Tensor | list[torch.Tensor],
    dim: int = 0,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """Return the tensors of all processes, one after the other along a dimension.

    Args:
        value: a tensor, of the same shape in all processes, or a list of tensors. A scalar counts as one element.
        dim: the dimension. Its size in the result is that of ``value`` times the number of processes.
        groups: as for `all_reduce`.
        output: a tensor to write the result to, or a list of tensors; they are resized.
        pin_layout: accepted for torch_xla's programs.
        channel_id: accepted for torch_xla's programs.
        use_global_device_ids: accepted for torch_xla's programs.

    Returns:
        A tensor, of a list a list.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> tuple(xm.all_gather(torch.ones(2, 3, device="xla"), dim=1).shape)  # of n processes (2, 3 * n)
        (2, 3)
    """
    if not isinstance(value, torch.Tensor):
        outputs = output or [None] * len(value)
        return [all_gather(v, dim, groups, o) for v, o in zip(value, outputs, strict=True)]
    whole = value if value.dim() else value.reshape(1)
    return _written(
        output, whole.clone() if _is_alone(value, groups) else partitioning.all_gather(whole, dim, _all(groups))
    )


def all_gather_bucketized(
    input_list: list[torch.Tensor],
    dim: int = 0,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = False,
    bucket_cap_mb: int = 160,
) -> Any:
    """Return what `all_gather` returns for a list of tensors.

    Args:
        input_list: the tensors.
        dim: as for `all_gather`.
        groups: as for `all_reduce`.
        output: a list of tensors to write the results to.
        pin_layout: accepted for torch_xla's programs.
        bucket_cap_mb: accepted for torch_xla's programs: the compiler chooses the size of messages.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> [t.tolist() for t in xm.all_gather_bucketized([torch.ones(1, device="xla"), torch.zeros(2, device="xla")])]
        [[1.0], [0.0, 0.0]]
    """
    return all_gather(input_list, dim, groups, output)


def reduce_scatter(
    reduce_type: str,
    input: torch.Tensor | list[torch.Tensor],
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """Return this process's part, along a dimension, of the tensors of all processes folded.

    Args:
        reduce_type: as for `all_reduce`.
        input: a tensor of the same shape in all processes, or a list of tensors.
        scale: the result is multiplied by it.
        scatter_dim: the dimension. The number of processes divides its size.
        shard_count: the number of processes that fold their tensors together.
        groups: as for `all_reduce`.
        output: a tensor to write the result to, or a list of tensors; they are resized.
        pin_layout: accepted for torch_xla's programs.
        channel_id: accepted for torch_xla's programs.
        use_global_device_ids: accepted for torch_xla's programs.

    Returns:
        A tensor, whose size along the dimension is divided by ``shard_count``; of a list, a list.

    Raises:
        ValueError: there is no such reduction, or ``shard_count`` is not the size of the groups.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.arange(4.0, device="xla")
        >>> count = xm.xrt_world_size()
        >>> xm.reduce_scatter(xm.REDUCE_SUM, x, scale=1.0, scatter_dim=0, shard_count=count).tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    if not isinstance(input, torch.Tensor):
        outputs = output or [None] * len(input)
        return [
            reduce_scatter(reduce_type, t, scale, scatter_dim, shard_count, groups, o)
            for t, o in zip(input, outputs, strict=True)
        ]
    _check_count("shard_count", shard_count, groups)
    fold = _fold(reduce_type)
    value = (
        input.clone()
        if _is_alone(input, groups)
        else partitioning.reduce_scatter(input, fold, scatter_dim, _all(groups))
    )
    return _written(output, _scaled(value, scale))


def reduce_scatter_bucketized(
    reduce_type: str,
    input_list: torch.Tensor | list[torch.Tensor],
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = False,
    bucket_cap_mb: int = 160,
) -> Any:
    """Return what `reduce_scatter` returns for a list of tensors.

    Args:
        reduce_type: as for `all_reduce`.
        input_list: the tensors.
        scale: the results are multiplied by it.
        scatter_dim: as for `reduce_scatter`.
        shard_count: as for `reduce_scatter`.
        groups: as for `all_reduce`.
        output: a list of tensors to write the results to.
        pin_layout: accepted for torch_xla's programs.
        bucket_cap_mb: accepted for torch_xla's programs: the compiler chooses the size of messages.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> gradients = [torch.ones(2, device="xla"), torch.ones(4, device="xla")]
        >>> [t.tolist() for t in xm.reduce_scatter_bucketized(xm.REDUCE_SUM, gradients, 0.5, 0, xm.xrt_world_size())]
        [[0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]
    """
    return reduce_scatter(reduce_type, input_list, scale, scatter_dim, shard_count, groups, output)


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Return the parts along one dimension that all processes have for this one, joined along another.

    Args:
        value: a tensor, of the same shape in all processes.
        split_dimension: the dimension that is split into a part for each process. Their number divides its size.
        concat_dimension: the dimension along which the parts from all processes are joined.
        split_count: the number of processes that take part.
        groups: as for `all_reduce`.
        pin_layout: accepted for torch_xla's programs.

    Raises:
        ValueError: ``split_count`` is not the size of the groups.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(4, 2, device="xla")
        >>> tuple(xm.all_to_all(x, 0, 1, split_count=xm.xrt_world_size()).shape)  # of n processes (4 / n, 2 * n)
        (4, 2)
    """
    _check_count("split_count", split_count, groups)
    if _is_alone(value, groups):
        return value.clone()
    return partitioning.all_to_all(value, split_dimension, concat_dimension, _all(groups))


def _check_count(name: str, count: int, groups: Groups) -> None:
    size = len(_all(groups)[0])
    if count != size:
        raise ValueError(f"{name} is {count}, but {size} processes exchange data")


def collective_permute(value: torch.Tensor, pairs: list[list[int]]) -> torch.Tensor:
    """Send a tensor from the first process of each pair to the second.

    Args:
        value: a tensor, of the same shape in all processes.
        pairs: pairs of a source and a target, which are numbers of processes. No process is target of two pairs.

    Returns:
        The tensor of the source; zeros in a process that no pair has as its target.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.collective_permute(torch.ones(2, device="xla"), [[0, 0]]).tolist()
        [1.0, 1.0]
    """
    return partitioning.collective_permute(value, [(source, target) for source, target in pairs])


def collective_broadcast(
    tensors: list[torch.Tensor], root_ordinal: int = 0, groups: Groups = None, pin_layout: bool = True
) -> None:
    """Give tensors the values that they have in one process, in place.

    Args:
        tensors: tensors of the same shapes in all processes.
        root_ordinal: the number of that process.
        groups: as for `all_reduce`. The process is a member of this process's group.
        pin_layout: accepted for torch_xla's programs.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> seed = torch.tensor([xm.get_ordinal()], device="xla")
        >>> xm.collective_broadcast([seed])
        >>> seed.tolist()  # in all processes
        [0]
    """
    own = next(list(g) for g in _all(groups) if runtime.global_ordinal() in g)
    members = Members(own)
    with torch.no_grad():
        for t in tensors:
            t.copy_(members.broadcast(t, own.index(root_ordinal)))


def broadcast_master_param(model: torch.nn.Module) -> None:
    """Give the parameters and buffers of a model the values that they have in the first process.

    Args:
        model: a module on the device, of the same structure in all processes.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> model = torch.nn.Linear(4, 2).to("xla")  # each process has drawn its own weights
        >>> xm.broadcast_master_param(model)
    """
    collective_broadcast(list(itertools.chain(model.parameters(), model.buffers())))


def _fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the gradients of an optimizer's parameters, as far as there are any."""
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def reduce_gradients(optimizer: torch.optim.Optimizer, groups: Groups = None, pin_layout: bool = True) -> None:
    """Replace the gradients of an optimizer's parameters by their mean over the processes.

    With SPMD nothing is done: gradients are those of the whole batch.

    Args:
        optimizer: the optimizer. Parameters without gradients are left out.
        groups: as for `all_reduce`.
        pin_layout: accepted for torch_xla's programs.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> w.sum().backward()
        >>> xm.reduce_gradients(optimizer)  # between backward and step
        >>> optimizer.step()
    """
    if runtime.is_spmd():
        return
    count = len(_all(groups)[0])
    if count > 1:
        all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), scale=1.0 / count, groups=groups)


def all_reduce_bucketized_gradients(
    gradients: list[torch.Tensor], scale: float, groups: Groups, pin_layout: bool, bucket_cap_mb: int = 0
) -> None:
    """Replace tensors by their sums over the processes, multiplied by a number.

    Args:
        gradients: the tensors, of the same shapes in all processes.
        scale: the number, such as 1 / n for the mean of n processes.
        groups: as for `all_reduce`; None for all processes.
        pin_layout: accepted for torch_xla's programs.
        bucket_cap_mb: accepted for torch_xla's programs: the compiler chooses the size of messages.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> gradient = torch.ones(2, device="xla")
        >>> xm.all_reduce_bucketized_gradients([gradient], scale=0.5, groups=None, pin_layout=False)
        >>> gradient.tolist()
        [0.5, 0.5]
    """
    all_reduce(REDUCE_SUM, gradients, scale, groups)


# How often each `rendezvous` was called, by tag and members. No lock: calls with one tag do not overlap.
_rounds: dict[str, int] = {}


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Wait until all processes that are named are here, and return what each has brought, in their order.

    Args:
        tag: names the call. All processes use the same tags in the same order.
        payload: what this process brings.
        replicas: the numbers of the processes; all by default.

    Raises:
        RuntimeError: a process has gone, or does not come within ``TORCH_GO_XLA_JOB_TIMEOUT`` seconds.
        ValueError: this process is not named.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.rendezvous("checkpoint written", b"done")
        [b'done']
    """
    members = list(replicas) or list(range(runtime.world_size()))
    key = f"{tag}/{','.join(map(str, members))}"
    _rounds[key] = _rounds.get(key, 0) + 1
    brought = _native.exchange(f"{key}/{_rounds[key]}", base64.b64encode(payload).decode(), members)
    return [base64.b64decode(text) for text in brought]


@functools.cache
def _numpy_types() -> list[Any]:
    """Return what a pickle of numpy's numbers and arrays names."""
    makers = [x.__reduce__()[0] for x in (np.float64(0), np.zeros(()))]
    dtypes = {type(np.dtype(code)) for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"}
    return [np.ndarray, np.dtype, *makers, *dtypes]


def _unpickled(data: bytes) -> Any:
    """Return what another process has given; nothing in it can run code here."""
    with torch.serialization.safe_globals(_numpy_types()):
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """Return ``reduce_fn`` of the list of what all processes give. Tensors in it are on the CPU.

    Args:
        tag: names the call; all processes use the same tags in the same order.
        data: tensors, numbers, strings, arrays of numpy, and dictionaries, lists, tuples and sets of such.
        reduce_fn: gets the list, ordered by process.

    Raises:
        TypeError: the data is of another type, which ``torch.load(weights_only=True)`` does not read.
        RuntimeError: a process has gone, as for `rendezvous`.

    Example:
        >>> import numpy as np, torch_go_xla.core.xla_model as xm
        >>> float(xm.mesh_reduce("accuracy", 3 / 4, np.mean))
        0.75
    """
    file = io.BytesIO()
    torch.save(torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), data), file)
    try:
        _unpickled(file.getvalue())
    except pickle.UnpicklingError as e:
        raise TypeError(
            f"mesh_reduce({tag!r}) takes tensors, numbers, strings, arrays of numpy and containers of such: {e}"
        ) from None
    return reduce_fn([_unpickled(b) for b in rendezvous(tag, file.getvalue())])
