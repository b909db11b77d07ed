"""An estimate of what one node of a graph costs, from its op and the shapes of its values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_ARRAY = re.compile(r"([a-z]+)(\d*)[a-z0-9]*\[([\d,]*)\]")
# Ops that compute nothing: the compiler makes them part of what reads them.
_FREE = frozenset(
    "view _unsafe_view reshape permute transpose t expand alias detach squeeze unsqueeze slice select as_strided "
    "split unbind clone data scalar zeros ones full empty result".split()
)
# Ops whose result is a sum of products over the last dimension of the first matrix.
_PRODUCTS = frozenset("mm bmm addmm addbmm baddbmm matmul linear dot mv addmv addr".split())


def arrays(shape: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return the arrays of a value, such as ``f32[8,128]``: bytes of an element, sizes."""
    found = []
    for kind, bits, sizes in _ARRAY.findall(shape):
        width = 1 if kind == "pred" or not bits else max(1, int(bits) // 8)
        found.append((width, tuple(int(n) for n in sizes.split(",") if n)))
    return found


def size(shape: str) -> int:
    """Return the bytes of a value."""
    return sum(width * math.prod(sizes) for width, sizes in arrays(shape))


def _items(shape: str) -> int:
    return sum(math.prod(sizes) for _, sizes in arrays(shape))


def flops(op: str, shape: str, operands: Sequence[str]) -> int:
    """Return the floating-point operations of a node, roughly: 2 for each product and sum, 1 for another element.

    Args:
        op: the op, such as ``aten::mm``.
        shape: the shape of its result.
        operands: the shapes of its operands.
    """
    name = op.rpartition("::")[2].partition(".")[0]
    if name in _FREE:
        return 0
    sizes = [found[0][1] for text in operands if (found := arrays(text))]
    matrices = [s for s in sizes if len(s) >= 2]
    if name in _PRODUCTS and sizes:
        # addmm and its like begin with what is added.
        first = matrices[1 if name.startswith(("add", "badd")) and len(matrices) > 2 else 0] if matrices else sizes[0]
        return 2 * _items(shape) * first[-1]
    if name.startswith("convolution") and len(matrices) >= 2:
        if name == "convolution_backward" and len(matrices) >= 3:
            gradient, weight = matrices[0], matrices[2]
            return 4 * math.prod(gradient) * math.prod(weight[1:])
        return 2 * _items(shape) * math.prod(matrices[1][1:])
    if "scaled_dot_product" in name and len(matrices) >= 3:
        query, key = matrices[0], matrices[1]
        return 4 * math.prod(query) * key[-2]
    return max([_items(shape), *(math.prod(s) for s in sizes)])
