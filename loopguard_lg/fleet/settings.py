"""`Fleet`: the budgets of a fleet, their ledger, and how they are drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeAlias

from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet.ledger import BudgetLedger
from loopguard_lg.fleet.limits import FleetBudget

Labels: TypeAlias = Callable[[Mapping[str, Any], Any], Mapping[str, str]]
"""Makes the labels of a run of its config and its context."""


def configured(config: Mapping[str, Any], context: Any) -> Mapping[str, str]:
    """The labels that stand in the run's `configurable`."""
    given = config.get("configurable") or {}
    return {key: value for key, value in given.items() if isinstance(value, str)}


@dataclass(frozen=True, slots=True)
class Fleet:
    """The budgets that a guard draws from, together with others.

    Attributes:
        ledger: Keeps the sums.
        budgets: One budget, or several: all of them hold.
        labels: Makes a run's labels; by default they are in its `configurable`. The
            label `model` is the guard's to give.
        when_down: What happens while the ledger can't be reached: `closed` ends runs
            as if the budget were out, `open` lets them go on uncounted.
        reply_tokens: Tokens held for a reply, until it is known how many it took.
        hold_seconds: After how long the hold of a dead worker is void; more than a
            model call takes.
        clock: Seconds since 1970. All workers go by it.

    Raises:
        PolicyError: A setting is wrong.
    """

    ledger: BudgetLedger
    budgets: FleetBudget | Sequence[FleetBudget]
    _: KW_ONLY
    labels: Labels = configured
    when_down: Literal["closed", "open"] = "closed"
    reply_tokens: int = 500
    hold_seconds: float = 600.0
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        given: tuple[Any, ...] = self.all_budgets
        if not given:
            raise PolicyError("fleet.budgets=(): give a FleetBudget, or several")
        for at, budget in enumerate(given):
            if not isinstance(budget, FleetBudget):
                wanted = "give a FleetBudget(...)"
                raise PolicyError(f"fleet.budgets[{at}]={budget!r}: {wanted}")
        if not hasattr(self.ledger, "areserve"):
            raise PolicyError(f"fleet.ledger={self.ledger!r}: give a BudgetLedger")
        if self.when_down not in ("closed", "open"):
            raise PolicyError(
                f"fleet.when_down={self.when_down!r}: give 'closed' or 'open'"
            )
        for name in ("reply_tokens", "hold_seconds"):
            if not getattr(self, name) > 0:
                raise PolicyError(
                    f"fleet.{name}={getattr(self, name)!r}: give more than 0"
                )

    @property
    def all_budgets(self) -> tuple[FleetBudget, ...]:
        """The budgets as a tuple, also where there is one."""
        if isinstance(self.budgets, FleetBudget):
            return (self.budgets,)
        return tuple(self.budgets)
