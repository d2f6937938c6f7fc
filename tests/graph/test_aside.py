"""What nodes without the guard's model spend, in the run and in its recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import HumanMessage
from langgraph.graph import START

from loopguard_lg import Budget, Human, Policy, Recorder, Turn, decide
from loopguard_lg.adapters.aside import told
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded, react, run
from tests.middleware.runs import Way
from tests.middleware.test_replay import replayed, told as as_told


def planned(model: ScriptedModel) -> Any:
    """A planner before the agent, and a grader after its tools: both ask a model."""
    other = ScriptedModel(default="well")
    builder = react(model)
    builder.edges.clear()

    def node(name: str) -> None:
        builder.add_node(
            name, lambda _: {"messages": [HumanMessage(other.invoke(name).text)]}
        )

    node("plan")
    node("grade")
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "agent")
    builder.add_edge("tools", "grade")
    builder.add_edge("grade", "agent")
    return builder


@pytest.mark.parametrize("allowed", [4, 5, 100])
def test_a_replay_counts_what_the_run_has_counted(
    way: Way, tmp_path: Path, allowed: int
) -> None:
    """Also where the budget is out by what another node has spent."""
    live: list[tuple[Any, ...]] = []
    usage: list[Any] = []

    def note(event: GuardEvent) -> None:
        if event.name == "seen":
            live.append(as_told(event.verdict))
            usage.append(event.event)

    policy = Policy(budget=Budget(model_calls=allowed, warn=1))
    replies = [*[call("read", path=f"f{n}") for n in range(4)], "found"]
    with Recorder(tmp_path / "run.jsonl") as recorder:
        graph = guarded(
            planned(ScriptedModel(replies=replies)), policy, observers=[note, recorder]
        )
        state = run(way, graph)

    assert replayed(tmp_path / "run.jsonl", policy) == live
    if allowed < 100:
        assert state["loopguard_exit"]["usage"]["model_calls"] == allowed
    else:
        inside = [n for t in usage if isinstance(t, Turn) for n in t.nested]
        assert sum(n.model_calls for n in inside) == 5


SPENT = st.fixed_dictionaries(
    {
        "model_calls": st.integers(1, 9),
        "input_tokens": st.integers(0, 99),
        "output_tokens": st.integers(0, 99),
        "seconds": st.floats(0, 9),
    }
)


@given(SPENT, st.integers(0, 9))
def test_what_is_told_is_what_the_engine_counts(spent: Any, free: int) -> None:
    """No call, token or second is lost on the way through a turn."""
    free = min(free, spent["model_calls"])
    beside = {**spent, "unpriced": free, "usd": 0.5 * (spent["model_calls"] - free)}
    (turn,), left = told([Turn(cost=0.0)], {"run": beside, "thread": beside})

    _, memory = decide(Policy(), None, turn)

    used = memory["used"]["run"]
    assert used["model_calls"] == 1 + beside["model_calls"]
    for name in ("input_tokens", "output_tokens", "seconds", "unpriced", "usd"):
        assert used.get(name, 0) == pytest.approx(beside[name])
    assert not any(left.values())


def test_what_no_turn_can_tell_is_left() -> None:
    """A word alone carries no usage; what an earlier run spent is the thread's."""
    spent = {"model_calls": 2.0}
    alone = told([Human(text="go")], {"run": spent, "thread": spent})
    late = told([Turn()], {"run": {}, "thread": spent})

    assert alone == ([Human(text="go")], {"run": spent, "thread": spent})
    assert late == ([Turn()], {"run": {}, "thread": spent})
