"""Runs torch_xla's own programs of several processes on this package, under the name torch_xla.

    python tests/upstream/jobs.py CHECKOUT [FILE...]

CHECKOUT is a working copy of torch_xla's repository. Each program starts two processes, and ends well or not. The exit
status is 1 if one fails without a reason.
"""

from __future__ import annotations

import sys

from runner import Suite

COLLECTIVES = (
    *("all_gather", "all_to_all", "collective_matmul", "collective_permute", "distributed_mm", "mesh_reduce"),
    *("reduce_scatter", "rendezvous", "replication", "save", "sync_batch_norm"),
)
BACKEND = ("all_gather", "all_reduce", "bucketed_all_reduce", "multi_all_reduce", "reduce_scatter")

PROGRAMS: dict[str, int | str | None] = {f"test_mp_{name}": None for name in COLLECTIVES} | {
    f"torch_distributed/test_torch_distributed_{name}_xla_backend": None for name in BACKEND
}

if __name__ == "__main__":
    sys.exit(Suite("", PROGRAMS, {}, devices=2, scripts=True).main())
