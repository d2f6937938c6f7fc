"""What a fleet may spend, and what one model call claims of it: pure.

A limit is kept under a key for each window of time and each set of labels: `usd` per
tenant and day is one sum for each tenant on each day. Windows are those of UTC, and
are computed from a time that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import quote

from loopguard_lg.budgets import Budget, Exceeded, in_words, spent_of
from loopguard_lg.errors import PolicyError

Every = Literal["hour", "day", "month", "ever"]
"""After what a budget is full again; `ever`: never."""

_WINDOWS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "ever": ""}
_SHOWN = 60
"""Most characters of a label in a sentence."""

GRACE = 86_400.0
"""Seconds that a sum is kept after its window: clocks differ, and calls end late."""

_DRAWN = (
    "model_calls",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "seconds",
    "usd",
)


@dataclass(frozen=True, slots=True)
class FleetBudget:
    """What all runs with the same labels may spend together.

    Attributes:
        budget: The limits: of `model_calls`, tokens, `seconds` and `usd`.
        per: Labels that share one sum, as `"tenant"` or `("tenant", "model")`; the
            default is one for the whole fleet.
        every: The window of time, in UTC.
        name: Tells two budgets with the same labels and window apart.

    Raises:
        PolicyError: The budget limits what is not drawn from a fleet, or nothing.
    """

    budget: Budget
    _: KW_ONLY
    per: str | Sequence[str] = ()
    every: Every = "day"
    name: str = ""

    def __post_init__(self) -> None:
        _check_limits(self.budget)
        object.__setattr__(self, "per", _names(self.per))
        if self.every not in _WINDOWS:
            known = ", ".join(_WINDOWS)
            raise PolicyError(f"every={self.every!r}: give one of {known}")


def _check_limits(budget: object) -> None:
    """Refuse what is no budget, or none that a fleet can draw from."""
    if not isinstance(budget, Budget):
        raise PolicyError(f"FleetBudget({budget!r}): give a Budget(...)")
    limits = [limit for limit, _ in budget.limits]
    wrong = [f", not {limit}" for limit in limits if limit not in _DRAWN]
    if wrong or not limits:
        raise PolicyError(
            f"FleetBudget({budget!r}): a fleet's budget limits "
            + ", ".join(_DRAWN)
            + "".join(wrong[:1])
        )


def _names(per: str | Sequence[str]) -> tuple[str, ...]:
    names = (per,) if isinstance(per, str) else tuple(per)
    if not all(isinstance(name, str) and name for name in names):
        raise PolicyError(f"per={per!r}: give names of labels")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one model call claims of one limit.

    Attributes:
        key: Where the sum is kept; the same for all who share it.
        limit: What is limited, as in `Budget`.
        allowed: Most of it.
        amount: How much is claimed.
        ends: When its window is over, in seconds since 1970; `None` for never.
        whose: Whose budget it is, in words.
    """

    key: str
    limit: str
    allowed: float
    amount: float
    ends: float | None
    whose: str

    def exceeded(self, taken: float) -> Exceeded:
        """Why there is no room for it, where `taken` is spent or held already."""
        why = (
            f"the fleet's budget of {self.allowed:.6g} {in_words(self.limit)} for "
            f"{self.whose} has no room for this call ({taken:.6g} spent or held)"
        )
        return Exceeded(
            limit=self.limit, spent=taken, allowed=self.allowed, scope="fleet", why=why
        )


def claims(
    budgets: Iterable[FleetBudget],
    labels: Mapping[str, str],
    amounts: Mapping[str, float],
    now: float,
) -> tuple[Claim, ...]:
    """What a call claims of each limit, sorted by key: all lock in one order.

    Args:
        budgets: The fleet's budgets.
        labels: The labels of the run, as far as they are known.
        amounts: What the call will spend, as far as it is known, as `Used`.
        now: Seconds since 1970.

    Raises:
        PolicyError: A label is missing.
    """
    found = [c for budget in budgets for c in _claims(budget, labels, amounts, now)]
    return tuple(sorted(found, key=lambda claim: claim.key))


def _claims(
    budget: FleetBudget,
    labels: Mapping[str, str],
    amounts: Mapping[str, float],
    now: float,
) -> Iterator[Claim]:
    pairs = [(name, _label(name, labels)) for name in budget.per]
    at, ends = window(budget.every, now)
    where = [f"{name}={_quoted(value)}" for name, value in pairs]
    whose = [f"{name} {value[:_SHOWN]!r}" for name, value in pairs]
    for limit, allowed in budget.budget.limits:
        parts = [
            _quoted(budget.name),
            limit,
            f"{budget.every}:{at}",
            *where,
        ]
        yield Claim(
            key="|".join(parts),
            limit=limit,
            allowed=allowed,
            amount=spent_of(amounts, limit),
            ends=ends,
            whose=", ".join([*whose, f"{budget.every} {at}".strip()]),
        )


def _quoted(text: str) -> str:
    """A text that is safe in any store, and has no separator in it."""
    return quote(text, safe="", errors="surrogatepass")


def _label(name: str, labels: Mapping[str, str]) -> str:
    value = labels.get(name)
    if not isinstance(value, str) or not value:
        raise PolicyError(
            f"the fleet's budget is kept per {name!r}, and the run's labels give "
            f"{value!r} for it: give a text, as in "
            f'config={{"configurable": {{"{name}": "..."}}}}'
        )
    return value


def window(every: Every, now: float) -> tuple[str, float | None]:
    """The window of UTC that `now` is in: its name, and when it ends."""
    if every == "ever":
        return "", None
    at = datetime.fromtimestamp(now, UTC).replace(minute=0, second=0, microsecond=0)
    if every == "hour":
        end = at + timedelta(hours=1)
    elif every == "day":
        end = at.replace(hour=0) + timedelta(days=1)
    else:
        end = (at.replace(day=1, hour=0) + timedelta(days=32)).replace(day=1)
    return at.strftime(_WINDOWS[every]), end.timestamp()


def lacking(claims: Sequence[Claim], taken: Sequence[float]) -> Exceeded | None:
    """The first limit without room; `taken` is what is spent and held of each.

    An amount that is known before the call has to fit in; where it is not, something
    has to be left.
    """
    for claim, sum_ in zip(claims, taken, strict=True):
        if sum_ >= claim.allowed or sum_ + claim.amount > claim.allowed:
            return claim.exceeded(sum_)
    return None
