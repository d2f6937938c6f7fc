"""One model call that is drawn from a fleet's budgets: held before, settled after.

What it takes is settled as it was; a call that failed took nothing, and one that was
cut off is settled at what was held, as nobody can tell what the provider charges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from loopguard_lg.adapters import pricing
from loopguard_lg.adapters.driving import CutOffError, Do, Run, Work
from loopguard_lg.budgets import Exceeded, Used, add, model_spend, spent_of
from loopguard_lg.fleet import Claim, Fleet, Hold
from loopguard_lg.fleet.limits import claims
from loopguard_lg.hooks import logger
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Tokens, Turn
from loopguard_lg.telemetry import prices


class FleetRefusedError(Exception):
    """The fleet's budgets have no room for a call: `exceeded` says which."""

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A model call, as a fleet's budgets see it.

    Attributes:
        config: The run's config.
        context: The run's context.
        model: Name of the model, where known.
        sent: What it is sent.
        replied: The messages in what it gives.
        policy: The settings; if it only watches, nothing is refused, all is counted.
        clock: Seconds from any start.
    """

    config: Mapping[str, Any]
    context: Any
    model: str | None
    sent: Sequence[BaseMessage]
    replied: Callable[[Any], Sequence[BaseMessage]]
    policy: Policy
    clock: Callable[[], float]

    def ahead(self, fleet: Fleet) -> Used:
        """What it will take, as far as that can be told."""
        sent = count_tokens_approximately(self.sent)
        tokens = Tokens(input=sent, output=fleet.reply_tokens, estimated=True)
        cost = prices.cost(self.model, tokens, self.policy.prices)
        return model_spend(Turn(tokens=tokens, cost=cost))

    def taken(self, out: Any, seconds: float) -> Used:
        """What it took."""
        total: Used = {"seconds": max(0.0, seconds)}
        for reply in self.replied(out):
            if isinstance(reply, AIMessage):
                known = pricing.measured(
                    self.policy, reply, self.sent, self.model, estimates=True
                )
                total = add(total, model_spend(Turn(**known)))
        return total

    def claims(self, fleet: Fleet, now: float) -> tuple[Claim, ...]:
        """What it claims of each limit.

        Raises:
            PolicyError: A label is missing, or a price that a limit needs.
        """
        labels = {"model": self.model or "unknown"}
        labels |= fleet.labels(self.config, self.context)
        found = claims(fleet.all_budgets, labels, self.ahead(fleet), now)
        if self.policy.observe_only:
            return tuple(replace(claim, allowed=inf) for claim in found)
        if self.model is not None:
            limits = [one.budget for one in fleet.all_budgets]
            pricing.check(self.policy, [self.model], limits)
        return found


def drawn(fleet: Fleet, call: Call, run: Run) -> Work[Any]:
    """Run a model call, held before and settled after.

    Raises:
        FleetRefusedError: There is no room for it, or nobody can tell.
        PolicyError: A label is missing, or a price.
    """
    hold = yield from _held(fleet, call)
    if hold is None:
        return (yield run)
    spent = [claim.amount for claim in hold.claims]
    started = call.clock()
    try:
        out = yield run
        taken = call.taken(out, call.clock() - started)
        spent = [spent_of(taken, claim.limit) for claim in hold.claims]
    except CutOffError:
        raise
    except Exception:
        spent = [0.0] * len(spent)
        raise
    finally:  # a cancelled call, too: what was held is spent
        yield from _settled(fleet, hold, spent)
    return out


def _held(fleet: Fleet, call: Call) -> Work[Hold | None]:
    now = fleet.clock()
    claimed, expires = call.claims(fleet, now), now + fleet.hold_seconds
    hold = Hold(id=uuid4().hex, claims=claimed, expires=expires)
    ledger = fleet.ledger
    try:
        out = yield Do(
            partial(ledger.reserve, hold, now), partial(ledger.areserve, hold, now)
        )
    except Exception as error:
        logger.warning("loopguard: the fleet's ledger failed: %r", error)
        if fleet.when_down == "open" or call.policy.observe_only:
            return None
        raise FleetRefusedError(_unknown(error)) from error
    if out is not None:
        raise FleetRefusedError(out)
    return hold


def _unknown(error: Exception) -> Exceeded:
    """Why a call is refused where the ledger does not answer, without its address."""
    why = f"the fleet's budgets can't be checked: {type(error).__name__}"
    return Exceeded(limit="unreachable", spent=0, allowed=0, scope="fleet", why=why)


def _settled(fleet: Fleet, hold: Hold, spent: Sequence[float]) -> Work[None]:
    """Settle a hold; where that fails it stays held until it expires."""
    ledger, now = fleet.ledger, fleet.clock()
    try:
        yield Do(
            partial(ledger.settle, hold, spent, now),
            partial(ledger.asettle, hold, spent, now),
        )
    except Exception as error:
        logger.warning("loopguard: a fleet's ledger could not settle: %r", error)
