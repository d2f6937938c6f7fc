"""Graphs of other shapes: branches, critics, planners, supervisors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

from loopguard_lg import Chanting, guard_graph
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.budgets import Price
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import (
    Reporting,
    Shared,
    agent_of,
    by_hand,
    guarded,
    limited,
    on,
    react,
    run,
    stubborn,
    was_held,
)
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    laddered,
    last,
    notes,
    same,
)


def test_side_by_side_branches_lose_no_count(way: Way) -> None:
    """What nodes of one superstep spend is all in the report."""
    models = [ScriptedModel(replies=["looked"] * 3) for _ in range(3)]
    builder = react(ScriptedModel(replies=["never asked"]), Shared)
    builder.edges.discard((START, "agent"))

    def looks(model: ScriptedModel) -> Callable[[Any], Any]:
        return lambda state: {"seen": [model.invoke("look").text]}

    builder.add_node("split", lambda state: None)
    builder.add_edge(START, "split")
    for n, model in enumerate(models):
        builder.add_node(f"look{n}", looks(model))
        builder.add_edge("split", f"look{n}")
    builder.add_edge([f"look{n}" for n in range(3)], "agent")

    state = run(way, guarded(builder, limited(model_calls=3)))

    assert state["seen"] == ["looked"] * 3
    assert state["loopguard_exit"]["usage"]["model_calls"] == 3


def critiqued(model: ScriptedModel) -> StateGraph[Any, Any, Any, Any]:
    """A writer and a critic who speaks as a person."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", agent_of(model))
    builder.add_node("tools", by_hand)
    builder.add_node("critic", lambda state: {"messages": [("user", "do it better")]})
    builder.add_edge(START, "agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if on(state) == "tools" else "critic"
    )
    builder.add_edge("critic", "agent")
    builder.add_edge("tools", "agent")
    return builder


def test_a_critic_that_speaks_as_a_person_starts_no_new_run(way: Way) -> None:
    """The budget of the run goes on over messages that nodes make."""
    model = ScriptedModel(replies=[f"draft number {n} {'ab' * n}" for n in range(9)])

    state = run(way, guarded(critiqued(model), limited(model_calls=4)))

    assert state["loopguard_exit"]["budget"] == "model_calls"
    assert len(model.requests) == 4


def test_a_loop_of_words_is_seen(way: Way) -> None:
    """A writer that says the same again and again is told, and stopped."""
    model = ScriptedModel(replies=["The very same draft, word for word."] * 20)
    policy = laddered().replace(detectors=[Chanting()])

    state = run(way, guarded(critiqued(model), policy))

    assert state["loopguard_exit"]["kind"] == "chanting"
    assert any("circles" in note for note in notes(model))


def test_a_person_who_speaks_inside_the_run_starts_afresh() -> None:
    """An answer to an interrupt of a node of the user's is a person's word."""
    model = ScriptedModel(replies=[f"draft number {n} {'ab' * n}" for n in range(9)])
    builder = critiqued(model)
    builder.nodes.pop("critic")
    builder.add_node(
        "critic", lambda state: {"messages": [("user", str(interrupt("and?")))]}
    )
    graph = guarded(builder, limited(model_calls=2), checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)

    for n in range(3):
        graph.invoke(Command(resume=f"more {n}"), THREAD)

    assert len(model.requests) == 4


def test_plan_and_execute_ends_within_its_budget(way: Way) -> None:
    """Planner, executor with tools, and replanner: all of them count."""
    planner = ScriptedModel(replies=[f"plan {n}" for n in range(9)])
    laps = [(call("read", path=f"f{n}"), f"done {n}") for n in range(9)]
    model = ScriptedModel(replies=[reply for lap in laps for reply in lap])
    builder = react(model)
    builder.edges.discard((START, "agent"))
    builder.branches["agent"].clear()

    def plan(state: Any) -> dict[str, Any]:
        text = planner.invoke("plan").text
        return {"messages": [HumanMessage(text)]}

    builder.add_node("plan", plan)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if on(state) == "tools" else "plan"
    )

    state = run(way, guarded(builder, limited(model_calls=7)))

    assert state["loopguard_exit"]["usage"]["model_calls"] == 7
    assert [len(planner.requests), len(model.requests)] == [3, 4]


def test_a_supervisor_that_hands_over_again_and_again_is_stopped(way: Way) -> None:
    """Hand-overs by commands go through the guard like every other way."""
    boss = stubborn()
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)

    def worker(state: MessagesState) -> Command[Literal["agent"]]:
        return Command(update=by_hand(state), goto="agent")

    builder.add_node("agent", agent_of(boss))
    builder.add_node("worker", worker)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, {"tools": "worker", END: END})
    graph = guard_graph(builder, laddered(), model="agent", tools="worker").compile()

    state = run(way, graph)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert was_held(executed)


def test_the_ready_made_agent_of_langgraph_can_be_guarded(way: Way) -> None:
    """The graph behind `create_react_agent`, as far as a builder can be had."""
    with pytest.warns(DeprecationWarning, match="create_react_agent"):
        agent = create_react_agent(stubborn(), TOOLS)

    graph = guarded(agent.builder, laddered())
    state = run(way, graph)

    assert last(state).response_metadata["loopguard_exit"]["reason"] == "loop"
    assert was_held(executed)


def test_the_recursion_limit_is_left_gracefully(way: Way) -> None:
    """Shortly before LangGraph would raise, the run ends with what there is."""
    model = ScriptedModel(replies=[call("read", path=f"f{n}") for n in range(50)])

    state = way(guarded(react(model)), ask(), {**THREAD, "recursion_limit": 10})

    assert state["loopguard_exit"]["reason"] == "recursion_limit"


def test_a_graph_in_a_graph_does_not_end_it_by_its_own_exit(way: Way) -> None:
    """Both write their last message, though their model's nodes share a name."""
    searching = ScriptedModel(default=call("search", query="x"), validate=False)
    outer: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    outer.add_node("agent", agent_of(searching))
    outer.add_node("tools", by_hand)
    outer.add_node("inside", guarded(react(searching)))
    outer.add_edge(START, "agent")
    outer.add_conditional_edges("agent", on)
    outer.add_edge("tools", "inside")
    outer.add_edge("inside", "agent")

    state = run(way, guarded(outer, limited(steps=2)))

    found = [m.response_metadata.get("loopguard_exit") for m in state["messages"]]
    assert [report["reason"] for report in found if report] == ["loop", "budget"]


def test_the_strong_node_can_be_one_of_the_graph(way: Way) -> None:
    """`stronger` names a node; the escalate node runs what that runs."""
    strong = ScriptedModel(replies=["found"], model_name="strong")
    builder = react(ScriptedModel(replies=same(4)))
    builder.add_node("strong", agent_of(strong))

    state = run(way, guarded(builder, stronger="strong"))

    assert last(state).text == "found"
    assert "no results" not in strong.requests[0].text.splitlines()


def test_a_strong_model_that_fails_is_done_without(way: Way) -> None:
    """The run goes on from the last good point with the model's own node."""
    strong = ScriptedModel(default=ConnectionError("down"), model_name="strong")
    model = ScriptedModel(replies=[*same(4), "found"])

    state = run(way, guarded(react(model), laddered(strong)))

    assert last(state).text == "found"
    assert "no results" not in model.requests[-1].text.splitlines()


def test_the_strong_node_can_be_a_function(way: Way) -> None:
    """`stronger` is what one would give to `add_node`."""
    strong = ScriptedModel(replies=["found"], model_name="strong")

    graph = guarded(react(ScriptedModel(replies=same(4))), stronger=agent_of(strong))

    assert last(run(way, graph)).text == "found"


def test_hand_overs_to_workers_who_speak_are_seen_as_a_loop(way: Way) -> None:
    """What workers say in the same messages does not hide the supervisor's calls."""

    def hands_over(state: MessagesState) -> Command[Literal["worker"]]:
        (asked,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        done = ToolMessage("handed over", tool_call_id=asked["id"])
        return Command(update={"messages": [done]}, goto="worker")

    builder = react(
        ScriptedModel(default=call("to_worker", task="dig"), validate=False), Reporting
    )
    builder.edges.discard(("tools", "agent"))
    builder.nodes.pop("tools")
    builder.add_node("tools", hands_over)
    builder.add_node("worker", lambda state: {"messages": [("ai", "nothing found")]})
    builder.add_edge("worker", "agent")

    state = run(way, guarded(builder))

    assert state["loopguard_exit"]["kind"] == "repeat"


def test_a_router_that_writes_no_message_is_counted(way: Way) -> None:
    """A model's node whose reply is only where to go uses the budget all the same."""
    boss = ScriptedModel(default="worker")

    def agent(state: MessagesState) -> Command[Literal["worker"]]:
        boss.invoke(state["messages"][:1])
        return Command(goto="worker")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", agent)
    builder.add_node("tools", by_hand)
    builder.add_node("worker", lambda state: {"messages": [("ai", "nothing found")]})
    builder.add_edge(START, "agent")
    builder.add_edge("worker", "agent")

    state = run(way, guarded(builder, limited(model_calls=5)))

    assert state["loopguard_exit"]["usage"]["model_calls"] == 5 == len(boss.requests)


def test_a_state_that_is_mended_by_hand_goes_on() -> None:
    """`update_state` in place of a node leads where that node would lead."""
    replies = [call("read", path="a"), "done"]
    graph = guarded(
        react(ScriptedModel(replies=replies)),
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    asked = graph.invoke(ask(), THREAD)["messages"][-1].tool_calls[0]
    mended = ToolMessage("by hand", tool_call_id=asked["id"])

    graph.update_state(THREAD, {"messages": [mended]}, as_node="tools")

    assert graph.get_state(THREAD).next == ("agent",)
    assert last(graph.invoke(None, THREAD)).text == "done"


def test_dollars_need_a_price_for_the_model_that_answers() -> None:
    """Its name is in its first reply; the run does not go on without a price."""
    model = ScriptedModel(replies=[call("read", path="a"), "done"])

    with pytest.raises(PolicyError, match="no price is known for the model 'scripted'"):
        guarded(react(model), limited(usd=1.0)).invoke(ask(), THREAD)


def test_dollars_are_kept(way: Way) -> None:
    """With a price the run ends when they are spent."""
    model = ScriptedModel(replies=[call("read", path="a"), "done"])
    prices = {"scripted": Price(input=1e6, output=1e6)}

    state = run(way, guarded(react(model), limited(usd=1.0).replace(prices=prices)))

    assert state["loopguard_exit"]["budget"] == "usd"


def test_the_hand_over_says_why_without_a_key_for_the_report(way: Way) -> None:
    """A state of messages alone has the report in its last one."""
    model = ScriptedModel(default=same(1)[0])

    state = run(way, guarded(react(model, MessagesState)))

    assert hand_over(state).reason.startswith("`search` was called")
