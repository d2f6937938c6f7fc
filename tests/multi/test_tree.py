from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import ToolErrorMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from loopguard_lg import Budget, Policy, guard_graph
from loopguard_lg.budgets import Price
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, Way, ask, executed, last, results, same
from tests.multi.restarted import asking_team, confirm, run_first_half
from tests.multi.teams import child, delegate_to, parent, used

READS = [call("read", path=str(n)) for n in range(9)]


def limited(**limits: Any) -> Policy:
    """A policy with one budget."""
    return Policy(budget=Budget(**limits))


def told(state: dict[str, Any], at: int = 0) -> ToolMessage:
    """A tool result of the parent."""
    return results(state["messages"])[at]


def test_a_child_stops_when_its_parents_budget_is_out(way: Way) -> None:
    """The outer limit wins, in the middle of the child's own run."""
    inner = child(READS, limited(model_calls=9))
    replies = [call("delegate", task="a"), "never"]
    agent = parent(replies, [delegate_to(inner)], limited(model_calls=4))

    state = way(agent, ask(), THREAD)

    assert executed == ["read 0", "read 1", "read 2"]
    assert state["loopguard_exit"]["budget"] == "model_calls"
    assert state["loopguard_exit"]["usage"]["model_calls"] == 4


def test_the_childs_reason_names_the_outer_limit(way: Way) -> None:
    """Whose budget it was is data, and in the sentence."""
    agent = parent(
        [call("delegate", task="a"), "never"],
        [delegate_to(child(READS))],
        limited(model_calls=3),
    )

    report = told(way(agent, ask(), THREAD)).response_metadata["loopguard_exit"]

    assert (report["agent"], report["outer"]) == ("inner", "loopguard")
    assert (report["reason"], report["budget"]) == ("budget", "model_calls")
    assert "set by `loopguard`" in report["detail"]


def test_a_childs_own_limit_holds_inside_a_wider_one(way: Way) -> None:
    """It leaves by its own budget, and the parent goes on."""
    inner = child(READS, limited(model_calls=2))
    replies = [call("delegate", task="a"), "found"]
    agent = parent(replies, [delegate_to(inner)], limited(model_calls=9))

    state = way(agent, ask(), THREAD)

    assert told(state).response_metadata["loopguard_exit"]["outer"] is None
    assert last(state).text == "found"


@pytest.mark.parametrize("kind", ["loop", "budget", "gave_up"])
def test_a_childs_exit_reaches_the_parent_as_data(kind: str, way: Way) -> None:
    """The result carries the child's report, and the parent's report names it."""
    gives_up = [call("read", path="a"), call("give_up", reason="no access")]
    replies = {"loop": same(9), "budget": READS, "gave_up": gives_up}[kind]
    inner = child(replies, limited(tool_calls=4) if kind == "budget" else None)
    agent = parent(
        [call("delegate", task="a"), call("give_up", reason="it failed")],
        [delegate_to(inner)],
    )

    state = way(agent, ask(), THREAD)

    assert told(state).response_metadata["loopguard_exit"]["reason"] == kind
    (named,) = state["loopguard_exit"]["children"]
    assert (named["agent"], named["reason"]) == ("inner", kind)


def test_a_grandchild_stops_when_the_root_is_out(way: Way) -> None:
    """The outermost budget spans all levels, and is named at each."""
    deep = child(READS)
    asks = [call("delegate", task="b"), "done"]
    middle = child(asks, limited(model_calls=9), tools=[delegate_to(deep)])
    replies = [call("delegate", task="a"), "never"]
    agent = parent(replies, [delegate_to(middle)], limited(model_calls=5))

    state = way(agent, ask(), THREAD)

    assert executed == ["read 0", "read 1", "read 2"]
    assert told(state).response_metadata["loopguard_exit"]["outer"] == "loopguard"
    assert state["loopguard_exit"]["usage"]["model_calls"] == 5


def test_an_agent_between_that_is_not_guarded_breaks_no_chain(way: Way) -> None:
    """Limits go through it to the guarded agents inside."""
    asks = [call("delegate", task="b"), "done"]
    middle = child(asks, bare=True, tools=[delegate_to(child(READS))])
    replies = [call("delegate", task="a"), "never"]
    agent = parent(replies, [delegate_to(middle)], limited(model_calls=4))

    way(agent, ask(), THREAD)

    assert executed == ["read 0", "read 1"]


def test_children_of_one_batch_draw_on_one_budget() -> None:
    """What one has spent is gone for the other, even if they run one by one."""
    inner = child(READS)
    batch = [call("delegate", task=word) for word in "ab"]
    agent = parent([batch, "never"], [delegate_to(inner)], limited(model_calls=5))

    state = agent.invoke(ask(), {**THREAD, "max_concurrency": 1})

    assert len(executed) == 4
    assert state["loopguard_exit"]["usage"]["model_calls"] == 5


@pytest.mark.parametrize(
    "limits",
    [{"input_tokens": 60}, {"usd": 60}, {"seconds": 40}],
    ids=["tokens", "dollars", "time"],
)
def test_outer_limits_of_every_kind_reach_a_child(limits: Any) -> None:
    """What an outer agent allows ends the child, whatever its unit."""
    prices = {"scripted": Price(input=1e6, output=1e6)}
    policy = limited(**limits).replace(prices=prices)
    replies = [call("delegate", task="a"), "never"]
    inner = child(READS)
    agent = parent(replies, [delegate_to(inner)], policy, clock=count(0, 4).__next__)

    state = agent.invoke(ask())

    report = told(state).response_metadata["loopguard_exit"]
    assert (report["budget"], report["outer"]) == (*limits, "loopguard")
    assert 1 <= len(executed) < 9


@tool
def boom(what: str) -> str:
    """Fail always."""
    raise ValueError("the disk is full")


def failing(**settings: Any) -> Any:
    """A child that calls its model once and then raises."""
    return child([call("boom", what="a")], tools=[boom], **settings)


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "guarded"])
def test_what_a_child_spent_before_it_raised_is_charged(bare: bool, way: Way) -> None:
    """Another middleware turned the error into a result; its cost is still there."""
    on_error = ToolErrorMiddleware(lambda error, request: f"failed: {error}")
    agent = parent(
        [call("delegate", task="a"), "found"],
        [delegate_to(failing(bare=bare))],
        middleware=[on_error],
        checkpointer=InMemorySaver(),
    )

    way(agent, ask(), THREAD)

    assert used(agent)["model_calls"] == 3


def test_each_try_of_a_retried_child_is_charged() -> None:
    """A retry around the guard pays for the tries that failed, too."""
    retry = ToolRetryMiddleware(
        max_retries=2, initial_delay=0, jitter=False, on_failure="continue"
    )
    agent = parent(
        [call("delegate", task="a"), "found"],
        [delegate_to(failing())],
        middleware=[retry],
        checkpointer=InMemorySaver(),
    )

    agent.invoke(ask(), THREAD)

    assert used(agent)["model_calls"] == 5


def test_what_a_child_spent_before_its_error_ended_the_run_is_charged() -> None:
    """The next run of the thread knows of it."""
    agent = parent(
        [call("delegate", task="a"), "hello"],
        [delegate_to(failing())],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ValueError, match="the disk is full"):
        agent.invoke(ask(), THREAD)

    agent.invoke(ask("go on"), THREAD)

    spent = agent.get_state(THREAD).values["loopguard"]["used"]["thread"]
    assert spent["model_calls"] == 3


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "guarded"])
def test_what_a_child_spent_before_it_was_interrupted_is_charged_once(
    bare: bool, way: Way
) -> None:
    """The calls before and after a person's answer are those of the parent."""
    replies = [call("confirm", what="plan"), "done"]
    inner = child(replies, bare=bare, tools=[confirm])
    agent = parent(
        [call("delegate", task="a"), "found"],
        [delegate_to(inner)],
        checkpointer=InMemorySaver(),
    )
    way(agent, ask(), THREAD)

    way(agent, Command(resume="yes"), THREAD)

    assert used(agent)["model_calls"] == 4


def test_an_interrupted_child_tells_what_it_spent_in_another_process(
    tmp_path: Path,
) -> None:
    """A guarded child knows it from its own checkpoint."""
    run_first_half(tmp_path / "t.db", "team")

    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        agent = asking_team(saver)
        agent.invoke(Command(resume="yes"), THREAD)

        assert used(agent)["model_calls"] == 4


def test_what_a_child_spent_before_it_was_cancelled_is_charged() -> None:
    """A cancelled run leaves a dangling call, and its cost to the thread."""
    started = asyncio.Event()

    async def wait(what: str) -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return what

    hung = StructuredTool.from_function(coroutine=wait, name="wait")
    inner = child([call("wait", what="a")], tools=[hung])
    agent = parent(
        [call("delegate", task="a"), "hello"],
        [delegate_to(inner)],
        checkpointer=InMemorySaver(),
    )

    async def run() -> None:
        task = asyncio.create_task(agent.ainvoke(ask(), THREAD))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await agent.ainvoke(ask("go on"), THREAD)

    asyncio.run(run())

    spent = agent.get_state(THREAD).values["loopguard"]["used"]["thread"]
    assert spent["model_calls"] == 3


def supervised(worker: Any, policy: Policy, saver: Any = None) -> Any:
    """A hand-written graph with an agent as a node, under one guard."""
    model = ScriptedModel(replies=["never"])
    builder = StateGraph(MessagesState)
    builder.add_node("worker", worker)
    builder.add_node("agent", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", lambda s: {"messages": []})
    builder.add_edge(START, "worker")
    builder.add_edge("worker", "agent")
    builder.add_edge("agent", END)
    builder.add_edge("tools", "agent")
    guarded = guard_graph(builder, policy, model="agent", tools="tools")
    return guarded.compile(checkpointer=saver)


def test_an_agent_as_a_node_stops_when_its_graphs_budget_is_out(way: Way) -> None:
    """The graph's budget spans the agents in its nodes."""
    graph = supervised(child(READS), limited(model_calls=3))

    state = way(graph, ask(), THREAD)

    report = last(state).response_metadata["loopguard_exit"]
    assert executed == ["read 0", "read 1", "read 2"]
    assert (report["agent"], report["budget"]) == ("agent", "model_calls")
    assert report["children"][0]["outer"] == "agent"


def test_what_an_agent_as_a_node_spent_before_it_was_interrupted_is_charged(
    way: Way,
) -> None:
    """It tells when it goes on, and the graph's budget is out by it."""
    inner = child([call("confirm", what="plan"), "done"], tools=[confirm])
    graph = supervised(inner, limited(model_calls=2), InMemorySaver())
    way(graph, ask(), THREAD)

    state = way(graph, Command(resume="yes"), THREAD)

    report = last(state).response_metadata["loopguard_exit"]
    assert report["usage"]["model_calls"] == 2
