"""Runs the conformance suite: ``python -m tests.conformance --help``."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import sys
import time
from pathlib import Path

import torch

from . import table
from .cases import DTYPES, KINDS, OPS, supported
from .runner import Job, run


def main() -> None:
    """Run what the command line names and print what differs."""
    p = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    p.add_argument("patterns", nargs="*", default=["*"], help="ops by torch's formatted name, as shell patterns")
    p.add_argument("--dtypes", default=",".join(str(d).removeprefix("torch.") for d in DTYPES))
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--most", type=int, default=20, help="samples of a kind")
    p.add_argument("--processes", type=int, default=1)
    p.add_argument("--record", type=Path, help="append the reports to this file, as JSON lines; what it has is not run")
    p.add_argument(
        "--write",
        action="store_true",
        help="write docs/ops.md, of this run and of what --record holds of kinds that were run whole",
    )
    a = p.parse_args()
    began = time.time()
    reports = [json.loads(line) for line in a.record.open()] if a.record and a.record.exists() else []
    done = {(r["op"], r["dtype"], r["kind"]) for r in reports}
    jobs = []
    for dtype in a.dtypes.split(","):
        for name, op in OPS.items():
            kinds = tuple(
                kind
                for kind in a.kinds.split(",")
                if supported(op, getattr(torch, dtype), kind) and (name, dtype, kind) not in done
            )
            if kinds and any(fnmatch.fnmatch(name, pattern) for pattern in a.patterns):
                jobs.append(Job(name, dtype, kinds, a.most))
    good = listed = open_ = 0
    for r in run(jobs, a.processes):
        r["date"] = datetime.date.today().isoformat()
        reports.append(r)
        if a.record:
            with a.record.open("a") as file:
                print(json.dumps(r), file=file)
        if table.passes(r):
            good += table.counts(r)
            continue
        why = table.reason(r)
        listed, open_ = listed + bool(why), open_ + (not why)
        print(
            r["op"], r["dtype"], r["kind"], f"{r['passed']} pass, {len(r['failures'])} fail", *r["fallbacks"], why or ""
        )
        for text in r["failures"][:3]:
            print("   ", text)
    print(f"{good} pass natively, {listed} are known not to, {open_} fail, {time.time() - began:.0f} s")
    if a.write:
        table.write(reports, a.most)
    sys.exit(open_ > 0)


if __name__ == "__main__":
    main()
