"""Runs the closures of `xm.add_step_closure`: at the end of the step, or beside the steps that follow."""

from __future__ import annotations

import abc
import os
import queue
import threading
from collections.abc import Callable, Iterable

__all__ = ["AsyncClosureHandler", "ClosureHandler"]

Closure = Callable[[], object]


class ClosureHandler(abc.ABC):
    """Runs closures in the order in which they come.

    Example:
        >>> from torch_go_xla.utils.closures import ClosureHandler
        >>> class Now(ClosureHandler):
        ...     def run(self, closure):
        ...         closure()
        >>> Now().run_all([lambda: print("first"), lambda: print("second")])
        first
        second
    """

    @abc.abstractmethod
    def run(self, closure: Closure) -> None:
        """Run a closure, now or later.

        Args:
            closure: a function without arguments.
        """

    def run_all(self, closures: Iterable[Closure]) -> None:
        """Run closures in turn.

        Args:
            closures: functions without arguments.
        """
        for closure in closures:
            self.run(closure)


class AsyncClosureHandler(ClosureHandler):
    """Runs closures in one thread beside the program.

    What a closure raises is raised, as the cause of a RuntimeError, by the `run` of the next one. The process waits for
    the closures when it ends.

    Args:
        max_queue_size: closures that may wait; `run` blocks while there are as many. The variable XLA_MAX_ASYNC_QUEUE
            overrides it.

    Example:
        >>> import threading
        >>> from torch_go_xla.utils.closures import AsyncClosureHandler
        >>> done = threading.Event()
        >>> AsyncClosureHandler().run(done.set)  # returns at once
        >>> done.wait()
        True
    """

    def __init__(self, max_queue_size: int = 100) -> None:
        super().__init__()
        size = int(os.environ.get("XLA_MAX_ASYNC_QUEUE", max_queue_size))
        self._closure_queue: queue.Queue[Closure] = queue.Queue(size)
        self._closure_lock = threading.Lock()
        self._closure_exception: Exception | None = None
        self._closure_event_loop: threading.Thread | None = None

    def start_event_loop(self) -> None:
        """Start the thread, unless it runs. `run` does so.

        Example:
            >>> from torch_go_xla.utils.closures import AsyncClosureHandler
            >>> AsyncClosureHandler().start_event_loop()
        """
        if self._closure_event_loop is None:
            self._closure_event_loop = threading.Thread(target=self._run_closures, name="step closures")
            self._closure_event_loop.start()

    def _run_closures(self) -> None:
        while True:
            try:
                closure = self._closure_queue.get(timeout=0.2)
            except queue.Empty:
                with self._closure_lock:
                    if self._closure_queue.empty():
                        self._closure_event_loop = None  # the next closure starts another
                        return
                continue
            try:
                closure()
            except Exception as e:  # of the program's own code; `run` reports it
                self._closure_exception = self._closure_exception or e
            finally:
                self._closure_queue.task_done()

    def run(self, closure: Closure) -> None:
        """Hand a closure over.

        Args:
            closure: a function without arguments.

        Raises:
            RuntimeError: a closure that ran before has failed; its error is the cause.
        """
        error, self._closure_exception = self._closure_exception, None
        if error is not None:
            raise RuntimeError("Cannot run asynchronous closure due to previously raised exception") from error
        self._closure_queue.put(closure)
        with self._closure_lock:
            self.start_event_loop()
