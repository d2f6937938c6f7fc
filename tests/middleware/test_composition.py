from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Turn
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    last,
    loops_until,
    notes,
    results,
    same,
)


@tool
def flaky(what: str) -> str:
    """Fail on every first try of a thing."""
    executed.append(what)
    if executed.count(what) < 2:
        raise ConnectionError("reset")
    return f"got {what}, at last {what}"


@tool
def boom(what: str) -> str:
    """Fail always in the same way."""
    executed.append(what)
    raise ValueError("the disk is full")


def placed(
    model: Any, place: str, others: list[Any], policy: Any = None, **settings: Any
) -> Any:
    """An agent with the guard first or last in its list of middlewares."""
    guard = LoopGuardMiddleware(policy, observers=settings.pop("observers", ()))
    listed = [guard, *others] if place == "first" else [*others, guard]
    tools = [*TOOLS, flaky, boom]
    return create_agent(
        model, tools, middleware=listed, checkpointer=InMemorySaver(), **settings
    )


def used(agent: Any) -> dict[str, float]:
    """What the guard counted for the run."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


@pytest.fixture(params=["first", "last"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the guard stands."""
    where: str = request.param
    return where


def test_a_retried_tool_counts_once(place: str, way: Way) -> None:
    """Tries behind one call are one step, on either side of the guard."""
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    model = ScriptedModel(replies=[call("flaky", what="a"), "found"])
    agent = placed(model, place, [retry])

    state = way(agent, ask(), THREAD)

    assert executed == ["a", "a"]
    assert used(agent)["tool_calls"] == 1
    assert results(state["messages"])[0].status == "success"


def test_a_retried_model_call_counts_once(place: str, way: Way) -> None:
    """Tries behind one reply are one model call, and one decision."""
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    model = ScriptedModel(replies=[*same(3), ConnectionError("reset"), "found"])
    agent = placed(model, place, [retry])

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert used(agent)["model_calls"] == 4
    assert "3 times" in notes(model)[4]


def test_a_fallback_model_counts_once(place: str, way: Way) -> None:
    """The reply of the model that stepped in is one model call."""
    spare = ScriptedModel(replies=["found"], model_name="spare")
    model = ScriptedModel(replies=[*same(1), ConnectionError("down")])
    agent = placed(model, place, [ModelFallbackMiddleware(spare)])

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert used(agent)["model_calls"] == 2


def test_a_call_limit_answers_beside_the_guard(place: str, way: Way) -> None:
    """Calls that another middleware refuses are seen as failed, the history valid."""
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="continue")
    batch = [call("read", path="a"), call("read", path="b")]
    model = ScriptedModel(replies=[batch, "found"])
    agent = placed(model, place, [limit])

    state = way(agent, ask(), THREAD)

    assert executed == ["read a"]
    assert last(state).text == "found"


def test_a_call_limit_that_ends_the_run_leaves_a_thread_to_go_on(
    place: str, way: Way
) -> None:
    """The next run's history is valid, and its loop is caught."""
    limit = ToolCallLimitMiddleware(run_limit=4, exit_behavior="end")
    batch = [call("read", path=word) for word in "abcde"]
    model = ScriptedModel(replies=[batch, *same(3), "found"])
    agent = placed(model, place, [limit])
    way(agent, ask(), THREAD)

    state = way(agent, ask("again"), THREAD)

    assert last(state).text == "found"
    assert "3 times" in notes(model)[4]


def test_the_built_in_model_limit_may_end_the_run(place: str) -> None:
    """Another middleware's end of the run leaves nothing open."""
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    model = ScriptedModel(replies=[*same(2), "hello"])
    agent = placed(model, place, [limit])
    agent.invoke(ask(), THREAD)

    assert last(agent.invoke(ask("hi"), THREAD)).text == "hello"


def test_a_raised_error_is_raised_by_default(place: str, way: Way) -> None:
    """The guard takes no error out of the hands of the app."""
    agent = placed(ScriptedModel(replies=[call("boom", what="a")]), place, [])

    with pytest.raises(ValueError, match="the disk is full"):
        way(agent, ask(), THREAD)


def test_errors_that_another_middleware_returned_are_failed_steps(
    place: str, way: Way
) -> None:
    """The same error from different calls is a loop, whoever made it a result."""
    told = ToolErrorMiddleware(lambda error, request: f"failed: {error}")
    wrong = [call("boom", what=word) for word in "abcd"]
    model = ScriptedModel(replies=[*wrong, "found"])
    seen: list[GuardEvent] = []
    agent = placed(model, place, [told], observers=[seen.append])

    state = way(agent, ask(), THREAD)

    turns = [e.event for e in seen if isinstance(e.event, Turn) and e.name == "seen"]
    assert [turn.steps[0].error for turn in turns if turn.steps] == [True] * 4
    assert "same error" in notes(model)[4]
    assert last(state).text == "found"


def test_errors_can_be_returned_by_policy(way: Way) -> None:
    """With `tool_errors="return"` the model reads what went wrong."""
    model = ScriptedModel(replies=[call("boom", what="a"), "found"])
    agent = placed(model, "first", [], Policy(tool_errors="return"))

    state = way(agent, ask(), THREAD)

    told = results(state["messages"])[0]
    assert told.status == "error"
    assert "ValueError: the disk is full" in told.text


def test_two_guards_of_one_agent_count_apart(way: Way) -> None:
    """Each keeps its own memory under its own name, and both budgets hold."""
    outer = LoopGuardMiddleware(Policy(budget=Budget(steps=9)), name="outer")
    inner = LoopGuardMiddleware(Policy(budget=Budget(steps=4)))
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(9)])
    agent = create_agent(
        model, TOOLS, middleware=[outer, inner], checkpointer=InMemorySaver()
    )

    state = way(agent, ask(), THREAD)

    assert state["loopguard_exit"]["usage"]["steps"] == 4
    assert len(model.requests) == 4


def test_two_guards_clear_the_report_of_the_last_run() -> None:
    """The next run starts without the report, whichever guard made it."""
    guards = [LoopGuardMiddleware(name=name) for name in ("outer", "inner")]
    model = loops_until("hi", "hello")
    agent = create_agent(model, TOOLS, middleware=guards, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(ask("hi"), THREAD)

    assert last(state).text == "hello"
    assert state["loopguard_exit"] is None


def test_todos_of_the_built_in_middleware_work(place: str, way: Way) -> None:
    """Commands of other middlewares' tools are kept whole."""
    todos = [{"content": "look", "status": "pending"}]
    model = ScriptedModel(replies=[call("write_todos", todos=todos), "found"])
    agent = placed(model, place, [TodoListMiddleware()])

    assert way(agent, ask(), THREAD)["todos"] == todos


def test_observers_hear_of_a_retried_model_call_once(place: str, way: Way) -> None:
    """What was seen before the call is told when the call has succeeded."""
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    broken = [ConnectionError("reset")] * 2
    model = ScriptedModel(replies=[*same(3), *broken, "found"])
    seen: list[GuardEvent] = []
    agent = placed(model, place, [retry], observers=[seen.append])

    way(agent, ask(), THREAD)

    heard = [type(e.event).__name__ for e in seen if e.name == "seen"]
    assert heard == ["Human", *["Turn"] * 4]
    assert [e.name for e in seen].count("reflected") == 1


def test_a_call_that_one_guard_held_is_held_for_the_other_too(way: Way) -> None:
    """What the inner guard noted of a result is not written over by the outer one."""
    outer = LoopGuardMiddleware(Policy(detectors=()), name="outer")
    inner = LoopGuardMiddleware(Policy(budget=Budget(per_tool={"search": 1})))
    model = ScriptedModel(replies=[*same(2), "found"])
    agent = create_agent(
        model, TOOLS, middleware=[outer, inner], checkpointer=InMemorySaver()
    )

    way(agent, ask(), THREAD)

    seen = agent.get_state(THREAD).values["loopguard_outer"]["used"]["run"]
    assert executed == ["search x"]
    assert seen["tool_calls"] == 1
