"""Whether a call may be executed, asked before each call of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopguard_lg import budgets, memory as memories, prompts
from loopguard_lg.budgets import Exceeded
from loopguard_lg.digests import call_digest
from loopguard_lg.policy import Policy
from loopguard_lg.roles import name_role, read_use
from loopguard_lg.steps import Step
from loopguard_lg.window import key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call is not executed.

    Attributes:
        held: It is part of a loop of this kind.
        file: It would edit this file, which was edited in circles.
        exceeded: A budget is out.
    """

    held: str | None = None
    file: str = ""
    exceeded: Exceeded | None = None

    @property
    def why(self) -> str:
        """The reason in a word: `budget`, or the kind of the loop."""
        return "budget" if self.exceeded is not None else self.held or "loop"

    def text(self, tool: str) -> str:
        """What the model is told in place of the result."""
        if self.exceeded is not None:
            return prompts.refused(tool, str(self.exceeded))
        return prompts.blocked(tool, self.why, self.file)


def admit(
    policy: Policy,
    memory: Mapping[str, Any] | None,
    tool: str,
    args: Mapping[str, Any],
    *,
    ahead: Sequence[str] = (),
    spend: budgets.Used | None = None,
    outer: Exceeded | None = None,
) -> Refusal | None:
    """Whether a call may be executed: `None`, or why not.

    Args:
        policy: The settings.
        memory: As it was before the batch that the call is part of.
        tool: The tool to be called.
        args: Its arguments.
        ahead: Tools of the calls that stand before this one in its batch.
        spend: What the model call that asked for the batch took.
        outer: The budget of an agent around that has no room for the call.
    """
    if outer is not None:
        return Refusal(exceeded=outer)
    now = memories.load(memory)
    used = now["used"]
    if spend:
        used = {scope: budgets.add(amounts, spend) for scope, amounts in used.items()}
    out = budgets.refuses_call(policy.budgets, used, _counts(policy, tool, ahead))
    if out is not None:
        return Refusal(exceeded=out)
    state = now["ladder"]
    held, kind = state.get("holds"), state.get("kind", "repeat")
    if held and call_digest(tool, args, policy.tools) in held:
        return Refusal(held=kind)
    files = state.get("files")
    file = edited_file(policy, tool, args) if files else ""
    return Refusal(held=kind, file=file) if file and key_of(file) in files else None


def _counts(policy: Policy, tool: str, ahead: Sequence[str]) -> dict[str, int]:
    """How much the calls ahead take of each limit that the call would count for."""
    counts = {"tool_calls": len(ahead), f"tool:{tool}": ahead.count(tool)}
    if _hands_over(policy, tool):
        counts["handoffs"] = sum(_hands_over(policy, other) for other in ahead)
    return counts


def _hands_over(policy: Policy, tool: str) -> bool:
    settings = policy.tools.get(tool)
    role = settings.role if settings is not None else None
    return (role or name_role(tool)[0]) == "handoff"


def edited_file(policy: Policy, tool: str, args: Mapping[str, Any]) -> str:
    """The file that a call would edit; nothing where it edits none."""
    settings = policy.tools.get(tool)
    use = read_use(Step(tool=tool, args=args), settings.role if settings else None)
    return use.path if use.role == "write" else ""
