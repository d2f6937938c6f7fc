"""A guarded run that climbs the whole ladder, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Policy
from loopguard_lg.analysis.replay import verdicts
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.model import Trajectory
from tests.middleware.runs import THREAD, ask, guarded, laddered, same

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


def told(verdict: Any) -> tuple[Any, ...]:
    """What has to be the same, live and replayed."""
    kind = verdict.finding and verdict.finding.kind
    return (verdict.i, verdict.action, verdict.rung, kind, verdict.progress)


def replayed(run: Trajectory, policy: Policy) -> list[tuple[Any, ...]]:
    """What the engine decides on a run that was read."""
    return [told(verdict) for _, verdict in verdicts(policy, run)]


class Climb:
    """A run with a batch, long texts, a reflection, an escalation and a question."""

    def __init__(self, saver: Any = None) -> None:
        self.saver = saver or InMemorySaver()
        long = [call("read", path="p" * 5_000), call("write", path="n", text=SECRET)]
        strong = ScriptedModel(replies=[long, *same(9)])
        self.weak = ScriptedModel(replies=[long, *same(9), "found"])
        self.policy = laddered(strong, AskUser())
        self.live: list[tuple[Any, ...]] = []

    def run(self, observers: Sequence[Any]) -> None:
        """Run it, told to the observers."""
        every = [self._note, *observers]
        agent = guarded(
            self.weak, self.policy, observers=every, checkpointer=self.saver
        )
        agent.invoke(ask(), THREAD)
        agent.invoke(Command(resume="try again"), THREAD)

    def _note(self, event: GuardEvent) -> None:
        if event.name == "seen":
            self.live.append(told(event.verdict))


@pytest.fixture
def climb() -> Climb:
    """The run, not run yet."""
    return Climb()
