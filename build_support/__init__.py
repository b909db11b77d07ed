"""Builds the native parts of torch-go-xla.

Two shared libraries come out of it:

* ``torch_go_xla/_go/_goxla<SOABI>.so``: the Go core, its control surface (made
  with gopy from ``bindings/``) and the ``_goxlafast`` module, in one library;
* ``torch_go_xla/_lib/libpjrt_xla_cpu.so``: the XLA:CPU plugin (C++), compiled
  against the headers and libraries of the ``tensorflow-cpu`` package.

========== =================================================================
toolchain  finds Go, the C and C++ compilers and Python's headers
surface    gopy, hardening, pybindgen and the one ``go build``
harden     the rewrite of what gopy generates
plugin     the XLA:CPU plugin
stamps     tells whether a build step has to run again
pipeline   all of the above, into a given directory
commands   the setuptools commands; ``backend`` the PEP 517 hooks
========== =================================================================

Everything that is written between builds lies under ``build/``.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
