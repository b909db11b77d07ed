"""Policies that say which parts of a module are sharded by themselves.

A policy is called with ``module``, ``recurse`` and ``unwrapped_params``, the number of elements of the parameters that
no inner wrapper has. With ``recurse`` it says whether to look at the children, else whether to wrap the module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from torch import nn

__all__ = [
    "Policy",
    "always_wrap_policy",
    "hide_in_state_dicts",
    "lambda_auto_wrap_policy",
    "recursive_wrap",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]

Policy = Callable[..., bool]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module."""
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    """Wrap the modules for which ``lambda_fn`` is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, transformer_layer_cls: Collection[type[nn.Module]]
) -> bool:
    """Wrap the modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Collection[type[nn.Module]] | None = None,
    exclude_wrap_modules: Collection[type[nn.Module]] | None = None,
) -> bool:
    """Wrap modules whose parameters have at least ``min_num_params`` elements.

    Args:
        force_leaf_modules: whose children are not looked at, by default MultiheadAttention.
        exclude_wrap_modules: which are not wrapped themselves, by default ModuleList and ModuleDict.
    """
    leaves = (nn.MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded = (nn.ModuleList, nn.ModuleDict) if exclude_wrap_modules is None else tuple(exclude_wrap_modules)
    return unwrapped_params >= min_num_params and not isinstance(module, leaves if recurse else excluded)


def recursive_wrap(
    module: nn.Module,
    auto_wrap_policy: Policy,
    wrapper_cls: Callable[..., nn.Module],
    ignored_modules: Collection[nn.Module] = (),
    ignored_params: Collection[nn.Parameter] = (),
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[nn.Module, int]:
    """Wrap the parts of a module that a policy names, innermost first.

    Args:
        wrapper_cls: is called with the part and ``kwargs``, and with what the part has as ``_wrap_overrides``.
        ignored_modules: stay as they are.
        ignored_params: do not count.
        only_wrap_children: the module itself is not wrapped.

    Returns:
        The module, and the number of elements of the parameters in wrapped parts.
    """
    ignored = {id(p) for p in ignored_params}
    count = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if any(child is m for m in ignored_modules):
            continue
        part, inside = recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs)
        setattr(module, name, part)
        wrapped += inside
    if only_wrap_children or not auto_wrap_policy(module=module, recurse=False, unwrapped_params=count - wrapped):
        return module, wrapped
    overrides: Any = getattr(module, "_wrap_overrides", {})
    return wrapper_cls(module, **{**kwargs, **overrides}), count


def _unwrap(inner: str, module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    for name in [name for name in state if name.startswith(prefix + inner)]:
        state[prefix + name.removeprefix(prefix + inner)] = state.pop(name)


def _wrap(inner: str, module: nn.Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(prefix + inner)]:
        state[prefix + inner + name.removeprefix(prefix)] = state.pop(name)


def hide_in_state_dicts(wrapper: nn.Module, attribute: str) -> None:
    """Let the state dicts of a wrapper have the names of the module that is its ``attribute``.

    State dicts with these names are loaded too.
    """
    hooks = (functools.partial(hook, f"{attribute}.") for hook in (_unwrap, _wrap))
    wrapper.register_state_dict_post_hook(next(hooks))  # type: ignore[no-untyped-call]
    wrapper.register_load_state_dict_pre_hook(next(hooks))  # type: ignore[no-untyped-call]
