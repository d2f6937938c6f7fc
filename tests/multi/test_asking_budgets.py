"""Questions about a used budget: who says no clear yes spends no more."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from loopguard_lg import AskUser, Budget, guard_graph
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, laddered
from tests.multi.test_asking import asking, question


@pytest.mark.parametrize(
    "answer",
    [{"choice": "raise_budget"}, {"decisions": [{"type": "approve"}]}],
    ids=["choice", "approve"],
)
def test_a_person_can_raise_the_budget(answer: Any, way: Way) -> None:
    """Approving a question about a budget grants it once more."""
    policy = laddered(end=AskUser()).replace(budget=Budget(tool_calls=2))
    reads = [call("read", path=str(n)) for n in range(4)]
    agent = asking(policy, ScriptedModel(replies=reads, default="found"))
    way(agent, ask(), THREAD)

    way(agent, Command(resume=answer), THREAD)

    assert executed == [f"read {n}" for n in range(4)]


def out_of_budget(way: Way) -> Any:
    """An agent that has used two tool calls, and asks."""
    policy = laddered(end=AskUser()).replace(budget=Budget(tool_calls=2))
    reads = [call("read", path=str(n)) for n in range(9)]
    agent = asking(policy, ScriptedModel(replies=reads, default="found"))
    way(agent, ask(), THREAD)
    return agent


NO_YES: list[Any] = [
    "no",
    "no, stop it",
    "",
    "0",
    "yes?",
    "ok, but first tell me why",
    {"choice": "stopp"},
    {"choice": "stopp", "to": 50},
    {"choice": "hint", "text": "yes"},
    {"choice": "raise_budget", "to": "lots"},
    {"text": "no"},
    {"text": "no", "to": 50},
    {"decisions": [{"type": "respond", "message": "no"}]},
    {"decisions": []},
]


@pytest.mark.parametrize("answer", NO_YES, ids=str)
def test_no_clear_yes_spends_no_more(answer: Any, way: Way) -> None:
    """The person is asked again, with the right answers, and can still say them."""
    agent = out_of_budget(way)
    way(agent, Command(resume=answer), THREAD)
    again = question(agent)["question"]
    unspent = [*executed]

    state = way(agent, Command(resume="stop"), THREAD)

    assert unspent == executed == ["read 0", "read 1"]
    assert "not carried out: choose one of `raise_budget`, `stop`" in again
    assert state["loopguard_exit"]["reason"] == "gave_up"


YES: list[Any] = ["Yes, please.", "OK!", True, "4", 4, {"to": "4"}, {"text": "go on"}]


@pytest.mark.parametrize("answer", YES, ids=str)
def test_a_plain_yes_and_an_amount_spend_more(answer: Any, way: Way) -> None:
    """Also after an answer that was none."""
    agent = out_of_budget(way)
    way(agent, Command(resume="hm"), THREAD)

    way(agent, Command(resume=answer), THREAD)

    assert executed == [f"read {n}" for n in range(4)]


def test_a_graph_asks_again_about_money(way: Way) -> None:
    """The nodes of a hand-written graph take the same care."""
    policy = laddered(end=AskUser()).replace(budget=Budget(model_calls=2))
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(9)])
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    guarded_ = guard_graph(builder, policy, model="agent", tools="tools")
    graph = guarded_.compile(checkpointer=InMemorySaver())
    way(graph, ask(), THREAD)

    way(graph, Command(resume="no"), THREAD)

    assert len(model.requests) == 2
    assert "not carried out" in question(graph)["question"]
