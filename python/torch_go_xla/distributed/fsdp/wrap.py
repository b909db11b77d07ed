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

# Decides whether a module is wrapped: called with `module`, `recurse` and `unwrapped_params`, returns a bool.
Policy = Callable[..., bool]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module.

    Args:
        args: what a policy is called with.
        kwargs: what a policy is called with.

    Returns:
        True.

    Example:
        >>> import torch
        >>> from torch_go_xla.distributed.fsdp.wrap import always_wrap_policy
        >>> always_wrap_policy(module=torch.nn.ReLU(), recurse=False, unwrapped_params=0)
        True
    """
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    """Wrap the modules for which a function is true. Give ``lambda_fn`` by ``functools.partial``.

    Args:
        module: the module that is asked about.
        recurse: the question is whether to look at its children.
        unwrapped_params: the number of elements of its parameters that are in no inner wrapper.
        lambda_fn: tells whether to wrap a module.

    Returns:
        The answer.

    Example:
        >>> import functools, torch
        >>> from torch_go_xla.distributed.fsdp.wrap import lambda_auto_wrap_policy
        >>> policy = functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, torch.nn.Linear))
        >>> policy(torch.nn.ReLU(), recurse=False, unwrapped_params=0)
        False
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, transformer_layer_cls: Collection[type[nn.Module]]
) -> bool:
    """Wrap the modules of some classes. Give ``transformer_layer_cls`` by ``functools.partial``.

    Args:
        module: the module that is asked about.
        recurse: the question is whether to look at its children.
        unwrapped_params: the number of elements of its parameters that are in no inner wrapper.
        transformer_layer_cls: the classes.

    Returns:
        The answer.

    Example:
        >>> import functools, torch
        >>> from torch_go_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2)
        >>> policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layer)})
        >>> policy(layer, recurse=False, unwrapped_params=1000)
        True
    """
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
        module: the module that is asked about.
        recurse: the question is whether to look at its children.
        unwrapped_params: the number of elements of its parameters that are in no inner wrapper.
        min_num_params: the number of elements.
        force_leaf_modules: whose children are not looked at, by default MultiheadAttention.
        exclude_wrap_modules: which are not wrapped themselves, by default ModuleList and ModuleDict.

    Returns:
        The answer.

    Example:
        >>> import functools, torch
        >>> from torch_go_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy
        >>> policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1000)
        >>> policy(torch.nn.Linear(100, 100), recurse=False, unwrapped_params=10_100)
        True
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
        module: the module, whose children are replaced.
        auto_wrap_policy: names the parts.
        wrapper_cls: is called with the part and ``kwargs``, and with what the part has as ``_wrap_overrides``.
        ignored_modules: stay as they are.
        ignored_params: do not count.
        only_wrap_children: the module itself is not wrapped.
        kwargs: arguments of the wrapper.

    Returns:
        The module, and the number of elements of the parameters in wrapped parts.

    Example:
        >>> import functools, torch
        >>> from torch_go_xla.distributed.fsdp.wrap import recursive_wrap, transformer_auto_wrap_policy
        >>> policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={torch.nn.Linear})
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        >>> recursive_wrap(model, policy, torch.nn.Sequential)
        (Sequential(
          (0): Sequential(
            (0): Linear(in_features=4, out_features=4, bias=True)
          )
          (1): ReLU()
        ), 20)
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
    """Let the state dicts of a wrapper have the names of the module that is in it.

    State dicts with these names are loaded too.

    Args:
        wrapper: the wrapper.
        attribute: the name of the attribute that is the module.

    Example:
        >>> import torch
        >>> from torch_go_xla.distributed.fsdp.wrap import hide_in_state_dicts
        >>> class Wrapper(torch.nn.Module):
        ...     def __init__(self, inner):
        ...         super().__init__()
        ...         self.inner = inner
        ...         hide_in_state_dicts(self, "inner")
        >>> list(Wrapper(torch.nn.Linear(4, 2)).state_dict())
        ['weight', 'bias']
    """
    hooks = (functools.partial(hook, f"{attribute}.") for hook in (_unwrap, _wrap))
    wrapper.register_state_dict_post_hook(next(hooks))  # type: ignore[no-untyped-call]
    wrapper.register_load_state_dict_pre_hook(next(hooks))  # type: ignore[no-untyped-call]
