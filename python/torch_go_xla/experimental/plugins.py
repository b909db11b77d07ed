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
    """Accept what torch_xla's programs ask for: every device is a plugin here."""
    os.environ["PJRT_DYNAMIC_PLUGINS"] = "1"


def using_dynamic_plugins() -> bool:
    """Tell whether the device is served by a plugin other than the CPU's."""
    return runtime.device_type() != "CPU"


def default() -> DevicePlugin:
    """Return the plugin of the device of this process; ValueError if there is none."""
    return _plugins.find_plugin(runtime.device_type())


def register_installed_plugins() -> None:
    """Accept what torch_xla's programs ask for: installed plugins are found by their names."""
