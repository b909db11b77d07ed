"""Damages files of the persistent cache: bits, ends, names, pipes, modes, removal. Values stay right.

Each damage is met by a process of its own, without the rights of root, whose tier is `compile` or `auto`. It must print
the values of one that has no cache, and the next process must find a cache that is whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from . import Counts, main
from ._children import Children, Journal

PATIENCE = 180.0  # seconds that a process may take
LONG = 1 << 40  # bytes of a file that is a hole


def damage(r: random.Random, folder: Path) -> str:
    """Damage a file; return what was done."""
    plain = (f for f in folder.glob("*.bin") if f.is_file() and not f.is_symlink())
    files = sorted(f for f in plain if 0 < f.stat().st_size < LONG)
    if len(files) < 2:
        return "nothing"
    path, other = r.sample(files, 2)
    kind = r.choice(
        ["bits", "bits", "header", "truncated", "empty", "longer", "hole", "swapped", "copied", "pipe"]
        + ["link", "device", "directory", "unreadable", "garbage beside", "read-only folder"]
    )
    data = bytearray(path.read_bytes())
    if kind in ("bits", "header"):
        for _ in range(r.choice([1, 4, 64])):
            data[r.randrange(len(data) if kind == "bits" else min(len(data), 128))] ^= 1 << r.randrange(8)
        path.write_bytes(data)
    elif kind in ("truncated", "empty", "hole"):
        os.truncate(path, {"truncated": r.randrange(len(data)), "empty": 0, "hole": LONG}[kind])
    elif kind == "longer":
        path.write_bytes(data + r.randbytes(r.choice([1, 4096])))
    elif kind in ("swapped", "copied"):
        before = other.read_bytes()
        other.write_bytes(data)
        path.write_bytes(before if kind == "swapped" else data)
    elif kind == "unreadable":
        path.chmod(0)
    elif kind == "read-only folder":
        folder.chmod(0o500)
        path.unlink()
    elif kind == "garbage beside":
        (folder / f"{r.randrange(1 << 30):x}.bin").write_bytes(r.randbytes(r.randrange(4096)))
        (folder / f".{r.randrange(1 << 30):x}.part").write_bytes(b"")
    else:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "directory":
            (path / "full").mkdir(parents=True)
        else:
            path.symlink_to(other if kind == "link" else "/dev/zero")
    return kind


def child(journal: Journal, cache: str, number: int, what: str, tier: str) -> None:
    """Compute programs that the cache has; the journal says whether their values are right."""
    os.environ.update(XLA_PERSISTENT_CACHE_PATH=cache, XLA_TIER=tier)
    ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())  # the rights of root
    import torch

    import torch_go_xla

    journal.begin(number, what)
    x = torch.arange(6.0)
    y = x.to("xla")
    programs = [torch.sin, torch.cos, torch.exp, torch.sqrt, lambda x: x * x, lambda x: x.sort().values + 1]
    bad = [i for i, f in enumerate(programs) if not torch.allclose(f(y).cpu(), f(x), atol=1e-5)]
    torch_go_xla.sync(wait=True)
    journal.end(number, what.partition(",")[0], f"wrong values of programs {bad}" if bad else "")


def fault(r: random.Random, cache: Path, number: int, children: Children) -> Counts:
    """Have a process meet damage, or files that come and go while it runs, and one after it that meets no more."""
    together = r.random() < 0.2
    done = ["comes and goes"] if together else [damage(r, cache) for _ in range(r.choice([1, 1, 3]))]
    kept = {f: f.read_bytes() for f in cache.glob("*.bin")} if together else {}

    def trouble() -> None:
        for path in r.sample(sorted(kept), min(2, len(kept))):
            with contextlib.suppress(OSError):
                if r.random() < 0.5:
                    path.unlink()
                else:
                    path.write_bytes(kept[path][: r.choice([9, 200, 1 << 30])])

    options: dict[str, Any] = {"number": number, "what": ", ".join(done), "tier": r.choice(["compile", "auto"])}
    counts, _ = children.run(trouble if together else lambda: None, cache=str(cache), **options)
    with contextlib.suppress(OSError):
        cache.chmod(0o700)
    if not counts.tries:
        counts.judge(f"try {number}, {done}: no try")
    return counts


def run(seed: int, seconds: float, most: int) -> Counts:
    """Damage the cache until the time is over."""
    counts, until = Counts(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        good, cache = Path(folder) / "good", Path(folder) / "cache"
        children = Children("tests.torture.caches", PATIENCE)
        options: dict[str, Any] = {
            "number": 0,
            "what": "no damage",
            "tier": "compile",
        }  # the others may compile nothing
        try:
            children.run(cache=str(good), **options)
            assert len(list(good.glob("*.bin"))) > 5, "the cache is not written"
            while counts.tries < most and (time.monotonic() < until or not counts.tries) and len(counts.lost) < 20:
                shutil.rmtree(cache, ignore_errors=True)
                shutil.copytree(good, cache)
                number = seed * 1_000_000 + counts.tries
                counts.add(fault(random.Random(number), cache, number, children))
        finally:
            children.close()
    return counts


if __name__ == "__main__":
    main(run)
