"""Settings of the compiler: torch_xla's ``torch_xla.backends``, usually imported as ``xb``."""

from __future__ import annotations

from ._core import core as _native

__all__ = ["get_mat_mul_precision", "set_mat_mul_precision"]

_PRECISIONS = ("default", "high", "highest")


def set_mat_mul_precision(precision: str) -> None:
    """Set the operand precision of float32 matrix products and convolutions.

    It counts for what is compiled from now on. What it means is the device's: a TPU rounds to bfloat16 by default, a
    CPU never. ``torch.set_float32_matmul_precision`` sets it too: its ``medium`` is ``default`` here.

    Args:
        precision: ``default``, ``high`` or ``highest``.

    Raises:
        ValueError: another text.

    Example:
        >>> import torch_go_xla.backends as xb
        >>> xb.set_mat_mul_precision("highest")
        >>> xb.get_mat_mul_precision()
        'highest'
        >>> xb.set_mat_mul_precision("default")
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"precision {precision!r}: want one of {', '.join(_PRECISIONS)}")
    _native.set_precision(precision)


def get_mat_mul_precision() -> str:
    """Return the precision of float32 matrix products; ``default`` unless it was set.

    Example:
        >>> import torch_go_xla.backends as xb
        >>> xb.get_mat_mul_precision()
        'default'
    """
    return _native.precision()
