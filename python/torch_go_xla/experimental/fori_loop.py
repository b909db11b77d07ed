"""Loops of the program: torch_xla's ``torch_xla.experimental.fori_loop``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._backend.composed import control_flow

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fn: Callable[..., torch.Tensor],
    body_fn: Callable[..., Sequence[torch.Tensor]],
    carried_inputs: Sequence[torch.Tensor],
    additional_inputs: Sequence[torch.Tensor] | None = None,
) -> Any:
    """Apply ``body_fn`` to tensors as long as ``cond_fn`` is true, in a loop on the device.

    Args:
        cond_fn: takes the carried and the additional tensors, returns a tensor of one element.
        body_fn: takes the same, returns the next carried tensors, of the same shapes and dtypes.
        carried_inputs: the first values.
        additional_inputs: what is the same in every round.

    Returns:
        The last carried tensors.

    Raises:
        NotLoweredError: a function writes to its arguments, draws random numbers, or takes tensors from outside.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.fori_loop import while_loop
        >>> i, x = torch.tensor(5, device="xla"), torch.ones(2, device="xla")
        >>> while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x * 2), (i, x))[1].tolist()
        [32.0, 32.0]
    """
    extra = () if additional_inputs is None else tuple(additional_inputs)
    with torch.no_grad():
        return control_flow.while_loop(cond_fn, body_fn, tuple(carried_inputs), extra)


def fori_loop(lower: torch.Tensor, upper: torch.Tensor, body_fun: Callable[..., Any], *input_value: Any) -> Any:
    """Apply ``body_fun`` to tensors ``upper - lower`` times, in a loop on the device.

    Args:
        lower: a tensor of one integer.
        upper: as ``lower``.
        body_fun: takes the tensors, returns their next values.
        input_value: the first values.

    Returns:
        The count that is left, which is 0, and the last values.

    Raises:
        NotLoweredError: as `while_loop`.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.fori_loop import fori_loop
        >>> lower, upper = torch.tensor([2], device="xla"), torch.tensor([5], device="xla")
        >>> fori_loop(lower, upper, lambda x: x + 1, torch.zeros(2, device="xla"))[1].tolist()
        [3.0, 3.0]
    """

    def body(left: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = body_fun(*values)
        return (left - 1, *(result if isinstance(result, tuple | list) else (result,)))

    return while_loop(lambda left, *_: left > 0, body, (upper - lower, *input_value))
