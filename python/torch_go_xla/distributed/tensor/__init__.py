"""torch's DTensor on the device ``xla``, by XLA's partitioner.

torch's own names are the interface. After ``import torch_go_xla``, ``init_device_mesh("xla", ...)`` makes a mesh of
this process's devices, without a process group. All of ``torch.distributed.tensor`` works on it.

One process drives every device, so a DTensor holds its logical tensor. The placements determine its sharding over the
devices. torch's sharding propagation computes the placements of a result. XLA computes the values, and inserts the
collectives. ``Partial`` is bookkeeping only: the logical tensor is the reduced one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._mesh import XlaDeviceMesh

if TYPE_CHECKING:
    from ._dtensor import XlaDTensor

__all__ = ["XlaDTensor", "XlaDeviceMesh"]


def __getattr__(name: str) -> Any:
    if name != "XlaDTensor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._dtensor import XlaDTensor  # imports torch.distributed.tensor, which takes a second

    return XlaDTensor
