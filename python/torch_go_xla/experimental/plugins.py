"""Plugins of devices: torch_xla's ``torch_xla.experimental.plugins``. See `torch_go_xla.plugins`."""

from __future__ import annotations

import os

from .. import plugins as _plugins
from .. import runtime
from ..plugins import DevicePlugin, register_plugin

__all__ = [
    "DevicePlugin",
    "default",
    "register_installed_plugins",
    "register_plugin",
    "use_dynamic_plugins",
    "using_dynamic_plugins",
]


def use_dynamic_plugins() -> None:
    """Set PJRT_DYNAMIC_PLUGINS, as programs for torch_xla do. Every device is a plugin here anyway.

    Example:
        >>> import torch_go_xla.experimental.plugins as plugins
        >>> plugins.use_dynamic_plugins()
    """
    os.environ["PJRT_DYNAMIC_PLUGINS"] = "1"


def using_dynamic_plugins() -> bool:
    """Tell whether the device is served by a plugin other than the CPU's.

    Example:
        >>> import torch_go_xla.experimental.plugins as plugins
        >>> plugins.using_dynamic_plugins()
        False
    """
    return runtime.device_type() != "CPU"


def default() -> DevicePlugin:
    """Return the plugin of the device of this process.

    Raises:
        ValueError: there is no plugin for PJRT_DEVICE.

    Example:
        >>> import torch_go_xla.experimental.plugins as plugins
        >>> plugins.default()
        <torch_go_xla.plugins.CpuPlugin object at 0x...>
    """
    return _plugins.find_plugin(runtime.device_type())


def register_installed_plugins() -> None:
    """Do nothing: installed plugins are found by their names. Programs for torch_xla call it.

    Example:
        >>> import torch_go_xla.experimental.plugins as plugins
        >>> plugins.register_installed_plugins()
    """
