"""Waiting for somebody else's code, and no longer than that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Any, TypeVar

from loopguard_lg.forking import renew

T = TypeVar("T")


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What `work` gives, if it does in time.

    A driver may take its time to let go of a call that is cancelled: one for
    PostgreSQL asks the server to cancel it, and waits for the answer. So what is late
    is cancelled and left behind, where `asyncio.timeout` would wait for its end.

    Raises:
        TimeoutError: The seconds were over first.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    task.add_done_callback(_seen)
    task.cancel()
    raise _late(seconds)


class Aside:
    """Threads in which synchronous code works that may hang.

    Nothing stops such a call: it is left behind in its thread, which does not keep the
    process from ending.

    Args:
        most: Most threads at once; one that is left behind counts until it ends.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.forked()
        renew(self)

    def forked(self) -> None:
        """Have room: a child has none of the threads that were left behind."""
        self._room = BoundedSemaphore(self._most)

    def in_time(self, work: Callable[[], T], seconds: float) -> T:
        """What `work` gives, if there is room for it and it does in time.

        Raises:
            TimeoutError: The seconds were over first.
        """
        until = monotonic() + seconds
        if not self._room.acquire(timeout=seconds):
            raise TimeoutError(f"no room for a call in {seconds:g} seconds")
        answer: Future[T] = Future()
        self._start(work, answer)
        try:
            return answer.result(max(until - monotonic(), 0))
        except TimeoutError:
            if answer.done():  # it is the work's own, or it was done just now
                return answer.result()
            raise _late(seconds) from None

    def _start(self, work: Callable[[], T], answer: Future[T]) -> None:
        told = copy_context().run, (self._work, work, answer)
        try:
            Thread(target=told[0], args=told[1], name="loopguard", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._room.release()
            raise

    def _work(self, work: Callable[[], T], answer: Future[T]) -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)
        finally:
            self._room.release()


def _late(seconds: float) -> TimeoutError:
    return TimeoutError(f"no answer in {seconds:g} seconds")


def _seen(task: asyncio.Task[Any]) -> None:
    """Take note of how it ended, or asyncio says that nobody did."""
    if not task.cancelled():
        task.exception()
