"""Equal layers as one loop: torch_xla's ``torch_xla.experimental.scan_layers``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .scan import scan

__all__ = ["scan_layers"]


def scan_layers(
    layers: Iterable[torch.nn.Module],
    input_data: Any,
    partition_fn: Callable[..., Any] | None = None,
    is_layer_pure: bool = False,
) -> Any:
    """Apply layers in turn, as ``torch.nn.Sequential(*layers)(input_data)`` does, compiled as one layer in a loop.

    Args:
        layers: modules of one structure, which compute the same from their parameters and buffers.
        input_data: the input of the first layer; the others get the result of the layer before, of the same shape.
        partition_fn: accepted for torch_xla's programs.
        is_layer_pure: accepted for torch_xla's programs.

    Returns:
        The result of the last layer; ``input_data`` if there are none.

    Raises:
        ValueError: the parameters or buffers of two layers have different names or shapes.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.scan_layers import scan_layers
        >>> layers = [torch.nn.Linear(16, 16, device="xla") for _ in range(10)]
        >>> scan_layers(layers, torch.randn(2, 16, device="xla")).shape
        torch.Size([2, 16])
    """
    every = list(layers)
    if not every:
        return input_data
    states = [{**dict(layer.named_parameters()), **dict(layer.named_buffers())} for layer in every]
    _check_equal(states)
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    example = copy.copy(every[0])

    def layer(carry: Any, state: dict[str, torch.Tensor]) -> tuple[Any, None]:
        return torch.func.functional_call(example, state, carry, strict=True), None

    if not stacked:
        raise ValueError("scan_layers: the layers have neither parameters nor buffers")
    return scan(layer, input_data, stacked, partition_fn, is_layer_pure)[0]


def _check_equal(states: list[dict[str, torch.Tensor]]) -> None:
    first = states[0]
    for i, state in enumerate(states[1:], 1):
        if state.keys() != first.keys():
            raise ValueError(f"Layer {i} has mismatched keys: {sorted(state.keys() ^ first.keys())}")
        for name, value in state.items():
            if value.shape != first[name].shape:
                raise ValueError(
                    f"Shape mismatch for '{name}' in layer {i}: expected {first[name].shape}, got {value.shape}"
                )
