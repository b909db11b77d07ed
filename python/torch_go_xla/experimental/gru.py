"""torch_xla's ``torch_xla.experimental.gru``: `torch.nn.GRU`, which is one loop on the device by itself."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["GRU"]


class GRU(torch.nn.GRU):
    """`torch.nn.GRU` by torch_xla's name: each layer is compiled as one loop over the sequence.

    Unlike torch_xla's it takes packed sequences, and may be bidirectional.

    Args:
        args: those of `torch.nn.GRU`.
        kwargs: likewise, by name.

    Example:
        >>> import torch
        >>> from torch_go_xla.experimental.gru import GRU
        >>> gru = GRU(3, 4, num_layers=2).to("xla")
        >>> output, hidden = gru(torch.ones(7, 2, 3, device="xla"))
        >>> tuple(output.shape), tuple(hidden.shape)
        ((7, 2, 4), (2, 2, 4))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
