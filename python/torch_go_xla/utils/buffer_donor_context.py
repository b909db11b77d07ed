"""torch_xla's ``torch_xla.utils.buffer_donor_context``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["alias_with_buffer_donor_config"]


@contextmanager
def alias_with_buffer_donor_config(should_alias: bool = True) -> Iterator[bool]:
    """Run a block in which programs may take over the buffers that the user donates. Here they always may.

    Args:
        should_alias: must be True.

    Yields:
        True, the setting before.

    Raises:
        NotImplementedError: ``should_alias`` is False: do not donate what is to stay.

    Example:
        >>> from torch_go_xla.utils.buffer_donor_context import alias_with_buffer_donor_config
        >>> with alias_with_buffer_donor_config() as before:
        ...     print(before)
        True
    """
    if not should_alias:
        raise NotImplementedError("donated buffers are always taken over: do not donate what is to stay")
    yield True
