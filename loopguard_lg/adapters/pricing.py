"""What model calls take and cost, and whether a budget in dollars can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from loopguard_lg.adapters.estimates import Size, estimated, sized
from loopguard_lg.adapters.messages import tokens_of
from loopguard_lg.budgets import Budget
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import logger
from loopguard_lg.policy import Policy
from loopguard_lg.telemetry import prices


def check(
    policy: Policy,
    names: Iterable[str | None],
    limits: Iterable[Budget] | None = None,
) -> None:
    """Refuse models without a price where a budget in dollars has to be kept.

    Args:
        policy: The settings.
        names: The models.
        limits: The budgets, where they are not the policy's.

    Raises:
        PolicyError: One of them has none; names it, and says what would help.
    """
    for budget in policy.budgets if limits is None else limits:
        if budget.usd is None or budget.unknown_price == "ignore":
            continue
        for name in names:
            if prices.known(name, policy.prices):
                continue
            raise PolicyError(
                f"budget.usd={budget.usd!r} can't be kept: no price is known for "
                f"the model {name!r}. Give one in Policy(prices={{...}}), or set "
                "unknown_price='ignore' to count such calls as free"
            )


def at_start(policy: Policy, model: str | None, stronger: Iterable[str | None]) -> None:
    """What is looked at when a run starts: prices, and whose runs budgets are from.

    Raises:
        PolicyError: As `check` does.
    """
    check(policy, (model, *stronger))
    _warn_of_other(policy, model)


def _warn_of_other(policy: Policy, model: str | None) -> None:
    """Say that budgets want a new baseline where they are from another model's runs.

    A dated name is the same model as the one without the date.
    """
    known = policy.calibrated_for.rpartition(":")[2]
    if known and model and not (model.startswith(known) or known.startswith(model)):
        logger.warning(
            "loopguard: the budgets are calibrated for %s, this run is of %s: "
            "make a new baseline with `loopguard calibrate`", known, model,
        )  # fmt: skip


def size_of(
    policy: Policy, reply: AIMessage, seen: Sequence[BaseMessage], before: Any
) -> Size | None:
    """How large the request was, to go on from one `before` it; `None` where the
    provider said what it took, or no budget asks.
    """
    needed = policy.counts_tokens and not reply.usage_metadata
    return sized(seen, before) if needed else None


def measured(
    policy: Policy,
    reply: AIMessage,
    seen: Sequence[BaseMessage],
    model: str | None,
    *,
    size: Size | None = None,
    estimates: bool = False,
) -> dict[str, Any]:
    """What a model call took: `model`, `tokens`, `cost`.

    Args:
        policy: The settings.
        reply: The reply.
        seen: What the model was sent.
        model: The model's name, where the reply does not say it.
        size: How large that was, where it is known.
        estimates: Estimate tokens also where no budget of the policy needs them.
    """
    tokens = tokens_of(reply)
    if tokens is None and (estimates or policy.counts_tokens):
        tokens = estimated(seen, reply, size)
    name, own = reply.response_metadata.get("model_name") or model, policy.prices
    cost = prices.cost(name, tokens, own) or prices.cost(model, tokens, own)
    return {"model": name, "tokens": tokens, "cost": cost}
