"""What ``import torch_go_xla`` changes in torch: one table, `table.TABLE`, and one loop that applies it.

torch's registration APIs (kernels, device hooks, process groups, optimizer hooks) serve most of what a device needs.
Where torch has no such API, an object of torch is replaced; the place is a *seam*. No other module of the package
assigns into objects of torch or of the standard library. ``python -m torch_go_xla.debug.seams`` shows what was applied
in a process, and ``TORCH_GO_XLA_SEAMS=-name,-name`` leaves seams out.
"""

from __future__ import annotations

from .loop import Record, apply, records
from .table import TABLE, Seam, Target

__all__ = ["TABLE", "Record", "Seam", "Target", "apply", "records"]
