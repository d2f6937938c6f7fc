"""Advisory locks on files, for agents that work in one folder at the same time.

`Locks` asks a store: `InProcess`, or one of `lock_stores` for workers that share a
PostgreSQL or Redis server. A store does one thing, so that all of them behave alike:
it changes the table of `waits` in one piece.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_result,
    wait_exponential,
)

from loopguard_lg.acts.strategies import asked, state
from loopguard_lg.digests import tidy_path
from loopguard_lg.workspace import waits
from loopguard_lg.workspace.waits import Grant, Table

T = TypeVar("T")
Change: TypeAlias = Callable[[Table, float], tuple[Table, T]]
"""From the table and the store's time to the new table and an answer."""


class LockStore(Protocol):
    """Keeps the table of one workspace."""

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece: nobody reads or writes between.

        Args:
            change: May be called again where somebody else was faster.
        """


class InProcess:
    """The table in this process, for agents on threads or one event loop.

    Args:
        clock: Seconds from any start.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._table = waits.fresh()

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece."""
        with self._lock:
            self._table, answer = change(self._table, self._clock())
        return answer


@dataclass(frozen=True, kw_only=True)
class Locks:
    """Who may edit which file.

    Attributes:
        store: Keeps who holds what.
        lease: Seconds after which a lock that is not renewed is free.
        patience: Seconds that `acquire` waits before it is refused.
        wait: Seconds between two looks, by tenacity's strategies.
        casefold: Whether names that differ in case are one file.
        sleep: Lets seconds pass.
        asleep: The same on an event loop.
    """

    store: LockStore = field(default_factory=InProcess)
    lease: float = 300.0
    patience: float = 30.0
    wait: Callable[[RetryCallState], float] = wait_exponential(multiplier=0.05, max=2)
    casefold: bool = False
    sleep: Callable[[float], Any] = time.sleep
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep

    def attempt(self, path: str, agent: str) -> Grant:
        """Take the lock on a file, or line up for it; does not wait."""
        key = self.key(path)
        return self.store.update(
            lambda table, now: waits.acquire(table, key, agent, now, self.lease)
        )

    def acquire(self, path: str, agent: str) -> Grant:
        """Take the lock on a file, waiting for it; who is refused leaves the line."""
        tries = Retrying(sleep=self.sleep, **self._settings)
        return self._settled(tries(self.attempt, path, agent), path, agent)

    async def aacquire(self, path: str, agent: str) -> Grant:
        """Take the lock on a file, waiting for it; who is refused leaves the line."""

        async def attempt() -> Grant:
            return await asyncio.to_thread(self.attempt, path, agent)

        tries = AsyncRetrying(sleep=self.asleep, **self._settings)
        grant: Grant = await tries(attempt)
        return await asyncio.to_thread(self._settled, grant, path, agent)

    def pause(self, attempt: int, slept: float) -> float:
        """Seconds to the next look after so many looks and seconds."""
        return float(asked(self.wait, state(attempt, slept), 1.0))

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "retry": retry_if_result(lambda grant: not grant.held),
            "wait": self.wait,
            "stop": lambda state: state.idle_for >= self.patience,
            "retry_error_callback": lambda state: state.outcome.result(),
        }

    def _settled(self, grant: Grant, path: str, agent: str) -> Grant:
        if not grant.held:
            self.release(agent, path)
        return grant

    def renew(self, agent: str) -> None:
        """Extend every lock that an agent still holds."""
        self.store.update(
            lambda table, now: (waits.renew(table, agent, now, self.lease), None)
        )

    def release(self, agent: str, path: str | None = None) -> None:
        """Give up the lock on a file and the wait for it; `None`: all of them."""
        key = None if path is None else self.key(path)
        self.store.update(lambda table, now: (waits.release(table, agent, key), None))

    def clear(self, agent: str) -> None:
        """Give up all that an agent holds and waits for, in whichever thread."""
        self.store.update(lambda table, now: (waits.clear(table, agent), None))

    def holder(self, path: str) -> str | None:
        """Who holds the lock on a file, if anybody."""
        return self.report()["held"].get(self.key(path))  # type: ignore[no-any-return]

    def report(self) -> dict[str, Any]:
        """Who holds what and who waits for whom: `held`, `waits`, `lost`."""
        return self.store.update(lambda table, now: (table, waits.report(table, now)))

    def key(self, path: str) -> str:
        """One spelling of a path."""
        tidy = tidy_path(path)
        return tidy.casefold() if self.casefold else tidy
