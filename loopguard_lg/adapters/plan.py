"""What a guard has decided for one model call, and what the model is shown for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from loopguard_lg import budgets, engine
from loopguard_lg.adapters import asking, exits, past, view
from loopguard_lg.adapters.messages import note
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.budgets import Exceeded, Used
from loopguard_lg.engine import Verdict
from loopguard_lg.ladder import AskUser
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy

Seen: TypeAlias = tuple[Verdict | None, tuple[str, ...]]
"""The newest verdict, if any, and the warnings that are still to be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a host has to do now.

    Attributes:
        before: The memory as it was read.
        memory: The memory as it is now.
        verdict: What was decided.
        note: What the model is told at the end of its messages, if anything.
        final: The reply that takes the model's place, if the run leaves here.
        report: The exit report, if it leaves.
        stronger: The model of the escalation under way, if one is named.
    """

    before: Memory
    memory: Memory
    verdict: Verdict
    note: str = ""
    final: AIMessage | None = None
    report: dict[str, Any] | None = None
    stronger: Any = None

    @property
    def asks(self) -> bool:
        """Whether what takes the model's place is a question to a person."""
        return self.final is not None and bool(self.final.tool_calls)

    @property
    def lifts_tool_choice(self) -> bool:
        """Whether a tool choice that the app forces has to be lifted."""
        return bool(self.note) or self.verdict.action == "escalate"

    def without_stronger(self) -> Plan:
        """The plan where what it asks for can't be had: a model, or a temperature."""
        state = self.memory["ladder"]
        ladder = {**state, "left": 0, "since": max(1, state.get("since", 0))}
        return replace(self, stronger=None, memory={**self.memory, "ladder": ladder})


def due(
    policy: Policy, seen: Seen, before: Memory, memory: Memory, *, vain: bool
) -> Verdict:
    """The verdict to act on: the newest one, or one that still stands.

    Args:
        policy: The settings.
        seen: What was decided since the last look.
        before: The memory at the last look.
        memory: The memory now.
        vain: Nobody was asked: the exit is still to be made.
    """
    verdict, warned = seen
    if vain:
        verdict = engine.standing(policy, memory, due=True)
    elif verdict is None:
        acts = bool((before["host"].get("due") or {}).get("acts"))
        verdict = engine.standing(policy, before, due=acts)
    return verdict if warned == verdict.warnings else verdict._replace(warnings=warned)


def counted(memory: Memory, seconds: float) -> Memory:
    """The memory with a model call of which no more is known than how long it took."""
    spend: Used = {"seconds": max(0.0, seconds), "model_calls": 1}
    used = {s: budgets.add(u, spend) for s, u in memory["used"].items()}
    return {**memory, "used": used}


def leaving(memory: Memory, scene: Scene, verdict: Verdict) -> tuple[str, str] | None:
    """The reason and the detail of an exit that is due; `None` if the run goes on."""
    asked = memory["host"].get("exit")
    if asked:
        return "gave_up", asked
    if verdict.exceeded is not None:
        return "budget", str(verdict.exceeded)
    if verdict.action == "exit" and verdict.finding is not None:
        return "loop", verdict.finding.detail
    if scene.out_of_steps(memory["host"]):
        return "recursion_limit", "the graph's recursion limit is reached"
    return None


def ended(
    policy: Policy,
    agent: str,
    before: Memory,
    memory: Memory,
    scene: Scene,
    verdict: Verdict,
    why: tuple[str, str],
) -> Plan:
    """The plan of a run that leaves, by a question to a person or for good.

    Args:
        policy: The settings.
        agent: Whose run it is.
        before: The memory as it was read.
        memory: The memory as it is now.
        scene: What the host knows.
        verdict: What was decided.
        why: The reason and the detail.
    """
    reason, detail = why
    report = exits.report(reason, detail, memory, scene.messages, verdict, agent)
    noted: dict[str, Any] = {"open": None, "exit": None, "fleet": None}
    if _asks(policy, agent, memory, scene, reason, verdict.exceeded):
        number = memory["host"].get("asked", 0) + 1
        limit = verdict.exceeded.limit if verdict.exceeded else None
        final = exits.question(report, number, asking.choices(policy, reason))
        noted["open"] = {"id": None, "ask": reason, "limit": limit}
        noted["asked"] = number
    else:
        final = exits.final(report)
        noted["over"] = True
    return Plan(
        before=before,
        memory=past.with_host(memory, **noted),
        verdict=verdict,
        final=final,
        report=report,
    )


def _asks(
    policy: Policy,
    agent: str,
    memory: Memory,
    scene: Scene,
    reason: str,
    out: Exceeded | None,
) -> bool:
    """Whether a person is asked how to go on, in place of an end."""
    asks = isinstance(policy.ladder.rungs[-1], AskUser)
    if not asks or reason not in ("loop", "budget"):
        return False
    if out is not None and not out.is_raisable:
        return False
    if not scene.resumable:
        exits.warn_unasked(agent)
    return scene.resumable and not memory["host"].get("vain")


def shown(plan: Plan, scene: Scene, model: str | None) -> Sequence[BaseMessage]:
    """The messages that the model is to be given.

    Args:
        plan: What was planned.
        scene: What the host knows.
        model: Name of the model that will read them.
    """
    host = plan.memory["host"]
    messages = scene.seen
    hidden = past.hidden_of(host)
    if hidden:
        messages = view.without(messages, hidden)
    if host.get("untidy"):
        messages = view.answered(messages)
    if host.get("switched"):
        messages = view.native(messages, model)
    return [*messages, note(plan.note)] if plan.note else messages
