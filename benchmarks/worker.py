"""The process of one subject: reads requests from stdin, one JSON object a line, and answers on stdout.

``{"open": CASE, "quick": BOOL}`` sets a case up, ``{"sample": true}`` measures one sample in seconds (or bytes) per
unit, and ``{"close": true}`` drops the case. Answers are ``{"ok": VALUE}`` or ``{"error": TEXT}``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from . import cases, op_cases, subjects


class Worker:
    """A subject, and the case that is open."""

    def __init__(self, name: str) -> None:
        self.module = subjects.load(name)
        self.subject = self.module.subject()
        self._sample: tuple[Callable[[], Any], int] | None = None
        self._own = False  # whether the work returns the figure

    def answer(self, request: dict[str, Any]) -> Any:
        """Do what a request asks for; KeyError for a case that the subject lacks."""
        if "open" in request:
            known = {**cases.CASES, **getattr(self.module, "OPS", op_cases.BY_TORCH), **getattr(self.module, "OWN", {})}
            self._sample = known[request["open"]](self.subject, request["quick"])
            spec = cases.SPECS.get(request["open"])
            self._own = spec is not None and spec.unit == "MB"
            return True
        if "sample" in request:
            assert self._sample is not None, "no case is open"
            work, units = self._sample
            gc.collect()
            start = time.perf_counter()
            figure = work()
            return (figure if self._own else time.perf_counter() - start) / units
        self._sample = None
        gc.collect()
        return True


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print
    worker = Worker(sys.argv[1])
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(2)
    for line in sys.stdin:
        try:
            reply = {"ok": worker.answer(json.loads(line))}
        except Exception as e:
            reply = {"error": "".join(traceback.format_exception_only(e)).strip()}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
