"""Autograd functions of nested data: torch_xla's ``torch_xla.experimental.pytreeify``."""

from __future__ import annotations

from typing import Any

from torch.autograd import Function
from torch.utils import _pytree as pytree

__all__ = ["pytreeify"]


def pytreeify(cls: type[Function]) -> type[Function]:
    """Let a ``torch.autograd.Function`` take and return nested data with tensors; a class decorator.

    ``forward`` and ``backward`` get the data as it is; ``backward`` returns one value for each argument of ``forward``.

    Args:
        cls: the class, which is changed.

    Returns:
        The class.

    Raises:
        RuntimeError: in the backward pass: what it returns is nested differently from the arguments.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.pytreeify import pytreeify
        >>> @pytreeify
        ... class Scale(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, inputs):
        ...         return {"y": inputs["x"] * 3}
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return {"x": grad["y"] * 3}
        >>> x = torch.ones(2, device="xla", requires_grad=True)
        >>> Scale.apply({"x": x})["y"].sum().backward()
        >>> x.grad.tolist()
        [3.0, 3.0]
    """
    forward, backward, apply = cls.forward, cls.backward, cls.apply

    def flat_forward(ctx: Any, structure: Any, holder: list[Any], *leaves: Any) -> tuple[Any, ...]:
        flat, ctx._out_structure = pytree.tree_flatten(forward(ctx, *pytree.tree_unflatten(leaves, structure)))
        ctx._in_structure = structure
        holder.append(ctx._out_structure)
        return tuple(flat)

    def flat_backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        given = pytree.tree_unflatten(gradients, ctx._out_structure)
        result = backward(ctx, *(given if isinstance(given, tuple) else (given,)))
        flat, structure = pytree.tree_flatten(result if isinstance(result, tuple) else (result,))
        if structure != ctx._in_structure:
            raise RuntimeError("The backward generated an arg structure that doesn't match the forward's input.")
        return (None, None, *flat)

    def nested_apply(*args: Any) -> Any:
        leaves, structure = pytree.tree_flatten(args)
        holder: list[Any] = []
        return pytree.tree_unflatten(apply(structure, holder, *leaves), holder[0])

    cls.forward = staticmethod(flat_forward)  # type: ignore[method-assign]
    cls.backward = staticmethod(flat_backward)  # type: ignore[method-assign]
    cls.apply = staticmethod(nested_apply)
    return cls
