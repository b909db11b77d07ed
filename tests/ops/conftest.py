"""What all families of ops are held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cpu_reference import fallbacks


@pytest.fixture(autouse=True)
def native(request: pytest.FixtureRequest) -> Iterator[None]:
    """No op of the file's family, its ``ROWS``, runs on the CPU."""
    yield
    assert fallbacks(request.module.ROWS) == []
