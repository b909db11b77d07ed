"""torch's DTensor on the device ``xla``, by XLA's partitioner.

torch's own names are the interface: after ``import torch_go_xla``, ``init_device_mesh("xla", ...)`` makes a mesh of
this process's devices, without a process group, and all of ``torch.distributed.tensor`` works on it.

One process drives every device, so a DTensor holds its logical tensor, whose layout over the devices follows from
the placements. torch's sharding propagation computes the placements of a result; XLA computes the values, and puts
in the collectives. ``Partial`` is a placement on paper alone: the logical tensor is the reduced one.
"""

from __future__ import annotations

from ._dtensor import XlaDTensor
from ._mesh import XlaDeviceMesh

__all__ = ["XlaDTensor", "XlaDeviceMesh"]
