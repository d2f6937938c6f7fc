from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from loopguard_lg import Budget, GiveUp, Ladder, Policy, Reflect, Repeat
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.memory import fresh
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded,
    last,
    notes,
    results,
    same,
)


def stored(agent: Any) -> dict[str, Any]:
    """The guard's channel."""
    channel: dict[str, Any] = agent.get_state(THREAD).values["loopguard"]
    return channel


@tool
async def slow(what: str) -> str:
    """Say that it began, and wait to be cancelled."""
    executed.append(f"slow {what}")
    began.set()
    await asyncio.Event().wait()
    return "never"


began = asyncio.Event()


@tool
def boom(what: str) -> str:
    """Fail."""
    raise RuntimeError("the lights went out")


def test_a_run_cancelled_in_a_batch_leaves_a_thread_to_go_on() -> None:
    """Calls without results are answered in the next run's requests."""
    batch = [call("read", path="a"), call("slow", what="b"), call("read", path="c")]
    model = ScriptedModel(replies=[batch, *same(3), "found"])
    agent = guarded(model, tools=[slow, *TOOLS], checkpointer=InMemorySaver())

    async def cancelled() -> None:
        began.clear()
        run = asyncio.create_task(agent.ainvoke(ask(), THREAD))
        await began.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    asyncio.run(cancelled())
    state = agent.invoke(ask("again"), THREAD)

    assert last(state).text == "found"
    assert "cancelled before it ended" in model.requests[1].text
    assert "3 times" in notes(model)[4]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_in_a_batch_leaves_a_thread_to_go_on(place: int, way: Way) -> None:
    """Wherever the call stands that raised, the next run is whole."""
    batch = [call("read", path="a"), call("read", path="c")]
    batch.insert(place, call("boom", what="b"))
    model = ScriptedModel(replies=[batch, "found"])
    agent = guarded(model, tools=[boom, *TOOLS], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="lights went out"):
        way(agent, ask(), THREAD)

    assert last(way(agent, ask("again"), THREAD)).text == "found"


STRICT = """
from langgraph.checkpoint.memory import InMemorySaver
from tests.middleware.runs import THREAD, ask, guarded, last, loops_until

agent = guarded(
    loops_until("hi", "hello"), checkpointer=InMemorySaver()
)
agent.invoke(ask(), THREAD)
state = agent.get_state(THREAD).values
assert type(state["loopguard"]) is dict and state["loopguard"]["used"]["run"]
report = state["messages"][-1].response_metadata["loopguard_exit"]
assert report["reason"] == state["loopguard_exit"]["reason"] == "loop"
assert last(agent.invoke(ask("hi"), THREAD)).text == "hello"
"""


def test_the_strict_serializer_needs_no_registration() -> None:
    """Channel and report are plain data, also where other types are refused."""
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STRICT],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "unregistered" not in done.stderr + done.stdout


def test_the_channel_is_the_same_after_the_serializer(way: Way) -> None:
    """What is stored is what comes back."""
    agent = guarded(ScriptedModel(replies=same(20)), checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)
    serde = JsonPlusSerializer(allowed_msgpack_modules=[])

    assert serde.loads_typed(serde.dumps_typed(stored(agent))) == stored(agent)


def test_an_observer_that_raises_breaks_nothing(way: Way, caplog: Any) -> None:
    """The run is the same, and the fault is logged."""

    def broken(event: Any) -> None:
        raise ZeroDivisionError(event.name)

    model = ScriptedModel(replies=same(20))

    state = way(guarded(model, observers=[broken]), ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert "an observer failed" in caplog.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    kind: ClassVar[str] = "broken"
    shadow: bool = False

    def observe(self, history: Any) -> None:
        """Fail."""
        raise KeyError("no such turn")


def test_a_detector_that_raises_breaks_nothing(way: Way) -> None:
    """It has no vote; the others still see the loop, and the fault is counted."""
    policy = Policy(detectors=(Broken(), *DEFAULTS))
    agent = guarded(
        ScriptedModel(replies=same(20)), policy, checkpointer=InMemorySaver()
    )

    state = way(agent, ask(), THREAD)

    assert state["loopguard_exit"]["kind"] == "repeat"
    assert stored(agent)["faults"]["broken"] >= 4


def nested(*keys: str) -> Any:
    """A channel with a broken value deep inside."""
    broken: Any = fresh()
    part = broken
    for key in keys[:-1]:
        part = part.setdefault(key, {})
    part[keys[-1]] = [float("nan"), "nonsense"]
    return broken


CHANNELS = [
    "nonsense",
    17,
    ["a"],
    {"version": 99, "used": {"run": {"steps": 1}}, "new": True},
    {"version": 1},
    {"version": 1, "used": {}},
    nested("history", "rows"),
    nested("ladder", "rung"),
    nested("ladder", "at"),
    nested("host", "open"),
    nested("host", "good"),
    nested("host", "hidden"),
    nested("host", "due"),
    nested("pad", "tried"),
    nested("used", "run"),
    nested("host", "step"),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: str(c)[:60])
def test_a_broken_channel_costs_what_was_remembered_not_the_run(channel: Any) -> None:
    """Whatever is stored there, the run goes on and its loop is caught."""
    model = ScriptedModel(replies=["hello", *same(20)])
    agent = guarded(model, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    agent.update_state(THREAD, {"loopguard": channel}, as_node="model")

    state = agent.invoke(ask("again"), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 8


def test_budgets_hold_over_a_newer_channel() -> None:
    """The counts of an unknown version are kept: budgets fail closed."""
    model = ScriptedModel(replies=["hello", "never"])
    policy = Policy(budget=Budget(steps=3, scope="thread"))
    agent = guarded(model, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    newer = {"version": 99, "used": {"run": {}, "thread": {"steps": 3}}}
    agent.update_state(THREAD, {"loopguard": newer}, as_node="model")

    state = agent.invoke(ask("again"), THREAD)

    assert state["loopguard_exit"]["budget"] == "steps"


ODD = [
    [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}],
    [{"type": "image", "base64": "AAAA", "mime_type": "image/png"}],
    "\ud800 lone surrogate",
    "nul \x00 and \x1b escape",
    "",
    {"nan": float("nan"), "inf": float("inf")},
    float("nan"),
    b"\xff\xfe",
    None,
    "x" * 10_000_000,
]


@pytest.mark.parametrize("result", ODD, ids=lambda r: repr(r)[:30])
def test_results_that_are_no_plain_text_are_seen(result: Any, way: Way) -> None:
    """Whatever a tool returns, its repeats are a loop like any other."""

    @tool
    def odd(query: str) -> Any:
        """Return something odd."""
        executed.append(query)
        return result

    model = ScriptedModel(default=call("odd", query="x"))

    state = way(guarded(model, tools=[odd]), ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 6
    assert len(state["loopguard_exit"]["detail"]) < 400


ARGS: list[dict[str, Any]] = [
    {"value": float("nan")},
    {"value": "\ud800"},
    {"value": "x" * 10_000_000},
    {"value": {"a": [1, {"b": [2, None]}]}},
    {"value": [[]]},
    {"value": 10**400},
]


@pytest.mark.parametrize("args", ARGS, ids=lambda a: repr(a)[:30])
def test_arguments_of_any_kind_are_compared(args: dict[str, Any]) -> None:
    """Odd arguments are the same call when they are the same."""

    @tool
    def take(value: Any) -> str:
        """Take anything."""
        executed.append("take")
        return "nothing"

    model = ScriptedModel(default=call("take", **args))

    state = guarded(model, tools=[take]).invoke(ask())

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 6


def test_the_memory_of_the_guard_stays_small_whatever_tools_return() -> None:
    """Megabytes in results and arguments are a few kilobytes in the channel."""

    @tool
    def huge(text: str) -> str:
        """Return a lot."""
        return text + "y" * 1_000_000

    calls = [call("huge", text=str(n) * 1_000_000) for n in range(5)]
    model = ScriptedModel(replies=[*calls, "done"])
    agent = guarded(model, tools=[huge], checkpointer=InMemorySaver())

    agent.invoke(ask(), THREAD)

    _, data = JsonPlusSerializer().dumps_typed(stored(agent))
    assert len(data) < 16_000


def test_a_thread_may_come_from_a_longer_ladder() -> None:
    """A policy that was shortened while a run was waiting goes on."""
    saver = InMemorySaver()
    first = guarded(ScriptedModel(replies=same(4)), checkpointer=saver)
    first.update_state(THREAD, ask(), as_node="__start__")
    with pytest.raises(AssertionError, match="ran dry"):
        first.invoke(None, THREAD)
    short = Policy(ladder=Ladder(Reflect(), GiveUp()), detectors=(Repeat(),))
    second = guarded(ScriptedModel(replies=same(20)), short, checkpointer=saver)

    assert second.invoke(None, THREAD)["loopguard_exit"]["reason"] == "loop"


def test_a_bare_agent_reads_the_thread_of_a_guarded_one() -> None:
    """The guard can be taken away again."""
    saver = InMemorySaver()
    old = guarded(ScriptedModel(replies=same(20)), checkpointer=saver)
    before = results(old.invoke(ask(), THREAD)["messages"])
    bare = create_agent(ScriptedModel(replies=["hello"]), TOOLS, checkpointer=saver)

    state = bare.invoke(ask("hi"), THREAD)

    assert last(state).text == "hello"
    assert results(state["messages"]) == before
