"""Tensors in nested data, by torch_xla's names; part of `xla_model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .. import _XLAC
from .._backend.core import is_xla
from .._backend.sparse_parts import parts
from ..utils import utils as xu


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Compute just these tensors and wait for them. What else is recorded stays recorded.

    Args:
        tensors: tensors on xla devices.

    Raises:
        RuntimeError: a tensor is not on an xla device.
        XlaError: the program has failed.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x, y = torch.ones(2, device="xla") + 1, torch.ones(2, device="xla") + 2
        >>> xm.unlazy([x])  # y stays recorded
    """
    _XLAC._xla_sync_multi(tensors, [], wait=True, sync_xla_data=False)


def _maybe_convert_to_cpu(data: Any, convert: bool = True) -> Any:
    """Return nested data with its xla tensors as CPU tensors, all of one moment; without ``convert``, compute them."""
    leaves, spec = torch.utils._pytree.tree_flatten(data)
    places = [i for i, leaf in enumerate(leaves) if is_xla(leaf)]
    if not convert:
        unlazy([leaves[i] for i in places])
        return data
    for i, value in zip(places, _XLAC._xla_get_cpu_tensors([leaves[i] for i in places]), strict=True):
        leaves[i] = value
    return torch.utils._pytree.tree_unflatten(leaves, spec)


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    """Return nested data with its tensors moved to a device.

    Args:
        datas: tensors in lists, tuples and dicts. A tensor stands for a list of one, so the result is a list.
        device: the device to move them to.
        input_sharding: a `ShardingSpec`. Tensors of its number of dimensions are sharded by it.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> batch = xm.send_cpu_data_to_device([torch.ones(2), {"y": torch.zeros(1)}], xm.xla_device())
        >>> batch[1]["y"].device
        device(type='xla', index=0)
    """
    if isinstance(datas, torch.Tensor):
        datas = [datas]
    if input_sharding is None:
        return map_tensors(datas, lambda t: t.to(device))
    return map_tensors(datas, lambda t: input_sharding.send(t, device))


def map_tensors(data: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return nested data with a function applied to its tensors.

    Args:
        data: tensors and other values in lists, tuples and dicts.
        function: gets each tensor, and returns what takes its place.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.map_tensors({"x": torch.ones(2), "n": 3}, lambda t: t + 1)
        {'x': tensor([2., 2.]), 'n': 3}
    """
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, data)


class ToXlaTensorArena:
    """Converts the tensors in nested data, all together.

    Args:
        convert_fn: takes the list of tensors and returns that of their replacements.
        select_fn: tells which values are meant.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> def to_xla(tensors):
        ...     return [t.to("xla") for t in tensors]
        >>> arena = xm.ToXlaTensorArena(to_xla, lambda x: isinstance(x, torch.Tensor))
        >>> arena.transform([torch.ones(2), "label"])
        [tensor([1., 1.], device='xla:0'), 'label']
    """

    def __init__(
        self, convert_fn: Callable[[list[torch.Tensor]], list[torch.Tensor]], select_fn: Callable[[Any], bool]
    ) -> None:
        self._convert_fn = convert_fn
        self._select_fn = select_fn

    def transform(self, inputs: Any) -> Any:
        """Return the data with its tensors replaced; tuples become lists.

        Args:
            inputs: nested containers, `DataWrapper` objects, and objects whose attributes hold tensors.
        """
        found: list[torch.Tensor] = []
        xu.for_each_instance(inputs, self._select_fn, found.append)
        converted = self._convert_fn(found) if found else []
        replacements = {id(old): new for old, new in zip(found, converted, strict=True)}
        return xu.for_each_instance_rewrite(inputs, self._select_fn, lambda x: replacements[id(x)])


def check_view_sharing(obj: Any) -> None:
    """Raise an error if two different tensors in nested data share a storage.

    Args:
        obj: nested containers, and objects whose attributes hold tensors.

    Raises:
        RuntimeError: two tensors share a storage; the message has their types and shapes.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2)
        >>> xm.check_view_sharing([x, torch.ones(2)])
        >>> xm.check_view_sharing([x, x[:1]])
        Traceback (most recent call last):
        RuntimeError: Tensor torch.float32[1] is sharing a view with tensor torch.float32[2]
    """
    owners: dict[int, torch.Tensor] = {}

    def check(t: torch.Tensor) -> None:
        for part in parts(t):
            other = owners.setdefault(part.untyped_storage()._cdata, t)
            if other is not t:
                raise RuntimeError(
                    f"Tensor {t.dtype}{list(t.size())} is sharing a view with tensor {other.dtype}{list(other.size())}"
                )

    xu.for_each_instance(obj, lambda x: type(x) is torch.Tensor, check)


def collect_tensors(data: Any) -> Iterable[torch.Tensor]:
    """Return the tensors in nested data, in its order.

    Args:
        data: tensors and other values in lists, tuples and dicts.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.collect_tensors([torch.ones(1), "label", {"y": torch.zeros(1)}])
        [tensor([1.]), tensor([0.])]
    """
    return [x for x in torch.utils._pytree.tree_leaves(data) if isinstance(x, torch.Tensor)]
