"""torch on the CPU with large arrays in huge pages, as the CPU plugin of this project has them."""

from __future__ import annotations

from .torch import subject

__all__ = ["subject"]

ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
CASES = ("to-device", "to-host", "matmul", "fused")
