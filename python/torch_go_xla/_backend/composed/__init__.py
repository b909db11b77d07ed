"""Ops that are composed of others, a module a family. Each adds its kernels to `_backend.kernels` when it is imported.

A new module needs to be named nowhere: importing this package imports all that lie in it.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
