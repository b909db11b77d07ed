"""Methods of Tensor and functions of torch that lead to one kernel: where nothing but the kernel would act, they
call it without torch's dispatcher. See gocore/pyfast/shortcut.c for when that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from .core import SCALAR_TYPE, native
from .rows import Row


def _targets(name: str) -> Iterator[Any]:
    """Yield torch's method and function objects of a name."""
    methods = vars(torch._C.TensorBase)
    if name in methods:
        yield methods[name]
    if not name.startswith("__") and hasattr(torch, name):
        yield getattr(torch, name)


def _form(overload: str, name: str) -> str:
    """Return the overload that a name leads to: "add_.Tensor" of add.Tensor for add_ and __iadd__."""
    if not name.startswith("__i") and (name.startswith("__") or not name.endswith("_")):
        return overload
    base, dot, rest = overload.partition(".")
    return f"{base}_{dot}{rest}"


def _shortcuts(rows: Iterable[Row]) -> Iterator[tuple[Any, str, str | None, int, int]]:
    """Yield torch's object, the overload for it, the one where the last operand is a number, operands, dimensions."""
    for row in rows:
        if (s := row.shortcut) is None:
            continue
        operands = row.schema.partition(" -> ")[0].count("Tensor ")
        for name in s.names.split():
            number = _form(s.number, name) if s.number else None
            for target in _targets(name):
                yield target, _form(row.name, name), number, operands, s.rank or -1


def _keys(tensor: torch.Tensor) -> tuple[int, int]:
    library: Any = torch._C
    return tensor._cdata, library._dispatch_keys(tensor).raw_repr()


def _setup(fast: Any) -> bool:
    """Show the kernels' side what it has to tell apart; False if this torch keeps it elsewhere."""
    library: Any = torch._C
    plain = fast.new_tensor(1 << 62, 6, 0, (1,))  # a storage that the core does not know, and no one reads
    host = torch.zeros(1)
    samples = [host, plain, torch._neg_view(host), torch._neg_view(plain), torch.zeros(1, dtype=torch.complex64).conj()]
    return bool(
        fast.probe_tensor(plain, plain._cdata)
        and fast.setup_shortcuts(
            types=(torch.Tensor, torch.nn.Parameter),
            plain=_keys(plain)[1],
            host=_keys(host)[1],
            samples=[_keys(t) for t in samples],
            increment_version=library._increment_version,
            forward_ad=vars(forward_ad),
        )
    )


def install(rows: Iterable[Row], kernels: Mapping[str, Any]) -> bool:
    """Install the shortcuts of rows to these kernels, by overload; return whether this torch has a place for them."""
    fast = native().fast
    if not _setup(fast):
        return False
    fast.setup_host(torch.empty, torch.device("cpu"), {number: dtype for dtype, number in SCALAR_TYPE.items()})
    methods = vars(torch._C.TensorBase)
    fast.add_shortcut(methods["item"], fast.item, None, 1, -1)
    fast.add_shortcut(methods["to"], fast.to, None, 2, -1)
    fast.add_shortcut(methods["cpu"], fast.cpu, None, 1, -1)
    for target, overload, for_number, operands, rank in _shortcuts(rows):
        kernel, number_kernel = kernels.get(overload), kernels.get(for_number or "")
        if kernel is not None:
            fast.add_shortcut(target, kernel, number_kernel, operands, rank)
    return True
