"""A budget that runs out is seen on every kind of edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send

from loopguard_lg import Budget, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.graphs import (
    Clock,
    Reporting,
    agent_of,
    by_hand,
    guarded,
    limited,
    on,
    react,
    run,
    visited,
)
from tests.middleware.runs import THREAD, Way, ask, executed, last, results

Builder = StateGraph[Any, Any, Any, Any]
Edge = Callable[[Builder], None]


def static(builder: Builder) -> None:
    """A plain edge, into the model's node."""
    builder.add_edge("plan", "agent")


def fan_out(builder: Builder) -> None:
    """Two plain edges from one node."""
    builder.add_edge("plan", "agent")
    builder.add_edge("plan", "other")


def to_another_node(builder: Builder) -> None:
    """A plain edge, past the model's node."""
    builder.add_edge("plan", "other")


def conditional(builder: Builder) -> None:
    """A condition without a path map."""
    builder.add_conditional_edges("plan", lambda state: "other")


def mapped(builder: Builder) -> None:
    """A condition with a path map."""
    builder.add_conditional_edges("plan", lambda state: True, {True: "agent"})


def sent(builder: Builder) -> None:
    """A condition that sends three tasks."""
    builder.add_conditional_edges(
        "plan", lambda state: [Send("other", {"messages": []}) for _ in range(3)]
    )


EDGES = [static, fan_out, to_another_node, conditional, mapped, sent]


def planned(clock: Clock, plan: Any) -> tuple[Builder, ScriptedModel]:
    """A graph that begins with a node `plan`, and can go on to `other`."""
    model = ScriptedModel(replies=["done"])
    builder: Builder = StateGraph(Reporting)
    builder.add_node("plan", plan)
    builder.add_node("other", clock.takes(0))
    builder.add_node("agent", agent_of(model))
    builder.add_node("tools", by_hand)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("agent", on)
    builder.add_edge("tools", "agent")
    return builder, model


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.__name__)
def test_a_budget_that_is_out_ends_the_run_on_the_edge(way: Way, edge: Edge) -> None:
    """What is behind the edge does not run; the exit has the report."""
    clock = Clock()
    builder, model = planned(clock, clock.takes(20))
    edge(builder)

    state = run(way, guarded(builder, limited(seconds=10), clock=clock))

    assert state["loopguard_exit"]["budget"] == "seconds"
    assert model.requests == []


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.__name__)
def test_a_budget_that_holds_changes_no_way(edge: Edge) -> None:
    """The nodes that run are those of the graph without the guard."""
    clock = Clock()
    bare, _ = planned(clock, clock.takes(1))
    builder, _ = planned(clock, clock.takes(1))
    edge(bare)
    edge(builder)

    nodes = visited(guarded(builder, limited(seconds=10), clock=clock))

    assert nodes == visited(bare.compile())


GOTOS = ["agent", ["agent", "other"], [Send("other", {"messages": []})]]


@pytest.mark.parametrize("goto", GOTOS, ids=["node", "nodes", "send"])
def test_a_command_is_replaced_when_a_budget_is_out(way: Way, goto: Any) -> None:
    """A node that says where to go is overruled; its update is kept."""
    clock = Clock()
    plan = clock.takes(20, Command(update={"messages": [("ai", "a plan")]}, goto=goto))
    builder, model = planned(clock, plan)

    graph = guarded(builder, limited(seconds=10), clock=clock)

    assert visited(graph) == ["plan", "loopguard_give_up"]
    assert run(way, graph)["messages"][1].text == "a plan"
    assert model.requests == []


@pytest.mark.parametrize("goto", GOTOS, ids=["node", "nodes", "send"])
def test_a_command_is_followed_while_a_budget_holds(goto: Any) -> None:
    """The nodes that run are those of the graph without the guard."""
    clock = Clock()
    bare, _ = planned(clock, clock.takes(1, Command(goto=goto)))
    builder, _ = planned(clock, clock.takes(1, Command(goto=goto)))

    nodes = visited(guarded(builder, limited(seconds=10), clock=clock))

    assert list(dict.fromkeys(nodes)) == list(dict.fromkeys(visited(bare.compile())))


def joined(clock: Clock, seconds: float) -> Builder:
    """Two branches that meet in `both`."""
    builder, _ = planned(clock, clock.takes(0))
    for name in ("left", "right"):
        builder.add_node(name, clock.takes(seconds))
        builder.add_edge("plan", name)
    builder.add_node("both", clock.takes(0, {"messages": [("user", "joined")]}))
    builder.add_edge(["left", "right"], "both")
    builder.add_edge("both", "agent")
    return builder


def test_the_target_of_a_join_is_not_executed_when_a_budget_is_out(way: Way) -> None:
    """A join can't be led elsewhere; its target does nothing and leads to the exit."""
    clock = Clock()

    state = run(way, guarded(joined(clock, 20), limited(seconds=10), clock=clock))

    assert state["loopguard_exit"]["budget"] == "seconds"
    assert "joined" not in [message.text for message in state["messages"]]


def test_a_join_within_the_budget_is_as_without_the_guard(way: Way) -> None:
    """Both branches run, then what they meet in."""
    clock = Clock()

    state = run(way, guarded(joined(clock, 1), limited(seconds=10), clock=clock))

    assert [m.text for m in state["messages"]][1:] == ["joined", "done"]


def test_a_thread_whose_budget_is_out_does_not_get_in(way: Way) -> None:
    """The entry is checked: the next run on the thread ends before its first node."""
    model = ScriptedModel(replies=["one", "never asked"])
    policy = Policy(budget=Budget(model_calls=1, scope="thread"))
    graph = guarded(react(model), policy, checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)

    assert visited(graph, ask("again")) == ["loopguard_give_up"]
    assert run(way, graph)["loopguard_exit"]["budget"] == "model_calls"


def test_an_answer_that_uses_the_budget_up_is_the_answer(way: Way) -> None:
    """The way to the end is let go: the run is over, and nothing is spoilt."""
    model = ScriptedModel(replies=["the answer"])

    state = run(way, guarded(react(model), limited(model_calls=1)))

    assert last(state).text == "the answer"
    assert state.get("loopguard_exit") is None


def test_calls_that_no_budget_is_left_for_are_answered(way: Way) -> None:
    """Between reply and tools, the exit answers each call, in order."""
    calls = [call("search", query="a"), call("read", path="b")]
    model = ScriptedModel(replies=[calls])

    state = run(way, guarded(react(model), limited(total_tokens=2)))

    assert [m.name for m in results(state["messages"])] == ["search", "read"]
    assert executed == []
    validate_history(state["messages"], request=False)


def test_a_budget_ends_in_the_middle_of_a_batch(way: Way) -> None:
    """The calls that fit are executed, the others answered, in the order asked."""
    paths = ["a", "b", "c", "d"]
    model = ScriptedModel(replies=[[call("read", path=path) for path in paths]])

    state = run(way, guarded(react(model), limited(tool_calls=2)))

    found = results(state["messages"])
    assert sorted(executed) == ["read a", "read b"]
    assert [m.text.split()[0] for m in found] == ["contents"] * 2 + ["Not"] * 2
    assert state["loopguard_exit"]["budget"] == "tool_calls"
    validate_history(state["messages"], request=False)


def test_a_model_in_another_node_counts(way: Way) -> None:
    """A budget of model calls sees those that any node makes."""
    planner = ScriptedModel(replies=["a plan", "another"])

    def plan(state: Any) -> None:
        planner.invoke("plan")
        planner.invoke("again")

    builder, model = planned(Clock(), plan)
    static(builder)

    state = run(way, guarded(builder, limited(model_calls=2)))

    assert state["loopguard_exit"]["usage"]["model_calls"] == 2
    assert model.requests == []


def test_a_refused_call_keeps_its_place_beside_one_of_the_same_id(way: Way) -> None:
    """Models give several calls one id, or none: results come in the order of calls."""
    batch = [call("read", "", path="a"), call("read", "", path="b")]
    model = ScriptedModel(replies=[batch])

    state = run(way, guarded(react(model), Policy(budget=Budget(tool_calls=1))))

    told = [message.text for message in results(state["messages"])]
    assert told[0].startswith("contents of a")
    assert told[1].startswith("Not executed")
