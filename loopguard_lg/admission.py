"""Whether a call may be executed, asked before each call of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopguard_lg import budgets, memory as memories
from loopguard_lg.budgets import Exceeded
from loopguard_lg.digests import call_digest
from loopguard_lg.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call is not executed: it is held as part of a loop, or a budget is out."""

    held: str | None = None
    exceeded: Exceeded | None = None


def admit(
    policy: Policy,
    memory: Mapping[str, Any] | None,
    tool: str,
    args: Mapping[str, Any],
    *,
    before: int = 0,
    before_same: int = 0,
    spend: budgets.Used | None = None,
    outer: Exceeded | None = None,
) -> Refusal | None:
    """Whether a call may be executed: `None`, or why not.

    Args:
        policy: The settings.
        memory: As it was before the batch that the call is part of.
        tool: The tool to be called.
        args: Its arguments.
        before: Calls that stand before this one in its batch.
        before_same: Those of them that call the same tool.
        spend: What the model call that asked for the batch took.
        outer: The budget of an agent around that has no room for the call.
    """
    if outer is not None:
        return Refusal(exceeded=outer)
    now = memories.load(memory)
    used = now["used"]
    if spend:
        used = {scope: budgets.add(amounts, spend) for scope, amounts in used.items()}
    out = budgets.refuses_call(policy.budgets, used, tool, before, before_same)
    if out is not None:
        return Refusal(exceeded=out)
    held = now["ladder"].get("holds")
    if held and call_digest(tool, args, policy.tools) in held:
        return Refusal(held=now["ladder"].get("kind", "repeat"))
    return None
