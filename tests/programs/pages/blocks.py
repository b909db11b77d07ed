"""Runs the blocks of a page in one namespace."""

import json
import sys

namespace = {"__name__": "__main__"}
for name, raises, code in json.load(open(sys.argv[1])):
    try:
        exec(compile(code, name, "exec"), namespace)
    except Exception as error:
        if type(error).__name__ != raises and raises not in [c.__name__ for c in type(error).__mro__]:
            raise
    else:
        assert not raises, f"{name} raises no {raises}"
