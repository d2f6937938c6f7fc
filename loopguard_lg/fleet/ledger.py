"""What a ledger does, and one in memory.

A worker holds what a model call may take before it, and settles after it with what it
took. A worker that dies settles nothing: its hold expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from threading import Lock
from typing import Protocol

from loopguard_lg.budgets import Exceeded
from loopguard_lg.fleet.limits import GRACE, Claim, lacking
from loopguard_lg.forking import renew


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What is held for one model call.

    Attributes:
        id: Its own, of all workers.
        claims: What it claims, sorted by key.
        expires: When it is void, in seconds since 1970.
    """

    id: str
    claims: tuple[Claim, ...]
    expires: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What is `spent` under a key, and what is `held` for calls under way."""

    spent: float = 0.0
    held: float = 0.0


class BudgetLedger(Protocol):
    """Keeps sums that many workers draw from; each method is one atomic act.

    A store that can't be reached, or does not answer in time, is an exception of any
    kind: a method never hangs. Times are given, in seconds since 1970.
    `loopguard_lg.testing.ledger_kit` checks all of it.
    """

    def reserve(self, hold: Hold, now: float) -> Exceeded | None:
        """Hold all claims, or none: then the first limit without room."""

    def settle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """Let go of a hold, expired or not, and add what was `spent` of each claim."""

    def balance(self, key: str, now: float) -> Balance:
        """What stands under a key."""

    async def areserve(self, hold: Hold, now: float) -> Exceeded | None:
        """The same as `reserve` on an event loop."""

    async def asettle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """The same as `settle` on an event loop."""

    async def abalance(self, key: str, now: float) -> Balance:
        """The same as `balance` on an event loop."""


@dataclass(slots=True)
class _Account:
    """One key: what is spent, what is held by whom until when."""

    spent: float = 0.0
    held: dict[str, tuple[float, float]] = field(default_factory=dict)

    def balance(self, now: float) -> Balance:
        """What stands here, without what has expired."""
        held = sum(amount for amount, until in self.held.values() if until > now)
        return Balance(spent=self.spent, held=held)

    def expire(self, now: float) -> None:
        """Forget holds that have expired."""
        for id_ in [i for i, (_, until) in self.held.items() if until <= now]:
            del self.held[id_]


class MemoryLedger:
    """A ledger for the threads and tasks of one process; gone with it."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._over: list[tuple[float, str]] = []
        self._lock = Lock()
        renew(self)

    def forked(self) -> None:
        """Go on in a child by itself."""
        self._lock = Lock()

    def reserve(self, hold: Hold, now: float) -> Exceeded | None:
        """Hold all claims, or none: then the first limit without room."""
        with self._lock:
            self._purge(now)
            found = [self._account(claim) for claim in hold.claims]
            for account in found:
                account.expire(now)
            balances = [account.balance(now) for account in found]
            out = lacking(hold.claims, [b.spent + b.held for b in balances])
            if out is None:
                for account, claim in zip(found, hold.claims, strict=True):
                    account.held[hold.id] = (claim.amount, hold.expires)
            return out

    def settle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """Let go of a hold, expired or not, and add what was `spent` of each claim."""
        with self._lock:
            for claim, amount in zip(hold.claims, spent, strict=True):
                account = self._account(claim)
                account.held.pop(hold.id, None)
                account.spent += amount

    def balance(self, key: str, now: float) -> Balance:
        """What stands under a key."""
        with self._lock:
            account = self._accounts.get(key)
            return Balance() if account is None else account.balance(now)

    async def areserve(self, hold: Hold, now: float) -> Exceeded | None:
        """The same as `reserve`: nothing here waits."""
        return self.reserve(hold, now)

    async def asettle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        """The same as `settle`: nothing here waits."""
        self.settle(hold, spent, now)

    async def abalance(self, key: str, now: float) -> Balance:
        """The same as `balance`: nothing here waits."""
        return self.balance(key, now)

    def _account(self, claim: Claim) -> _Account:
        account = self._accounts.get(claim.key)
        if account is None:
            account = self._accounts[claim.key] = _Account()
            if claim.ends is not None:
                heappush(self._over, (claim.ends + GRACE, claim.key))
        return account

    def _purge(self, now: float) -> None:
        """Forget windows that are over: each is looked at once, when it is."""
        while self._over and self._over[0][0] <= now:
            self._accounts.pop(heappop(self._over)[1], None)
