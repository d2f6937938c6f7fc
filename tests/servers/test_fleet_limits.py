from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.budgets import Budget
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet import Fleet, FleetBudget, MemoryLedger
from loopguard_lg.fleet.limits import claims, lacking, window

CALLS = FleetBudget(Budget(model_calls=3), per=("tenant", "model"))
NOON = datetime(2026, 2, 28, 12, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("every", "name", "ends"),
    [
        ("hour", "2026-02-28T12", datetime(2026, 2, 28, 13, tzinfo=UTC)),
        ("day", "2026-02-28", datetime(2026, 3, 1, tzinfo=UTC)),
        ("month", "2026-02", datetime(2026, 3, 1, tzinfo=UTC)),
    ],
)
def test_a_window_has_a_name_and_an_end(every: Any, name: str, ends: datetime) -> None:
    """Windows are those of the calendar, in UTC."""
    assert window(every, NOON) == (name, ends.timestamp())


@given(st.sampled_from(["hour", "day", "month"]), st.floats(0, 4e9), st.floats(0, 1e7))
def test_windows_follow_each_other(every: Any, now: float, later: float) -> None:
    """A time is in a window until that ends, and never in it again after that."""
    name, ends = window(every, now)

    assert ends is not None
    assert now < ends
    assert (window(every, now + later)[0] == name) == (now + later < ends)


texts = st.text(min_size=1, max_size=8)


@given(texts, texts, texts, texts)
def test_only_the_same_labels_share_a_sum(a: str, b: str, c: str, d: str) -> None:
    """No text in a label makes it look like other ones."""
    first, second = (
        claims([CALLS], {"tenant": t, "model": m}, {}, NOON)[0].key
        for t, m in ((a, b), (c, d))
    )

    assert (first == second) == ((a, b) == (c, d))


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0.1, 10))
def test_what_there_is_room_for_stays_within_the_limit(
    taken: float, amount: float, allowed: float
) -> None:
    """A claim that is granted never passes what is allowed."""
    budget = FleetBudget(Budget(usd=allowed))
    found = claims([budget], {}, {"usd": amount}, NOON)

    out = lacking(found, [taken])
    assert (out is None) == (taken < allowed and taken + amount <= allowed)


def test_the_reason_names_the_limit_and_whose_it_is() -> None:
    """A person reads which sum is out, and where it stands."""
    (claim,) = claims([CALLS], {"tenant": "acme", "model": "m"}, {}, NOON)

    assert str(claim.exceeded(3)) == (
        "the fleet's budget of 3 model calls for tenant 'acme', model 'm', day "
        "2026-02-28 has no room for this call (3 spent or held)"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: FleetBudget(Budget(tool_calls=3)), "not tool_calls"),
        (lambda: FleetBudget(Budget()), "limits model_calls"),
        (lambda: FleetBudget("x"), "give a Budget"),
        (lambda: FleetBudget(Budget(usd=1), per=("",)), "per="),
        (lambda: FleetBudget(Budget(usd=1), every="week"), "every='week'"),
        (lambda: Fleet(MemoryLedger(), []), "give a FleetBudget, or several"),
        (lambda: Fleet(MemoryLedger(), ["x"]), r"budgets\[0\]='x'"),
        (lambda: Fleet("x", CALLS), "ledger='x'"),
        (lambda: Fleet(MemoryLedger(), CALLS, when_down="ask"), "when_down='ask'"),
        (lambda: Fleet(MemoryLedger(), CALLS, hold_seconds=0), "hold_seconds=0"),
    ],
)
def test_a_wrong_setting_is_named(wrong: Any, message: str) -> None:
    """What is wrong is said where it is written, with what would be right."""
    with pytest.raises(PolicyError, match=message):
        wrong()
