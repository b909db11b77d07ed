"""The memory of this process, for programs of tests."""

import resource
from pathlib import Path


def _pages(column: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()


def mapped() -> int:
    """Return the bytes of its address space, which RLIMIT_AS bounds."""
    return _pages(0)


def resident() -> int:
    """Return the bytes that are in memory."""
    return _pages(1)
