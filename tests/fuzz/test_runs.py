from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from typing import Any

from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.types import Command

from loopguard_lg import (
    AskUser,
    Budget,
    Escalate,
    GiveUp,
    Ladder,
    Policy,
    Reflect,
    decide,
)
from loopguard_lg.digests import call_digest
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.memory import Memory, load
from loopguard_lg.prompts import no_result
from loopguard_lg.steps import Event, Human, Turn
from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.testing.histories import assert_valid_history
from tests.fuzz import worlds
from tests.fuzz.worlds import HABITS, HOSTS, REPLIES, Host

DEEP = os.environ.get("LOOPGUARD_FUZZ") == "deep"
THREAD = {"configurable": {"thread_id": "t"}, "recursion_limit": 120}
WIDEST = 4
"""Calls of one reply, at most: branches that run at once."""

LADDERS = st.sampled_from(
    [
        Ladder(Reflect(), Escalate(), GiveUp()),
        Ladder(Reflect(), Escalate(), Escalate(turns=2), AskUser()),
        Ladder(AskUser()),
        Ladder(Reflect(), GiveUp(), block_ignored=True),
    ]
)
BUDGETS = st.builds(
    Budget,
    model_calls=st.integers(1, 12) | st.just(30),
    tool_calls=st.integers(1, 12) | st.just(30),
    total_tokens=st.sampled_from([None, None, 90, 300]),
)
ANSWERS = st.sampled_from(
    ["yes", "try y", "stop", {"choice": "rollback"}, {"choice": "hint", "text": "y"}]
    + ["raise_budget", None, ["odd"], {"decisions": [{"type": "approve"}]}]
)


def _told(verdict: Any) -> tuple[Any, ...]:
    kind = verdict.finding and verdict.finding.kind
    return (verdict.i, verdict.action, verdict.rung, kind, verdict.progress)


class Runs(RuleBasedStateMachine):
    """One thread of one host, moved on by a person, an operator and accidents."""

    @initialize(
        host=st.sampled_from(HOSTS),
        ladder=LADDERS,
        budget=BUDGETS,
        errors=st.sampled_from(["raise", "return"]),
    )
    def begin(self, host: Host, ladder: Ladder, budget: Budget, errors: Any) -> None:
        """Set the host up."""
        self.policy = Policy(ladder=ladder, budget=budget, tool_errors=errors)
        self.budget, self.script, self.habit = budget, [], "that is all"
        self.raised = self.raises = self.torn = False
        self.seen: list[GuardEvent] = []
        self.model = ScriptedModel(default=self.reply)
        self.graph = host(self.model, self.policy, self.note)
        worlds.done.clear()

    def reply(self, sent: Any) -> Any:
        """What the model says next."""
        worlds.done["model"] += 1
        if self.script:
            return self.script.pop(0)
        return self.habit(sent) if callable(self.habit) else self.habit

    def note(self, event: GuardEvent) -> None:
        """Keep what the engine was fed."""
        if event.name == "seen":
            self.seen.append(event)

    @property
    def asked(self) -> Any:
        """The open questions."""
        return self.graph.get_state(THREAD).interrupts

    @rule(script=REPLIES, habit=HABITS, alone=st.booleans(), cut=st.booleans())
    def say(self, script: Any, habit: Any, alone: bool, cut: bool) -> None:
        """A person speaks; older messages may be taken away at once."""
        self.script, self.habit = list(script), habit
        worlds.done.clear()
        self.raises, self.torn = False, self.torn or bool(self.asked)
        gone = self.older() if cut else []
        self.go({"messages": [*gone, HumanMessage("do it")]}, alone=alone)

    def older(self) -> list[RemoveMessage]:
        """Removals of what stands before the newest human message."""
        messages = self.graph.get_state(THREAD).values.get("messages", [])
        people = [n for n, m in enumerate(messages) if m.type == "human"]
        return [RemoveMessage(m.id) for m in messages[: people[-1] if people else 0]]

    @precondition(lambda self: self.asked)
    @rule(answer=ANSWERS, alone=st.booleans())
    def answer(self, answer: Any, alone: bool) -> None:
        """A person answers every open question."""
        self.raises = True  # an answer may grant another budget
        given = {asked.id: answer for asked in self.asked}
        self.go(Command(resume=given), alone=alone)

    @precondition(lambda self: self.raised)
    @rule(alone=st.booleans())
    def again(self, alone: bool) -> None:
        """An operator starts a run again that an error ended."""
        worlds.done["calls"] -= WIDEST  # the calls that failed are made again
        self.go(None, alone=alone)

    @rule(back=st.integers(1, 12), alone=st.booleans())
    def fork(self, back: int, alone: bool) -> None:
        """A person speaks to an older checkpoint of the thread."""
        past = [*self.graph.get_state_history(THREAD, limit=back)]
        if past:
            worlds.done.clear()
            self.raises, self.torn = False, True
            given = {"messages": [HumanMessage("from here")]}
            self.go(given, past[-1].config, alone=alone)

    def go(self, given: Any, config: Any = THREAD, *, alone: bool) -> None:
        """Run until the graph ends, asks or fails, and check what holds then."""
        config = {**THREAD, **config, "recursion_limit": 120}
        channel = self.graph.get_state(config).values.get("loopguard")
        self.seen.clear()
        try:
            if alone:
                self.graph.invoke(given, config)
            else:
                asyncio.run(self.graph.ainvoke(given, config))
            self.raised = False
        except worlds.LightsOutError:
            self.raised = self.torn = True
        self.check(channel)

    def check(self, channel: Any) -> None:
        """Budgets, history, ladder and replay."""
        assert not self.model._script.refused
        state = self.graph.get_state(THREAD)
        assert self.raised or state.interrupts or not state.next
        if not self.raises:
            assert worlds.done["model"] <= self.budget.model_calls, worlds.done
            assert worlds.done["calls"] <= self.budget.tool_calls, worlds.done
        if not (self.raised or self.raises or state.interrupts):
            self.check_counts(state.values["loopguard"]["used"]["run"])
        messages = state.values["messages"]
        # A graph keeps a broken call as it came; requests are still whole.
        self.torn |= any(getattr(m, "invalid_tool_calls", ()) for m in messages)
        if not self.torn and not state.interrupts:
            assert_valid_history([*messages, ("user", "and now?")])
        memory = load(channel)
        self.check_ladder()
        self.check_climb(memory["ladder"].get("rung", 0))
        for event in self.seen:
            assert event.event is not None
            self.check_holds(memory, event.event)
            verdict, memory = decide(self.policy, memory, event.event)
            assert _told(verdict) == _told(event.verdict)

    def check_counts(self, used: dict[str, float]) -> None:
        """What a word has cost is counted, and once."""
        events = [e.event for e in self.seen]
        words = [n for n, event in enumerate(events) if isinstance(event, Human)]
        turns = [e for e in events[words[-1] :] if isinstance(e, Turn)]
        least = worlds.done["model"] + worlds.done["inner"]
        most = least + worlds.done["summaries"]
        assert least <= used.get("model_calls", 0) <= most, used
        made = sum(not (s.blocked or s.cached) for t in turns for s in t.steps)
        assert worlds.done["calls"] <= used.get("tool_calls", 0) == made, used

    def check_holds(self, memory: Memory, event: Event) -> None:
        """A call that the ladder holds is not made; one of a fork may be cut off."""
        held = memory["ladder"].get("holds", ())
        steps = event.steps if isinstance(event, Turn) else ()
        for step in steps:
            if call_digest(step.tool, step.args, self.policy.tools) in held:
                assert step.blocked or step.result == no_result(), step

    def check_ladder(self) -> None:
        """Rungs are taken one by one, up and down, no more often than allowed."""
        rungs = [event.verdict.rung for event in self.seen]
        for before, after in pairwise(self.seen):
            down = before.verdict.rung - after.verdict.rung
            word = isinstance(after.event, Human)
            assert word or down <= after.verdict.progress, rungs
        acts = [e.verdict for e in self.seen if e.verdict.action != "continue"]
        had = {0, *rungs[:1]}
        for before, now in pairwise(rungs):
            assert set(range(before + 1, now)) <= had, rungs
            had.add(now)
        words = sum(type(e.event).__name__ == "Human" for e in self.seen)
        assert len(acts) <= (self.policy.ladder.most + 1) * (words + 1), rungs

    def check_climb(self, stood: int) -> None:
        """What did not help is not done again before there is progress; a new rung
        is an act.
        """
        for event in self.seen:
            verdict = event.verdict
            if verdict.progress or isinstance(event.event, Human):
                stood = verdict.rung
            elif verdict.action in ("reflect", "escalate"):
                assert verdict.rung > stood, verdict
            else:
                assert verdict.rung <= stood or verdict.action == "exit", verdict
            stood = max(stood, verdict.rung)


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=20_000 if DEEP else 40,
    stateful_step_count=12 if DEEP else 6,
    derandomize=not DEEP,
    # Shrinking whole runs takes longer than reading them.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
