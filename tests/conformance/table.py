"""Writes docs/ops.md from the reports of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from . import expectations
from .cases import DTYPES, KINDS, OPS, supported
from .runner import TORCH_DIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"

Reports = list[dict[str, Any]]

_HEAD = """# Ops

Written by `make conformance`, torch {version}: do not edit.

Every op description (OpInfo) of torch's own test suite is run on xla and compared with the CPU, at
most {most} samples of a kind. Tolerances are torch's, and the few wider ones of
`tests/conformance/expectations.py`. A pair is an op and a type that torch's CPU kernels support. It
passes if all its samples agree and none ran on the CPU. The page lists the kinds and types of which
all ops were run, with the dates. If torch's own kernel kills the process, the pair is not counted.

* *native*: rows of the op table and compositions of torch's C++ library recorded all samples of the
  op.
* *decomposed*: some samples also went through one of torch's Python decompositions.
* *fallback*: some samples ran on the CPU.

"""


def write(reports: Iterable[dict[str, Any]], most: int, to: Path = PAGE) -> None:
    """Write the page."""
    latest = {(r["op"], r["dtype"], r["kind"]): r for r in reports}
    ran = {(kind, name) for kind in KINDS for name in _TYPES if _whole(latest, kind, name)}
    every = [r for r in latest.values() if (r["kind"], r["dtype"]) in ran and (counts(r) or _torch_dies(r))]
    text = _HEAD.format(version=torch.__version__.partition("+")[0], most=most)
    text += _summary(every) + _listed(every) + _by_op(every)
    to.write_text(text)


_TYPES = {str(d).removeprefix("torch."): d for d in DTYPES}


def _whole(latest: Mapping[tuple[str, str, str], Any], kind: str, name: str) -> bool:
    """Say whether all ops that have this kind of use with this type were run."""
    mine = [op for op, info in OPS.items() if supported(info, _TYPES[name], kind)]
    return bool(mine) and all((op, name, kind) in latest for op in mine)


def counts(r: dict[str, Any]) -> bool:
    """Say whether there is something to compare: samples, and a result of torch's."""
    return bool(r["passed"] or r["failures"]) and not _torch_dies(r)


def _torch_dies(r: dict[str, Any]) -> bool:
    return any(f.startswith(TORCH_DIES) for f in r["failures"])


def passes(r: dict[str, Any]) -> bool:
    """Say whether all samples of a report agree, and none ran on the CPU."""
    return not r["failures"] and not r["fallbacks"]


def reason(r: dict[str, Any]) -> str | None:
    """Return why a report does not pass, if that is known."""
    return TORCH_DIES if _torch_dies(r) else expectations.reason(r["op"], r["kind"], r["dtype"])


def _summary(every: Reports) -> str:
    lines = [
        "| kind | types | run | pairs | pass natively | fall back | differ or raise | crash |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for kind in KINDS:
        mine = [r for r in every if r["kind"] == kind and counts(r)]
        if not mine:
            continue
        good = sum(map(passes, mine))
        back = sum(bool(r["fallbacks"]) and not r["failures"] for r in mine)
        dead = sum(any(f.startswith("crash") for f in r["failures"]) for r in mine)
        types = ", ".join(sorted({r["dtype"] for r in mine}))
        dates = ", ".join(sorted({r["date"] for r in mine}))
        cells = (
            kind,
            types,
            dates,
            len(mine),
            f"{good} ({good / len(mine):.1%})",
            back,
            len(mine) - good - back - dead,
            dead,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n\n"


def _listed(every: Reports) -> str:
    """List what does not pass, with the reason if it is known beforehand."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for r in every:
        if not passes(r):
            found[r["op"], r["kind"], reason(r) or "open"].append(r["dtype"])
    lines = ["## What does not pass", "", "| op | kind | types | why |", "|---|---|---|---|"]
    lines += [f"| {op} | {kind} | {', '.join(types)} | {why} |" for (op, kind, why), types in sorted(found.items())]
    return "\n".join(lines) + "\n\n"


def _by_op(every: Reports) -> str:
    by_op: dict[str, Reports] = defaultdict(list)
    for r in filter(counts, every):
        by_op[r["op"]].append(r)
    lines = [
        "## Every op",
        "",
        "| op | how | samples that agree | of | pairs that pass | of |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for op, mine in sorted(by_op.items()):
        fallbacks = sorted({f.removeprefix("aten::") for r in mine for f in r["fallbacks"]})
        decomposed = any(r["decomposed"] for r in mine)
        how = f"fallback: {', '.join(fallbacks)}" if fallbacks else "decomposed" if decomposed else "native"
        agree = sum(r["passed"] for r in mine)
        cells = (op, how, agree, agree + sum(len(r["failures"]) for r in mine), sum(map(passes, mine)), len(mine))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"
