"""No call that may be made once is made twice, and none is lost, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from tenacity import wait_none

from loopguard_lg import (
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    ToolPolicy,
    guard_graph,
)
from loopguard_lg.acts import receipts, state as acts
from loopguard_lg.acts.calls import Made
from loopguard_lg.detectors import DEFAULTS, Repeat
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, TOOLS, ask, executed, same

SENDS = ToolPolicy(role="write", once=True)
TRIES = 3
Letter = tuple[int, list[bool]]
"""A letter, and how one try after the other goes."""

BATCHES = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.booleans(), min_size=1, max_size=TRIES)),
    min_size=1,
    max_size=4,
)
OPS = st.lists(
    st.one_of(
        BATCHES.map(lambda batch: ("batch", batch)),
        BATCHES.map(lambda batch: ("removed", batch)),
        st.sampled_from([("word", []), ("resume", []), ("rollback", [])]),
    ),
    max_size=20,
)
"""Batches, also such whose messages are removed, and what else happens to a run."""


class Office:
    """A pure run: what is remembered, and what was really sent for a person's word."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.sent: list[int] = []

    def word(self, batch: list[Letter]) -> None:
        """A person says something new."""
        self.memory, self.sent = acts.after(self.memory, [], new_word=True), []

    def resume(self, batch: list[Letter]) -> None:
        """The run goes on from what was stored."""
        self.memory = dict(self.memory)

    def rollback(self, batch: list[Letter]) -> None:
        """What came before is out of view, and a person has answered."""
        self.memory = acts.after(self.memory, [], answered=True)

    def batch(self, batch: list[Letter]) -> None:
        """Calls of one reply, each tried again until it works or was enough."""
        self.memory = acts.after(self.memory, self._made(batch))

    def removed(self, batch: list[Letter]) -> None:
        """The same, but nobody saw how they ended."""
        self._made(batch)
        self.memory = acts.after(self.memory, [], lost=[n for n, _ in batch])

    def _made(self, batch: list[Letter]) -> list[Made]:
        out: list[Made] = []
        for n, tries in batch:
            plan = Made(policy=SENDS, digest=n, role="write")
            answered = (
                receipts.is_done(self.memory.get("done", []), plan)
                or n in self.memory.get("lost", [])
                or receipts.is_twin(plan, out)
            )
            works = not answered and any(tries)
            self.sent += [n] * works
            known = {"executed": not answered, "worked": answered or works}
            out.append(Made(policy=SENDS, digest=n, role="write", **known))
        return out

    def knows(self, n: int) -> bool:
        """Whether a letter has a receipt, or is known to have been tried."""
        known = self.memory.get("done", [])[::2] + self.memory.get("lost", [])
        return n in known


@settings(max_examples=1000)
@given(ops=OPS)
def test_no_write_is_done_twice_and_none_is_lost(ops: Any) -> None:
    """Writes, retries, batches, resumes, rollbacks and removals in any order."""
    office = Office()
    for name, batch in ops:
        getattr(office, name)(batch)

        assert len(office.sent) == len({*office.sent})
        assert all(map(office.knows, office.sent))
        for n, tries in dict(reversed(batch)).items():  # the first of twins is made
            assert office.knows(n) or not any(tries)


failing: dict[str, int] = {}
"""How often a letter can't be sent yet, by its receiver."""


@tool
def send(to: str) -> str:
    """Send a letter."""
    if failing.get(to, 0):
        failing[to] -= 1
        return "Error: 503 Service Unavailable"
    executed.append(to)
    return f"receipt for {to}"


POLICY = Policy(
    tools={
        "send": ToolPolicy(
            role="write",
            once=True,
            retry=True,
            wait=wait_none(),
            off=tuple(detector.kind for detector in DEFAULTS),
        )
    },
    detectors=[Repeat()],
    ladder=Ladder(Escalate(), Escalate(), GiveUp()),
)


def agent(model: ScriptedModel, stops: bool) -> Any:
    """An agent in a middleware's care, which is stopped before its tools or not."""
    guard = LoopGuardMiddleware(POLICY)
    before = ["tools"] if stops else None
    return create_agent(
        model,
        [*TOOLS, send],
        middleware=[guard],
        checkpointer=InMemorySaver(),
        interrupt_before=before,
    )


def graph(model: ScriptedModel, stops: bool) -> Any:
    """The same as a guarded graph."""
    builder = graphs.react(model, tools=ToolNode([*TOOLS, send]))
    built = guard_graph(builder, POLICY, model="agent", tools="tools")
    before = ["tools"] if stops else None
    return built.compile(checkpointer=InMemorySaver(), interrupt_before=before)


@pytest.mark.parametrize("made", [agent, graph])
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(
        st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, max_size=3), max_size=5
    ),
    loops=st.sets(st.integers(0, 4), max_size=1),
    fails=st.dictionaries(st.sampled_from("ABC"), st.integers(0, 4)),
    stops=st.booleans(),
)
def test_a_real_run_sends_each_letter_once(
    made: Any, batches: Any, loops: Any, fails: Any, stops: bool
) -> None:
    """Retried, in parallel, stopped and resumed, and gone back over after a loop."""
    executed.clear()
    failing.clear()
    failing.update(fails)
    replies: list[Any] = []
    for n, batch in enumerate(batches):
        replies += same(3) if n in loops else []
        replies.append([call("send", to=to) for to in batch])
    run = made(ScriptedModel(replies=[*replies, "done"]), stops)
    run.invoke(ask(), THREAD)
    while run.get_state(THREAD).next:
        run.invoke(None, THREAD)

    tried = {to: sum(to in batch for batch in batches) for to in "ABC"}
    works = [to for to in "ABC" if TRIES * tried[to] > fails.get(to, 0)]
    assert sorted(to for to in executed if to in "ABC") == works
