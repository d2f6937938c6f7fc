"""A person speaks while calls of an earlier run have no result."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import AskUser, Budget, GiveUp, Ladder, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded, react
from tests.middleware.runs import THREAD, ask, last


@pytest.mark.parametrize("end", [AskUser(), GiveUp()])
def test_a_new_word_is_not_answered_by_the_budget_of_the_last_run(end: Any) -> None:
    """The question that waits is dropped, and the run has a budget of its own."""
    reads = [call("read", path=path) for path in "abc"]
    model = ScriptedModel(replies=[*reads, "found"])
    policy = Policy(ladder=Ladder(end), budget=Budget(tool_calls=2))
    graph = guarded(react(model), policy, checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)

    state = graph.invoke(ask("again"), THREAD)

    assert "__interrupt__" not in state
    assert last(state).text == "found"


def test_a_broken_call_that_ended_a_run_is_answered_in_the_next_request() -> None:
    """A graph keeps the reply as it came; what the model is sent is whole."""
    broken = {"name": "read", "args": "{", "id": "c", "error": "no JSON"}
    reply = AIMessage("", invalid_tool_calls=[broken])
    model = ScriptedModel(replies=[reply, "found"])
    graph = guarded(react(model), checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)

    assert last(graph.invoke(ask("again"), THREAD)).text == "found"
    assert model.requests[1].messages[2].tool_call_id == "c"


def test_a_question_is_not_asked_again_in_the_middle_of_the_history() -> None:
    """Where the thread's budget is out as well, the run ends after the new word."""
    reads = [call("read", path=path) for path in "abcd"]
    limits = (Budget(tool_calls=2), Budget(tool_calls=2, scope="thread"))
    policy = Policy(ladder=Ladder(AskUser()), budget=limits)
    model = ScriptedModel(replies=reads)
    graph = guarded(react(model), policy, checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)

    state = graph.invoke(ask("again"), THREAD)

    assert state["messages"][-2].text == "again"
    assert last(state).response_metadata["loopguard_exit"]["reason"] == "budget"
