"""What others write in the place of the guard's marks costs no run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from loopguard_lg import Budget, GuardedToolNode, Policy
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import ask, guarded, last

ODD: dict[str, Any] = {"loopguard": {"nested": 3}}


def test_a_reply_with_an_odd_mark_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """It is not judged, and counts for the budget all the same."""
    model = ScriptedModel(replies=[AIMessage("found", response_metadata=ODD)])
    agent = guarded(model, Policy(budget=Budget(model_calls=1)))

    assert last(agent.invoke(ask())).text == "found"
    assert "a reply can't be judged" in caplog.text


@tool
def odd(n: int) -> ToolMessage:
    """Give a result with a mark that is none."""
    return ToolMessage("found", tool_call_id=f"call {n}", response_metadata=ODD)


def test_results_with_an_odd_mark_are_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The calls were made: a fault of the guard's costs its note alone."""
    asked = {"name": "odd", "args": {"n": 1}, "id": "call 1", "type": "tool_call"}
    builder = StateGraph(MessagesState)
    builder.add_node("tools", GuardedToolNode([odd]))
    builder.add_edge(START, "tools")
    given = [*ask()["messages"], AIMessage("", tool_calls=[asked])]

    state = builder.compile().invoke({"messages": given})

    assert state["messages"][-1].text == "found"
    assert "results can't be judged" in caplog.text
