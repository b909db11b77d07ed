"""Where the parameters of a model lie.

For example::

    from torch_go_xla import debug
    print(debug.placements(model))
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from .._backend import html, partitioning

__all__ = ["Placed", "Placements", "placements"]

_HEAD = ("name", "shape", "dtype", "placement", "bytes per device")


@dataclass(frozen=True)
class Placed:
    """A parameter or buffer of a module, and what the devices hold of it.

    Example:
        >>> import torch
        >>> from torch_go_xla.debug import Placed
        >>> Placed("weight", (4, 2), torch.float32, "", (32, 32)).bytes  # both devices hold all of it
        (32, 32)
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    placement: str  # DTensor's placements, or the sharding in GSPMD's form; "" for a tensor without either
    bytes: tuple[int, ...]  # by device


class Placements(list[Placed]):
    """The parameters and buffers of a module; printed as a table with sums, which a notebook shows.

    Example:
        >>> import torch
        >>> from torch_go_xla.debug import Placed, Placements
        >>> weight = Placed("w", (4,), torch.float32, "", (16, 16))
        >>> table = Placements([weight, Placed("b", (1,), torch.float32, "", (4, 4))])
        >>> table.bytes_per_device()
        (20, 20)
        >>> print(table)
        name  shape  dtype    placement  bytes per device
        w     [4]    float32  -          16
        b     [1]    float32  -          4
                                         20
    """

    def bytes_per_device(self) -> tuple[int, ...]:
        """Return how many bytes each device holds of all together."""
        return tuple(map(sum, zip(*(p.bytes for p in self), strict=True)))

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (p.name, str(list(p.shape)), str(p.dtype).removeprefix("torch."), p.placement or "-", _bytes(p.bytes))
            for p in self
        ]
        return [*rows, ("", "", "", "", _bytes(self.bytes_per_device()))]

    def _repr_html_(self) -> str:
        return html.table(self._rows(), _HEAD)

    def __str__(self) -> str:
        rows = [_HEAD, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _bytes(held: tuple[int, ...]) -> str:
    low, high = min(held, default=0), max(held, default=0)
    return f"{high:,}" if low == high else f"{low:,} to {high:,}"


def placements(module: nn.Module) -> Placements:
    """Return where a module's parameters and buffers lie on the devices, after a sync.

    Args:
        module: a module on the device.

    Raises:
        RuntimeError: there is no SPMD, or a tensor is not on the device.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla import debug
        >>> xr.use_spmd()
        >>> model = torch.nn.Linear(4, 8).to("xla")
        >>> sharded = xs.mark_sharding(model.weight, xs.get_1d_mesh("x"), ("x", None))
        >>> debug.placements(model).bytes_per_device()  # a quarter of the weight, all of the bias
        (64, 64, 64, 64)
    """
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return Placements(_placed(name, t.detach()) for name, t in tensors)


def _placed(name: str, t: torch.Tensor) -> Placed:
    value = getattr(t, "_local_tensor", t)  # of a DTensor, the logical tensor
    text = str(t.placements) if value is not t else partitioning.sharding_of(value)  # type: ignore[attr-defined]
    return Placed(name, tuple(t.shape), t.dtype, text, tuple(partitioning.bytes_held(value)))
