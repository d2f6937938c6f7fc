"""Supervisors of `langgraph-supervisor`, with guarded workers and guarded tools."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph_supervisor import create_handoff_tool, create_supervisor

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.adapters.handoffs import handoff_tool
from loopguard_lg.adapters.tool_node import GuardedToolNode
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, last, same

HANDS_OVER = call("transfer_to_bob")


def worker(replies: list[Any], policy: Policy | None = None) -> Any:
    """A guarded worker named bob."""
    model = ScriptedModel(replies=replies, loop=True)
    return create_agent(
        model, TOOLS, middleware=[LoopGuardMiddleware(policy)], name="bob"
    )


def team(worker: Any, replies: list[Any], tools: Any = None, **settings: Any) -> Any:
    """A supervisor over one worker."""
    model = ScriptedModel(replies=replies)
    return create_supervisor([worker], model=model, tools=tools, **settings).compile()


def test_a_workers_exit_reaches_the_supervisor_as_data(way: Way) -> None:
    """The worker leaves its loop; its message in the team's history has the report."""
    app = team(worker(same(9)), [HANDS_OVER, "bob is stuck"])

    state = way(app, ask(), THREAD)

    said = [m for m in state["messages"] if isinstance(m, AIMessage)]
    reports = [m.response_metadata.get("loopguard_exit") for m in said]
    (report,) = [found for found in reports if found]
    assert report["reason"] == "loop"
    assert last(state).text == "bob is stuck"


def test_a_workers_guard_sees_its_earlier_turns_of_the_run(way: Way) -> None:
    """A loop over several delegations is caught in the worker."""
    bob = worker([call("search", query="x"), "nothing found"])
    app = team(bob, [HANDS_OVER] * 7 + ["done"], output_mode="full_history")

    state = way(app, ask(), THREAD)

    reports = [m.response_metadata.get("loopguard_exit") for m in state["messages"]]
    assert any(reports)
    assert len(executed) < 7


def test_a_workers_budget_spans_the_run(way: Way) -> None:
    """What the supervisor spent in the same conversation counts."""
    reads = [call("read", path=str(n)) for n in range(9)]
    app = team(
        worker(reads, Policy(budget=Budget(model_calls=3))), [HANDS_OVER, "done"]
    )

    way(app, ask(), THREAD)

    assert executed == ["read 0", "read 1"]


def test_a_supervisor_that_delegates_in_circles_is_stopped(way: Way) -> None:
    """With guarded tools the hand-overs themselves are watched, to the end."""
    bob = create_agent(ScriptedModel(default="nothing found"), TOOLS, name="bob")
    tools = GuardedToolNode([create_handoff_tool(agent_name="bob")])
    app = team(bob, [HANDS_OVER] * 30, tools)

    with pytest.raises(LoopHaltedError):
        way(app, ask(), {**THREAD, "recursion_limit": 100})


def test_the_contract_tool_works_under_a_supervisor(way: Way) -> None:
    """The worker gets the contract; asked twice, its answer comes back."""
    bob = create_agent(ScriptedModel(replies=["42"]), TOOLS, name="bob")
    asks = call("transfer_to_bob", task="add up order 17", done_when="it is known")
    app = team(bob, [asks, asks, "done"], [handoff_tool("bob")])

    state = way(app, ask(), THREAD)

    told = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    assert "Answered before by `bob`: 42" in told
    assert last(state).text == "done"
