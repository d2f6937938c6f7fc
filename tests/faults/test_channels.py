"""Whatever stands in the guard's channel, the run goes on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, Policy, decide, memory as memories
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded as guarded_graph, react
from tests.middleware.runs import THREAD, ask, guarded, laddered, last

Host = Any
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def agent(model: ScriptedModel, policy: Policy) -> Any:
    """An agent with the middleware."""
    return guarded(model, policy, checkpointer=InMemorySaver())


def graph(model: ScriptedModel, policy: Policy) -> Any:
    """A graph by hand."""
    return guarded_graph(react(model), policy, checkpointer=InMemorySaver())


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value inside plain data."""
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else pairs:
        yield from spots(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at one place."""
    if not path:
        return new
    out = copy.copy(value)
    out[path[0]] = put(value[path[0]], path[1:], new)
    return out


def wandering() -> ScriptedModel:
    """A model that goes in circles."""
    return ScriptedModel(default=call("search", query="x"))


def begun(host: Host, model: ScriptedModel) -> Any:
    """A run that has gone in circles for a while, and was cut off then."""
    made = host(model, laddered(ScriptedModel(default=call("search", query="x"))))
    config = {**THREAD, "recursion_limit": 11}
    made.invoke(ask(), config)
    return made


@settings(max_examples=30)
@pytest.mark.parametrize("host", [agent, graph])
@given(garbage=JSON, data=st.data())
def test_garbage_anywhere_in_the_channel_costs_no_run(
    host: Host, garbage: Any, data: st.DataObject
) -> None:
    """The next run is judged, and ends; what can be trusted is kept."""
    made = begun(host, wandering())
    channel = made.get_state(THREAD).values["loopguard"]
    path = data.draw(st.sampled_from([*spots(channel)]))
    node = "model" if host is agent else "tools"
    broken = put(channel, path, garbage)
    made.update_state(THREAD, {"loopguard": broken}, as_node=node)

    state = made.invoke(ask("again"), {**THREAD, "recursion_limit": 200})

    assert state["loopguard_exit"]["reason"] in ("loop", "budget")


@pytest.mark.parametrize("host", [agent, graph])
def test_two_versions_of_the_library_share_a_thread(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of two versions take turns, and the thread's budget holds for both."""
    model = ScriptedModel(default=lambda sent: call("read", path=str(len(sent))))
    policy = Policy(budget=(Budget(steps=2), Budget(steps=7, scope="thread")))
    made = host(model, policy)
    for version in (1, 2, 1, 2, 1, 2):
        monkeypatch.setattr(memories, "VERSION", version)
        state = made.invoke(ask(), THREAD)
        assert last(state).response_metadata["loopguard_exit"]["budget"] == "steps"

    used = made.get_state(THREAD).values["loopguard"]["used"]
    assert used["thread"]["steps"] == 7


def test_a_channel_of_an_older_version_keeps_its_counts() -> None:
    """What is not known of an old format starts afresh; budgets do not."""
    made = agent(ScriptedModel(default="x"), Policy(budget=Budget(steps=3)))
    older = {"version": 0, "used": {"run": {"steps": 3}, "thread": {"steps": 3}}}

    made.update_state(THREAD, {"loopguard": older}, as_node="model")

    channel = memories.load(made.get_state(THREAD).values["loopguard"])
    assert channel["used"]["thread"]["steps"] == 3


EARLY = sorted(Path(__file__).with_name("channels").glob("*.json"))
"""Channels as early versions wrote them, after seven calls and an escalation."""


@pytest.mark.parametrize("host", [agent, graph])
@pytest.mark.parametrize("file", EARLY, ids=lambda file: file.stem)
def test_a_channel_that_an_early_version_wrote_is_gone_on_with(
    file: Path, host: Host
) -> None:
    """Its counts and its scratchpad hold, and the next loop is caught in time."""
    made = host(wandering(), laddered())
    node = "model" if host is agent else "tools"
    older = json.loads(file.read_text())
    made.update_state(THREAD, {"loopguard": older}, as_node=node)

    state = made.invoke(ask(), THREAD)

    now = made.get_state(THREAD).values["loopguard"]
    assert state["loopguard_exit"]["reason"] == "loop"
    assert 7 + 3 <= now["used"]["thread"]["steps"] <= 7 + 8
    assert 'write(path=\\"c.py\\"' in json.dumps(now["pad"])


def test_a_history_that_is_lost_does_not_hide_the_next_loop() -> None:
    """An intervention is of turns that nobody knows any more: they begin again."""
    memory = {**memories.fresh(), "history": {"i": 5_000, "rows": "garbage"}}
    memory["ladder"] = {
        "rung": 1,
        "key": 7,
        "kind": "repeat",
        "detail": "",
        "at": 5_000,
    }
    step = Step(tool="search", args={"query": "x"}, result="no results")
    actions = []
    for _ in range(5):
        verdict, memory = decide(Policy(), memory, Turn(steps=(step,)))
        actions.append(verdict.action)

    assert actions[2:] == ["escalate", "continue", "exit"]
