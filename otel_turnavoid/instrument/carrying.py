"""Threads and executors: what is current goes along.

asyncio tasks inherit it by themselves; threads and executors do not.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from otel_turnavoid.instrument.misuse import Misuse, misused

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import ParamSpec

    P = ParamSpec("P")
R = TypeVar("R")


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` such that it runs in what is current now, in whatever thread.

    For ``Thread(target=carry(work))`` and callbacks. May run any number of times at once.
    """
    here = copy_context()

    @wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        return here.copy().run(function, *args, **kwargs)

    return carried


class ContextExecutor(Executor):
    """An executor of threads whose work runs in what was current where it was submitted.

    Args:
        executor: Does the work, such as a ``ThreadPoolExecutor``; shut down with this one. One
            of processes cannot carry a context: see ``hop``.
    """

    def __init__(self, executor: Executor) -> None:
        if isinstance(executor, ProcessPoolExecutor):
            misused(Misuse.PROCESS, "processes do not share a context: hand work over with hop()")
        self._executor = executor
        self._carries = not isinstance(executor, ProcessPoolExecutor)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run ``fn`` in the background, in the context of this call."""
        work = carry(fn) if self._carries else fn
        return self._executor.submit(work, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Free the threads of the executor inside."""
        self._executor.shutdown(wait=wait, cancel_futures=cancel_futures)
