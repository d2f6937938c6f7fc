"""Subagents of deepagents, whose tool makes commands of what they say."""

from __future__ import annotations

from typing import Any

import pytest
from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    last,
    results,
    same,
)
from tests.multi.teams import used

READS = [call("read", path=str(n)) for n in range(9)]


def subagent(replies: list[Any], *, guarded: bool = True, **more: Any) -> Any:
    """A subagent, with or without a guard of its own."""
    guard = LoopGuardMiddleware(name="inner")
    return {
        "name": "researcher",
        "description": "Looks things up.",
        "system_prompt": "Look it up.",
        "model": ScriptedModel(replies=replies, loop=True),
        "tools": TOOLS,
        "middleware": [guard] if guarded else [],
        **more,
    }


def task(what: str = "look it up") -> Any:
    """A call of the subagent tool."""
    return call("task", description=what, subagent_type="researcher")


def deep(replies: list[Any], child: Any, policy: Policy | None = None) -> Any:
    """A deep agent with one subagent."""
    return create_deep_agent(
        ScriptedModel(replies=replies),
        TOOLS,
        middleware=[LoopGuardMiddleware(policy)],
        subagents=[child],
        checkpointer=InMemorySaver(),
    )


def test_a_subagents_exit_is_data_in_the_result_of_its_task(way: Way) -> None:
    """The command of the task tool is kept whole, its message has the report."""
    agent = deep([task(), call("give_up", reason="it failed")], subagent(same(9)))

    state = way(agent, ask(), THREAD)

    report = results(state["messages"])[0].response_metadata["loopguard_exit"]
    assert (report["reason"], report["agent"]) == ("loop", "inner")
    assert state["loopguard_exit"]["children"][0]["kind"] == report["kind"]


def test_a_subagent_stops_when_its_parents_budget_is_out(way: Way) -> None:
    """In the middle of its task, and the parent leaves after it."""
    policy = Policy(budget=Budget(model_calls=4))

    state = way(deep([task(), "never"], subagent(READS), policy), ask(), THREAD)

    report = results(state["messages"])[0].response_metadata["loopguard_exit"]
    assert executed == ["read 0", "read 1", "read 2"]
    assert report["outer"] == "loopguard"
    assert state["loopguard_exit"]["budget"] == "model_calls"


def test_two_subagents_that_are_ended_in_one_step_keep_their_reports(way: Way) -> None:
    """Neither their states nor their reports clash."""
    agent = deep([[task("a"), task("b")], "found"], subagent(same(9)))

    state = way(agent, ask(), THREAD)

    reports = [
        m.response_metadata["loopguard_exit"] for m in results(state["messages"])
    ]
    assert [report["reason"] for report in reports] == ["loop", "loop"]
    assert state.get("loopguard_exit") is None
    validate_history(state["messages"][:-1])


def test_the_same_task_that_fails_again_is_seen_by_the_parent(way: Way) -> None:
    """A subagent that is ended again and again is a loop of its parent's."""
    agent = deep([task()] * 9, subagent(same(9)))

    state = way(agent, ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(state["loopguard_exit"]["children"]) <= 8


@pytest.mark.filterwarnings("ignore:.*forked subagents")
def test_a_forked_subagent_goes_on_from_its_parents_memory(way: Way) -> None:
    """It inherits the guard and what it knows; both count what it spends once."""
    child = subagent([call("read", path="a"), "done"], mode="fork", middleware=[])
    agent = deep([task(), "found"], child)

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert used(agent)["model_calls"] == 4
