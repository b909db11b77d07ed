"""Custom calls by the names of torch_xla's ``torch_xla.experimental.stablehlo_custom_call``.

`torch_go_xla.custom_op` makes ops of such calls, with gradients; `torch_go_xla.register_ffi_target` says what they run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _absent
from .._backend.functions import define
from .._vocabulary import HLO_TYPES

__all__ = ["place_to_device", "place_to_host", "stablehlo_custom_call"]

_ELEMENTS = {getattr(torch, name): element for element, name in HLO_TYPES.items()}


def stablehlo_custom_call(
    args: Sequence[torch.Tensor],
    call_target: str,
    output_shapes: Sequence[Sequence[int]],
    output_dtypes: Sequence[torch.dtype],
    has_side_effect: bool = False,
    backend_config: str = "",
    api_version: int = 0,
    frontend_attributes: Mapping[str, str] | None = None,
) -> torch.Tensor | list[torch.Tensor]:
    """Record a ``stablehlo.custom_call``.

    Args:
        args: the operands, xla tensors.
        call_target: what is called: a target of the device's plugin, or of `torch_go_xla.register_ffi_target`.
        output_shapes: the shape of each result.
        output_dtypes: the dtype of each result.
        has_side_effect: the compiler must not drop the call, or run it twice. Without a use of a result it is not
            recorded all the same.
        backend_config: a text for the target; for version 4 MLIR's attributes, such as ``"{by = 2.0 : f32}"``.
        api_version: of the calling convention: 4 is that of typed handlers.
        frontend_attributes: attributes that the compiler passes on.

    Returns:
        The result, or a list of several.

    Raises:
        ValueError: no results, or shapes and dtypes of different numbers.
        TypeError: a dtype that xla tensors cannot have.
        XlaError: where a result is read: the device knows no such target, or it failed.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.stablehlo_custom_call import stablehlo_custom_call
        >>> x = torch.ones(3, device="xla")
        >>> stablehlo_custom_call([x], "Sharding", [x.shape], [x.dtype]).tolist()
        [1.0, 1.0, 1.0]
    """
    if len(output_shapes) != len(output_dtypes) or not output_shapes:
        raise ValueError(f"got {len(output_shapes)} output shapes and {len(output_dtypes)} output dtypes")
    taken = [_type(x.shape, x.dtype) for x in args]
    given = [_type(shape, dtype) for shape, dtype in zip(output_shapes, output_dtypes, strict=True)]
    config = backend_config or "{}" if api_version == 4 else json.dumps(backend_config)
    attributes = {
        "call_target_name": json.dumps(call_target),
        "has_side_effect": str(bool(has_side_effect)).lower(),
        "api_version": f"{max(api_version, 1)} : i32",
        "backend_config": config,
    }
    if frontend_attributes:
        pairs = (f"{name} = {json.dumps(value)}" for name, value in frontend_attributes.items())
        attributes["mhlo.frontend_attributes"] = f"{{{', '.join(pairs)}}}"
    operands = ", ".join(f"%{i}" for i in range(len(taken)))
    several = "%r" if len(given) == 1 else ", ".join(f"%r#{i}" for i in range(len(given)))
    function = define(
        f"""func.func @main({", ".join(f"%{i}: {kind}" for i, kind in enumerate(taken))}) -> ({", ".join(given)}) {{
  %r{f":{len(given)}" if len(given) > 1 else ""} = "stablehlo.custom_call"({operands}) {{
    {", ".join(f"{name} = {value}" for name, value in attributes.items())}
  }} : ({", ".join(taken)}) -> ({", ".join(given)})
  return {several} : {", ".join(given)}
}}"""
    )
    results = function(args)
    return results[0] if len(results) == 1 else results


class _Placed(torch.autograd.Function):
    @staticmethod
    def forward(t: torch.Tensor, memory: str) -> Any:
        return torch.ops.torch_go_xla.place_in(t, memory)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, t: torch.Tensor, memory: str) -> Any:
        return _Placed.apply(t, memory), in_dims[0]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def _placed(name: str, t: torch.Tensor, memory: str) -> torch.Tensor:
    if t.device.type != "xla":
        raise RuntimeError(f"{name}: expected an xla tensor, got one on {t.device}")
    return _Placed.apply(t, memory)  # type: ignore[no-any-return]


def place_to_host(t: torch.Tensor) -> torch.Tensor:
    """Move a value to the host's memory, within the program that is recorded.

    So activations wait for the backward pass without taking the device's memory. It is compiled for a TPU v5e, but was
    never run there. The CPU device has one memory, and XLA ignores the wish on NVIDIA's GPUs: the value stays there.

    Args:
        t: an xla tensor, of any shape.

    Returns:
        A tensor of the same shape. Ops other than `place_to_device` may not read it. Its gradient is that of ``t``.

    Raises:
        RuntimeError: a tensor of another device.
        CompileError: where a result is read: the device's compiler cannot do it.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.stablehlo_custom_call import place_to_device, place_to_host
        >>> x = torch.ones(3, device="xla", requires_grad=True)
        >>> kept = place_to_host(x.exp())
        >>> place_to_device(kept).sum().backward()
        >>> torch.equal(x.grad, x.exp())
        True
    """
    return _placed("place_to_host", t, "pinned_host")


def place_to_device(t: torch.Tensor) -> torch.Tensor:
    """Move a value of `place_to_host` back to the device's memory.

    Args:
        t: an xla tensor, of any shape.

    Returns:
        A tensor of the same shape, with the gradient of ``t``.

    Raises:
        RuntimeError: a tensor of another device.
        CompileError: where a result is read: the device's compiler cannot do it.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.stablehlo_custom_call import place_to_device, place_to_host
        >>> place_to_device(place_to_host(torch.arange(3, device="xla"))).tolist()
        [0, 1, 2]
    """
    return _placed("place_to_device", t, "device")


def _type(shape: Sequence[int], dtype: torch.dtype) -> str:
    if dtype not in _ELEMENTS:
        raise TypeError(f"xla tensors cannot have dtype {dtype}")
    return f"tensor<{''.join(f'{n}x' for n in shape)}{_ELEMENTS[dtype]}>"


__getattr__ = _absent.attributes(__name__)
