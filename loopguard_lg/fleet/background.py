"""An event loop of its own for what talks to a server, used from any thread or loop.

A connection belongs to one event loop, and programs have several, or none. So ledgers
are written once, asynchronously, and run here; that also cuts what does not answer,
which nothing can do to a synchronous call.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

from loopguard_lg.budgets import Exceeded
from loopguard_lg.deadlines import in_time
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet.ledger import Balance, Hold
from loopguard_lg.forking import renew

T = TypeVar("T")


class Background:
    """An event loop in a daemon thread, started when it is needed.

    A process that was forked starts its own: threads are not inherited.

    Attributes:
        generation: Counts forks on the way to this process; connections are of one.
    """

    def __init__(self) -> None:
        self.generation = -1
        self.forked()
        renew(self)

    def forked(self) -> None:
        """Have no loop."""
        self.generation += 1
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` there."""
        with self._lock:
            if self._loop is None:
                self._loop = self._started()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _started(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        Thread(target=loop.run_forever, name="loopguard-fleet", daemon=True).start()
        return loop


_background = Background()


class ServerLedger(ABC):
    """A ledger on a server: the methods of `BudgetLedger`, each cut after `timeout`.

    A subclass says what is done, asynchronously; it runs in one event loop.

    Args:
        timeout: Seconds that one act may take, connecting included.
    """

    def __init__(self, *, timeout: float = 2.0) -> None:
        if not timeout > 0:
            raise PolicyError(f"timeout={timeout!r}: give more than 0 seconds")
        self.timeout = timeout

    def reserve(self, hold: Hold, now: float) -> Exceeded | None:
        """Hold all claims, or none: then the first limit without room."""
        return self._submit(self._reserve(hold, now)).result()

    def settle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """Let go of a hold, expired or not, and add what was `spent` of each claim."""
        self._submit(self._settle(hold, spent, now)).result()

    def balance(self, key: str, now: float) -> Balance:
        """What stands under a key."""
        return self._submit(self._balance(key, now)).result()

    async def areserve(self, hold: Hold, now: float) -> Exceeded | None:
        """The same as `reserve` on an event loop."""
        return await asyncio.wrap_future(self._submit(self._reserve(hold, now)))

    async def asettle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """The same as `settle` on an event loop; goes on when its caller is cut."""
        done = self._submit(self._settle(hold, spent, now))
        await asyncio.shield(asyncio.wrap_future(done))

    async def abalance(self, key: str, now: float) -> Balance:
        """The same as `balance` on an event loop."""
        return await asyncio.wrap_future(self._submit(self._balance(key, now)))

    def close(self) -> None:
        """Close the connections; the next act opens new ones."""
        self._submit(self._close()).result()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return _background.submit(in_time(work, self.timeout))

    @property
    def _process(self) -> int:
        return _background.generation

    @abstractmethod
    async def _reserve(self, hold: Hold, now: float) -> Exceeded | None: ...

    @abstractmethod
    async def _settle(self, hold: Hold, spent: Sequence[float], now: float) -> None: ...

    @abstractmethod
    async def _balance(self, key: str, now: float) -> Balance: ...

    @abstractmethod
    async def _close(self) -> None: ...
