"""Runs the conformance suite: ``python -m tests.conformance --help``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db

from .cases import DTYPES, KINDS
from .runner import Job, run


def main() -> None:
    """Run what the command line names and print what differs."""
    p = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    p.add_argument("patterns", nargs="*", default=["*"], help="ops by torch's formatted name, as shell patterns")
    p.add_argument("--dtypes", default=",".join(str(d).removeprefix("torch.") for d in DTYPES))
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--most", type=int, default=20, help="samples of a kind")
    p.add_argument("--processes", type=int, default=1)
    p.add_argument("--record", type=Path, help="append the reports to this file, as JSON lines")
    a = p.parse_args()
    jobs = [
        Job(op.formatted_name, dtype, tuple(a.kinds.split(",")), a.most)
        for dtype in a.dtypes.split(",")
        for op in op_db
        if any(fnmatch.fnmatch(op.formatted_name, pattern) for pattern in a.patterns)
        and getattr(torch, dtype) in op.supported_dtypes("cpu")
    ]
    began = time.time()
    good = bad = 0
    record = a.record.open("a") if a.record else None
    for r in run(jobs, a.processes):
        if record:
            print(json.dumps(r), file=record, flush=True)
        failed = bool(r["failures"] or r["fallbacks"])
        good, bad = good + (not failed), bad + failed
        if failed:
            print(r["op"], r["dtype"], r["kind"], f"{r['passed']} pass,", f"{len(r['failures'])} fail", *r["fallbacks"])
            for text in r["failures"][:3]:
                print("   ", text)
    print(f"{good} pass natively, {bad} do not, {time.time() - began:.0f} s")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
