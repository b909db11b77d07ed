"""Runs the examples in the docstrings of modules, each with nothing imported, as a user pastes it.

Those that use SPMD change the process: ``spmd`` as the first argument runs them, ``single`` the others.
"""

import doctest
import importlib
import sys

kind, *names = sys.argv[1:]
failed = 0
for name in names:
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        if ("use_spmd()" in test.docstring) == (kind == "spmd"):
            test.globs = {"__name__": "__main__"}
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failed += runner.run(test).failed
sys.exit(1 if failed else 0)
