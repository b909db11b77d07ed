"""The loop that applies the table, and the record of what it did in this process."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import torch

from .._backend.device import torch_version
from .table import TABLE, Seam, Target

VARIABLE = "TORCH_GO_XLA_SEAMS"


@dataclass(frozen=True)
class Record:
    """What became of a seam in this process.

    Attributes:
        seam: the row of the table.
        state: ``applied``; ``skipped``; ``waiting`` for the first mesh of xla devices.
        why: why it is not applied.

    Example:
        >>> from torch_go_xla.debug import seams
        >>> record = seams.records()[0]
        >>> record.seam.name, record.state, record.why
        ('tensor-xla', 'applied', '')
    """

    seam: Seam
    state: Literal["applied", "skipped", "waiting"]
    why: str = ""


_records: dict[str, Record] = {}  # by seam; `apply` adds each once, and a seam is never taken back


def records() -> list[Record]:
    """Return what became of every seam, in the order of the table.

    Example:
        >>> from torch_go_xla.debug import seams
        >>> [record.seam.name for record in seams.records() if record.state == "skipped"]
        []
    """
    return [_records.get(s.name, Record(s, "waiting", "for the first mesh of xla devices")) for s in TABLE]


def apply(at: Literal["import", "mesh"]) -> None:
    """Apply the seams of a moment that are not applied yet; one that does not fit this torch is recorded.

    ImportError names an essential seam that does not fit; ValueError, a name in TORCH_GO_XLA_SEAMS that there is not
    or that cannot be left out.
    """
    off = _switched_off(os.environ.get(VARIABLE, ""))
    for seam in TABLE:
        if seam.at != at or seam.name in _records:
            continue
        if seam.name in off:
            _records[seam.name] = Record(seam, "skipped", f"{VARIABLE} leaves it out")
            continue
        why = _apply(seam)
        if why and seam.essential:
            raise ImportError(f"torch_go_xla cannot work with torch {torch.__version__}: seam {seam.name}: {why}")
        _records[seam.name] = Record(seam, "skipped", why) if why else Record(seam, "applied")


def _switched_off(text: str) -> Collection[str]:
    by_name = {s.name: s for s in TABLE}
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        seam = by_name.get(name.removeprefix("-"))
        if seam is None or not name.startswith("-"):
            raise ValueError(f"{VARIABLE}={text!r}: {name} is none of -{', -'.join(by_name)}")
        if seam.essential:
            raise ValueError(f"{VARIABLE}={text!r}: {seam.name} cannot be left out: {seam.loss}")
    return {name.removeprefix("-") for name in names}


def _apply(seam: Seam) -> str:
    """Apply one seam; return "" or why it does not fit this torch."""
    version = torch_version()
    if version < seam.since or (seam.until is not None and version > seam.until):
        return f"it is for torch {_range(seam)}"
    try:
        module, _, name = seam.replace.partition(":")
        replace = getattr(importlib.import_module(f".{module}", __package__), name)
        if seam.by_hand:
            return str(replace())
        targets = [find(target) for target in seam.targets]
        made = replace(*(original for _, _, original in targets))
    except (ImportError, AttributeError, Misfit) as e:
        return str(e)
    for (owner, attribute, _), value in zip(targets, made if len(targets) > 1 else (made,), strict=True):
        setattr(owner, attribute, value)
    return ""


def _range(seam: Seam) -> str:
    since, until = (f"{v[0]}.{v[1]}" if v else "" for v in (seam.since, seam.until))
    return since if since == until else f"{since} to {until}" if until else f"{since} and newer"


class Misfit(Exception):
    """A target that is not in this torch, or is another function there."""


def find(target: Target) -> tuple[Any, str, Any]:
    """Return the object that has a target, the target's name there, and what is there, None for a new one.

    Misfit if this torch does not have what the table says.
    """
    owner, attribute = _owner(target.path)
    missing: Any = object()
    found = getattr(owner, attribute, missing)
    if target.new:
        return owner, attribute, None
    if found is missing:
        raise Misfit(f"torch {torch.__version__} has no {target.path}")
    if target.parameters is not None:
        names = tuple(inspect.signature(found).parameters)
        newest = tuple(name.removesuffix("?") for name in target.parameters)
        if names not in (newest, tuple(name for name in target.parameters if not name.endswith("?"))):
            raise Misfit(
                f"{target.path} of torch {torch.__version__} takes ({', '.join(names)}), not ({', '.join(newest)})"
            )
    return owner, attribute, found


def _owner(path: str) -> tuple[Any, str]:
    """Return the object that has a dotted name, and the last part of the name; modules are imported as needed."""
    parts = path.split(".")
    owner: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:-1], 2):
        path = ".".join(parts[:i])
        try:  # not by the attribute first: torch.optim deletes the one of torch.optim.optimizer
            owner = importlib.import_module(path)
        except ImportError:
            if not hasattr(owner, part):
                raise Misfit(f"torch {torch.__version__} has no {path}") from None
            owner = getattr(owner, part)
    return owner, parts[-1]
