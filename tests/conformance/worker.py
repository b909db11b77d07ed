"""A process that checks ops: reads "op type kind,kind most" lines, writes a JSON line of reports for each.

A line that ends with "cpu" asks for torch's own kernels alone; the answer is an empty list.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from .cases import OPS
from .check import check, run_on_cpu


def main() -> None:
    """Serve until the input ends."""
    # The answers have a descriptor of their own: what torch or an op prints must not mix with them.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    for line in sys.stdin:
        name, dtype, kinds, most, *only = line.split()
        run = run_on_cpu if only else check
        reports = run(OPS[name], getattr(torch, dtype), kinds.split(","), int(most))
        print(json.dumps([r.line() for r in reports]), file=answers, flush=True)


if __name__ == "__main__":
    main()
