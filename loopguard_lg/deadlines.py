"""Waiting for somebody else's code on an event loop, and no longer than that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

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
    raise TimeoutError(f"no answer in {seconds:g} seconds")


def _seen(task: asyncio.Task[Any]) -> None:
    """Take note of how it ended, or asyncio says that nobody did."""
    if not task.cancelled():
        task.exception()
