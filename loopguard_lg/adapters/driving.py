"""What happens around something of the user's, written once for sync and async.

It is a generator that yields what is to be run, or done, and is sent what came of it;
`drive` and `adrive` carry it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be run.

    Attributes:
        given: Its input.
        seconds: The seconds left for it; `None` for no limit. Only async keeps to it.
        what: What is run, where the host needs to be told.
        each: `given` is several inputs, each for a run of its own, side by side; what
            one of them raises is its output.
    """

    given: Any
    seconds: float | None = None
    what: Any = None
    each: bool = False

    def on(
        self, one: Callable[..., Any], many: Callable[..., Any], **given: Any
    ) -> Any:
        """What comes of it: by `one` for an input, by `many` for several."""
        if self.each:
            return many(self.given, return_exceptions=True, **given)
        return one(self.given, **given)


@dataclass(frozen=True, slots=True)
class Do:
    """Something of the guard's own that may wait.

    Attributes:
        plain: Does it.
        awaited: The same on an event loop.
    """

    plain: Callable[[], Any]
    awaited: Callable[[], Awaitable[Any]]


def off_loop(what: Callable[..., Any], *given: Any) -> Do:
    """Something that takes its time, done in a thread where there is an event loop."""
    return Do(partial(what, *given), partial(asyncio.to_thread, what, *given))


class CutOffError(Exception):
    """The budget of seconds ended while something was running."""


T = TypeVar("T")
Work: TypeAlias = Generator[Run | Do, Any, T]


def drive(work: Work[T], run: Callable[[Run], Any]) -> T:
    """What `work` returns, with what it asks for done here and now."""
    step: Callable[[], Run | Do] = partial(next, work)
    try:
        while True:
            asked = step()
            try:
                done = run(asked) if isinstance(asked, Run) else asked.plain()
            except BaseException as error:
                step = partial(work.throw, error)
            else:
                step = partial(work.send, done)
    except StopIteration as end:
        value: T = end.value
        return value


async def adrive(work: Work[T], run: Callable[[Run], Awaitable[Any]]) -> T:
    """What `work` returns, with what it asks for awaited, and cut when time is out."""
    step: Callable[[], Run | Do] = partial(next, work)
    try:
        while True:
            asked = step()
            try:
                done = await (
                    within(asked.seconds, partial(run, asked))
                    if isinstance(asked, Run)
                    else asked.awaited()
                )
            except BaseException as error:
                step = partial(work.throw, error)
            else:
                step = partial(work.send, done)
    except StopIteration as end:
        value: T = end.value
        return value


def through(work: Work[T], each: Callable[[Run | Do], Work[Any]]) -> Work[T]:
    """`work` with something around each thing that it asks for."""
    step: Callable[[], Run | Do] = partial(next, work)
    try:
        while True:
            asked = step()
            try:
                done = yield from each(asked)
            except BaseException as error:
                step = partial(work.throw, error)
            else:
                step = partial(work.send, done)
    except StopIteration as end:
        value: T = end.value
        return value


async def within(seconds: float | None, run: Callable[[], Awaitable[T]]) -> T:
    """What `run` gives, if it does in time.

    Raises:
        CutOffError: The seconds were over first.
    """
    if seconds is None:
        return await run()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await run()
    except TimeoutError as error:
        if limit.expired():
            raise CutOffError from error
        raise
