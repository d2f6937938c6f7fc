from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.adapters.ledger import report_progress
from loopguard_lg.budgets import Price
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    guarded,
    last,
    notes,
    same,
)


def used(agent: Any) -> dict[str, float]:
    """What the guard counted for the run."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


def child(replies: list[Any], **settings: Any) -> Any:
    """An agent to run inside a tool."""
    model = ScriptedModel(replies=replies, loop=True)
    return create_agent(model, TOOLS, **settings)


def by_invoke(agent: Any) -> BaseTool:
    """A tool that runs an agent in one go."""

    @tool
    def delegate(task: str) -> str:
        """Let another agent do it."""
        return str(agent.invoke(ask(task))["messages"][-1].text)

    return delegate


def by_stream(agent: Any) -> BaseTool:
    """A tool that runs an agent as a stream."""

    @tool
    def delegate(task: str) -> str:
        """Let another agent do it."""
        parts = agent.stream(ask(task), stream_mode="messages")
        return "".join(chunk.text for chunk, _ in parts)

    return delegate


def by_await(agent: Any) -> BaseTool:
    """A tool that runs an agent on the event loop, or without one in one go."""

    def delegate(task: str) -> str:
        """Let another agent do it."""
        return str(agent.invoke(ask(task))["messages"][-1].text)

    async def adelegate(task: str) -> str:
        state = await agent.ainvoke(ask(task))
        return str(state["messages"][-1].text)

    return StructuredTool.from_function(delegate, adelegate)


FORMS = [by_invoke, by_stream, by_await]


@pytest.mark.parametrize("form", FORMS)
def test_agents_inside_tools_are_charged_once(
    form: Callable[[Any], BaseTool], way: Way
) -> None:
    """Their model calls and tokens are those of the parent, however they run."""
    delegate = form(child([call("read", path="a"), "done"]))
    model = ScriptedModel(replies=[call("delegate", task="a"), "found"], usage=False)
    agent = guarded(model, tools=[delegate], checkpointer=InMemorySaver())

    way(agent, ask(), THREAD)

    assert used(agent)["model_calls"] == 4
    assert used(agent)["output_tokens"] > 0


def test_parallel_children_are_charged_each_to_its_call(way: Way) -> None:
    """Two children at a time are two entries, not four."""
    delegate = by_await(child(["done"]))
    batch = [call("delegate", task=word) for word in "ab"]
    agent = guarded(
        ScriptedModel(replies=[batch, "found"]),
        tools=[delegate],
        checkpointer=InMemorySaver(),
    )

    way(agent, ask(), THREAD)

    assert used(agent)["model_calls"] == 4


def test_children_of_children_are_charged_once_at_every_level(way: Way) -> None:
    """A guarded child counts its own children, and its parent counts all of them."""
    grandchild = by_await(child(["deep"]))
    guard = LoopGuardMiddleware(Policy(budget=Budget(model_calls=3)))
    asks = ScriptedModel(replies=[call("delegate", task="b"), "done"], loop=True)
    middle = by_await(create_agent(asks, [grandchild], middleware=[guard]))
    model = ScriptedModel(replies=[call("delegate", task="a"), "found"])
    agent = guarded(model, tools=[middle], checkpointer=InMemorySaver())

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert used(agent)["model_calls"] == 5


def test_a_childs_calls_use_up_the_parents_budget() -> None:
    """The parent leaves when its children have spent what there was."""
    delegate = by_invoke(child([call("read", path="a"), "done"]))
    model = ScriptedModel(replies=[call("delegate", task="a"), "never"])

    state = guarded(
        model, Policy(budget=Budget(model_calls=3)), tools=[delegate]
    ).invoke(ask())

    assert state["loopguard_exit"]["budget"] == "model_calls"
    assert len(model.requests) == 1


def test_a_child_is_charged_at_the_price_of_its_model() -> None:
    """Dollars inside tools are dollars of the run."""
    inner = ScriptedModel(replies=["done"], model_name="inner")
    delegate = by_invoke(create_agent(inner, []))
    prices = {"inner": Price(input=0, output=1e6), "scripted": Price(input=0, output=0)}
    policy = Policy(budget=Budget(usd=0.5), prices=prices)
    model = ScriptedModel(replies=[call("delegate", task="a"), "never"])

    state = guarded(model, policy, tools=[delegate]).invoke(ask())

    assert state["loopguard_exit"]["budget"] == "usd"


def test_a_child_without_usage_is_estimated(way: Way) -> None:
    """A budget of tokens holds where a child's provider does not say."""
    silent = ScriptedModel(replies=["word " * 200], usage=False, loop=True)
    delegate = by_await(create_agent(silent, []))
    model = ScriptedModel(replies=[call("delegate", task="a"), "never"])
    policy = Policy(budget=Budget(total_tokens=200))

    state = way(guarded(model, policy, tools=[delegate]), ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == "total_tokens"


def test_a_child_guards_itself_only_where_it_is_given_the_guard() -> None:
    """A loop inside a bare child is one step of the parent; a guarded one ends it."""
    loop = [*same(6), "done"]
    bare = by_invoke(child(loop))
    inside = by_invoke(child(loop, middleware=[LoopGuardMiddleware()]))
    told = []
    for delegate in (bare, inside):
        model = ScriptedModel(replies=[call("delegate", task="a"), "found"])
        state = guarded(model, tools=[delegate]).invoke(ask())
        told.append(state["messages"][2].text)

    assert told[0] == "done"
    assert told[1].startswith("I stopped before the task was done")


@tool
def work(step: int) -> str:
    """Do a step that says nothing, but moves the task."""
    report_progress("one more")
    return "ok"


@tool
async def awork(step: int) -> str:
    """Do a step on the event loop that says nothing, but moves the task."""
    report_progress("one more")
    return "ok"


def test_progress_that_a_tool_reports_is_no_loop(way: Way) -> None:
    """The same call with the same result is work where the tool says so."""
    model = ScriptedModel(replies=[*[call("work", step=1)] * 6, "found"])

    way(guarded(model, tools=[work]), ask(), THREAD)

    assert set(notes(model)) == {""}


def test_progress_takes_the_ladder_down(way: Way) -> None:
    """After a report the next loop is reflected on or escalated, not the last rung."""
    replies = [*same(3), call("work", step=1), call("read", path="a"), "found"]
    model = ScriptedModel(replies=replies)
    agent = guarded(model, tools=[work, *TOOLS], checkpointer=InMemorySaver())

    way(agent, ask(), THREAD)

    ladder = agent.get_state(THREAD).values["loopguard"]["ladder"]
    assert ladder["rung"] == 0
    assert ladder["count"] == 1


def test_progress_is_reported_from_the_event_loop_too() -> None:
    """A coroutine reports as a function does."""
    model = ScriptedModel(replies=[*[call("awork", step=1)] * 6, "found"])

    asyncio.run(guarded(model, tools=[awork]).ainvoke(ask()))

    assert set(notes(model)) == {""}


def test_progress_outside_a_guarded_call_is_nothing() -> None:
    """A tool that reports works without the guard."""
    assert work.invoke({"step": 1}) == "ok"
