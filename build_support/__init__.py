"""Builds the native parts of torch-go-xla.

Two parts come out of it:

* ``torch_go_xla/_go/_goxla<SOABI>.so``: the Go core, its control surface (made
  with gopy from ``bindings/``) and the ``_goxlafast`` module, in one library;
* ``torch_go_xla/_lib/libpjrt_xla_cpu.so``: the XLA:CPU plugin (C++), compiled
  against the ``tensorflow-cpu`` package, and XLA's libraries beside it. They are
  for the source tree; who installs has the package ``pjrt-xla-cpu``, which is
  made from the same files.

========== =================================================================
toolchain  finds Go, the C and C++ compilers and Python's headers
surface    gopy, hardening, pybindgen and the one ``go build``
harden     the rewrite of what gopy generates
old_glibc  stubs by which a wheel built here loads on older systems
plugin     the XLA:CPU plugin
stamps     tells whether a build step has to run again
pipeline   all of the above, into a given directory
wheels     makes, audits and tries the wheels
release    checks them before a release
site       the documentation, built by Sphinx
commands   the setuptools commands; ``backend`` the PEP 517 hooks
========== =================================================================

Everything that is written between builds lies under ``build/``.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
