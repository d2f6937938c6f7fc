"""Checks of a ledger that is to keep a fleet's budgets, for pytest, on any ledger.

    @pytest.mark.parametrize("check", ledger_kit.CHECKS)
    def test_my_ledger(check: ledger_kit.Check) -> None:
        ledger_kit.run(check, MyLedger())

    @pytest.mark.parametrize("check", ledger_kit.CHECKS)
    async def test_my_ledger_on_an_event_loop(check: ledger_kit.Check) -> None:
        await ledger_kit.arun(check, MyLedger())

A check fails with an `AssertionError`, or with what the ledger raises. Every check
works under keys of its own, so that a ledger may be used for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import isclose
from typing import TypeAlias
from uuid import uuid4

from loopguard_lg.budgets import Budget, Exceeded
from loopguard_lg.fleet.ledger import Balance, BudgetLedger, Hold
from loopguard_lg.fleet.limits import FleetBudget, claims


@dataclass(kw_only=True)
class Bench:
    """A ledger under test, and a clock.

    Attributes:
        ledger: The ledger.
        awaits: Whether it is used by its asynchronous methods.
        now: What the clock says, in seconds since 1970.
        tenant: The label that keeps this check's keys apart.
    """

    ledger: BudgetLedger
    awaits: bool
    now: float = 1_700_000_000.0
    tenant: str = field(default_factory=lambda: uuid4().hex)

    def hold(self, *budgets: FleetBudget, **amounts: float) -> Hold:
        """What a call would hold of budgets; of three calls a day by default."""
        labels = {"tenant": self.tenant}
        some = budgets or (limited(model_calls=3),)
        claimed = claims(some, labels, amounts or {"model_calls": 1}, self.now)
        return Hold(id=uuid4().hex, claims=claimed, expires=self.now + 60)

    async def reserve(self, hold: Hold) -> Exceeded | None:
        """Hold what a call claims."""
        if self.awaits:
            return await self.ledger.areserve(hold, self.now)
        return await asyncio.to_thread(self.ledger.reserve, hold, self.now)

    async def settle(self, hold: Hold, *spent: float) -> None:
        """Settle a hold: `spent` of each claim."""
        if self.awaits:
            await self.ledger.asettle(hold, spent, self.now)
        else:
            await asyncio.to_thread(self.ledger.settle, hold, spent, self.now)

    async def balance(self, hold: Hold, claim: int = 0) -> Balance:
        """What stands under the key of a claim."""
        key = hold.claims[claim].key
        if self.awaits:
            return await self.ledger.abalance(key, self.now)
        return await asyncio.to_thread(self.ledger.balance, key, self.now)


def limited(name: str = "", **limits: float) -> FleetBudget:
    """A budget of the check's tenant for each day."""
    budget = Budget(**limits)  # type: ignore[arg-type]  # limits by their names
    return FleetBudget(budget, per="tenant", name=name)


Check: TypeAlias = Callable[[Bench], Awaitable[None]]
"""Raises `AssertionError` if a ledger does not do what fleet budgets need."""


def run(check: Check, ledger: BudgetLedger) -> None:
    """Run a check on a ledger by its synchronous methods, off any event loop."""
    asyncio.run(_checked(check, ledger, awaits=False))


async def arun(check: Check, ledger: BudgetLedger) -> None:
    """Run a check on a ledger by its asynchronous methods."""
    await _checked(check, ledger, awaits=True)


async def _checked(check: Check, ledger: BudgetLedger, *, awaits: bool) -> None:
    await check(Bench(ledger=ledger, awaits=awaits))


async def nothing_is_spent_at_first(bench: Bench) -> None:
    """A key that nobody drew from stands at nothing, and is no error."""
    assert await bench.balance(bench.hold()) == Balance()


async def what_is_held_is_not_there_for_others(bench: Bench) -> None:
    """Three calls under way leave no room for a fourth."""
    first, *rest = [bench.hold() for _ in range(3)]
    for hold in (first, *rest):
        assert await bench.reserve(hold) is None

    assert await bench.reserve(bench.hold()) is not None
    assert await bench.balance(first) == Balance(held=3)


async def what_is_settled_is_spent(bench: Bench) -> None:
    """A call takes what it took, not what was held for it."""
    hold = bench.hold(limited(usd=1.0), usd=0.5)
    await bench.reserve(hold)
    await bench.settle(hold, 0.125)

    assert await bench.balance(hold) == Balance(spent=0.125)


async def a_failed_call_gives_back(bench: Bench) -> None:
    """What was held for a call that took nothing is there again."""
    budget = limited(model_calls=1)
    failed = bench.hold(budget, model_calls=1)
    await bench.reserve(failed)
    await bench.settle(failed, 0)

    assert await bench.reserve(bench.hold(budget, model_calls=1)) is None


async def what_is_lacking_is_named(bench: Bench) -> None:
    """The limit, how much is allowed, and how much of it is taken."""
    budget = limited(usd=1.0)
    spent, held = (bench.hold(budget, usd=0.25) for _ in range(2))
    await bench.reserve(spent)
    await bench.settle(spent, 0.5)
    await bench.reserve(held)
    out = await bench.reserve(bench.hold(budget, usd=0.5))

    assert out is not None
    assert (out.name, out.spent, out.allowed) == ("fleet:usd", 0.75, 1.0)
    assert "fleet" in str(out)
    assert bench.tenant in str(out)


async def what_fits_exactly_fits(bench: Bench) -> None:
    """The last amount may be taken to the end."""
    budget = limited(usd=1.0)
    for amount in (0.5, 0.5):
        assert await bench.reserve(bench.hold(budget, usd=amount)) is None


async def an_unknown_amount_needs_something_left(bench: Bench) -> None:
    """A call that can't say what it takes goes on until all is taken."""
    budget = limited(seconds=2.0)
    first, second = (bench.hold(budget, seconds=0) for _ in range(2))
    assert await bench.reserve(first) is None
    assert await bench.reserve(second) is None
    await bench.settle(first, 2.5)

    assert await bench.reserve(bench.hold(budget, seconds=0)) is not None


async def all_claims_are_held_or_none(bench: Bench) -> None:
    """A call that one limit has no room for holds nothing of the others."""
    budgets = (limited("a", model_calls=9), limited("b", model_calls=1))
    await bench.reserve(bench.hold(budgets[1], model_calls=1))
    both = bench.hold(*budgets, model_calls=1)

    assert await bench.reserve(both) is not None
    assert await bench.balance(both, 0) == Balance()
    assert await bench.balance(both, 1) == Balance(held=1)


async def a_dead_worker_s_hold_expires(bench: Bench) -> None:
    """Nobody settles it, and what it held is there again after its time."""
    hold = bench.hold(limited(model_calls=1), model_calls=1)
    await bench.reserve(hold)
    bench.now += 61
    assert await bench.balance(hold) == Balance()
    again = bench.hold(limited(model_calls=1), model_calls=1)

    assert await bench.reserve(again) is None


async def a_late_settlement_counts(bench: Bench) -> None:
    """A call that took longer than its hold has spent what it spent."""
    hold = bench.hold()
    await bench.reserve(hold)
    bench.now += 61
    await bench.reserve(bench.hold())
    await bench.settle(hold, 1)

    assert await bench.balance(hold) == Balance(spent=1, held=1)


async def a_settlement_lets_go_of_its_own_hold(bench: Bench) -> None:
    """The holds of other calls stay."""
    mine, other = bench.hold(), bench.hold()
    await bench.reserve(mine)
    await bench.reserve(other)
    await bench.settle(mine, 1)

    assert await bench.balance(other) == Balance(spent=1, held=1)


async def odd_labels_have_sums_of_their_own(bench: Bench) -> None:
    """Labels that look like patterns, separators or fields are nobody else's."""
    odd = ["", "|", ":", "spent", "h:1", "%", "猫", "a\x00b", "\ud800", "x' --", "*"]
    for label in odd:
        other = Bench(ledger=bench.ledger, awaits=bench.awaits)
        other.tenant = bench.tenant + label
        hold = other.hold(limited(model_calls=1), model_calls=1)
        assert await other.reserve(hold) is None
        assert await other.reserve(other.hold(limited(model_calls=1))) is not None


async def a_new_window_is_full_again(bench: Bench) -> None:
    """What was spent yesterday is not missing today."""
    yesterday = bench.hold(limited(model_calls=1), model_calls=1)
    await bench.reserve(yesterday)
    await bench.settle(yesterday, 1)
    bench.now += 86_400

    today = bench.hold(limited(model_calls=1), model_calls=1)
    assert await bench.reserve(today) is None


async def many_at_once_never_pass_the_limit(bench: Bench) -> None:
    """Of twenty calls that start together, as many go as there is room for."""
    budget = limited(model_calls=7)
    holds = [bench.hold(budget, model_calls=1) for _ in range(20)]
    refused = await asyncio.gather(*map(bench.reserve, holds))

    assert refused.count(None) == 7
    assert await bench.balance(holds[0]) == Balance(held=7)


async def settlements_at_once_lose_nothing(bench: Bench) -> None:
    """Every amount is in the sum, and no hold is left."""
    budgets = (limited("a", usd=9.0), limited("b", usd=9.0))
    holds = [bench.hold(*budgets, usd=0.1) for _ in range(20)]
    await asyncio.gather(*map(bench.reserve, holds))
    await asyncio.gather(*(bench.settle(hold, 0.1, 0.2) for hold in holds))

    first, second = [await bench.balance(holds[0], n) for n in range(2)]
    assert isclose(first.spent, 2.0)
    assert isclose(second.spent, 4.0)
    assert first.held == second.held == 0


CHECKS: tuple[Check, ...] = (
    nothing_is_spent_at_first,
    what_is_held_is_not_there_for_others,
    what_is_settled_is_spent,
    a_failed_call_gives_back,
    what_is_lacking_is_named,
    what_fits_exactly_fits,
    an_unknown_amount_needs_something_left,
    all_claims_are_held_or_none,
    a_dead_worker_s_hold_expires,
    a_late_settlement_counts,
    a_settlement_lets_go_of_its_own_hold,
    odd_labels_have_sums_of_their_own,
    a_new_window_is_full_again,
    many_at_once_never_pass_the_limit,
    settlements_at_once_lose_nothing,
)
"""All checks."""
