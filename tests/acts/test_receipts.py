from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.prebuilt import ToolNode

from loopguard_lg import Escalate, GiveUp, Ladder, Policy, ToolPolicy
from loopguard_lg.acts import cache, polling, receipts, state as acts
from loopguard_lg.acts.calls import Made
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded,
    last,
    results,
)

failing: dict[str, int] = {}
"""How often a call fails yet before it works, by its receiver."""

keys: list[str] = []
"""Idempotency keys that the tool was given."""


@tool
def send(to: str, key: str = "") -> str:
    """Send a letter."""
    keys.append(key)
    if failing.get(to, 0):
        failing[to] -= 1
        return f"Error: the letter to {to} could not be sent"
    executed.append(f"send {to}")
    return f"receipt for {to}"


ONCE = Policy(tools={"send": ToolPolicy(role="write", once=True)}, detectors=[])
ANN, BOB = call("send", to="Ann"), call("send", to="Bob")
WITH_SEND = [*TOOLS, send]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    failing.clear()
    keys.clear()


def scripted(*replies: Any) -> ScriptedModel:
    """A model that says this, and then that it is done."""
    return ScriptedModel(replies=[*replies, "done"])


def run(way: Way, *replies: Any, policy: Policy = ONCE) -> dict[str, Any]:
    """A run of an agent that sends letters."""
    agent = guarded(scripted(*replies), policy, tools=WITH_SEND)
    return way(agent, ask(), THREAD)


def unsure() -> ScriptedModel:
    """A model that sends a letter until it hears that it was sent."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "sent" if "Done before" in messages[-1].text else ANN

    return ScriptedModel(default=reply)


def test_a_receipt_gets_an_agent_on(way: Way) -> None:
    """A write that has worked is not done again; the agent is told and goes on."""
    policy = Policy(tools=ONCE.tools)
    state = way(guarded(unsure(), policy, tools=WITH_SEND), ask(), THREAD)

    assert last(state).text == "sent"
    assert executed == ["send Ann"]
    assert results(state["messages"])[-1].text.startswith("receipt for Ann\n")


def test_without_receipts_the_agent_sends_on() -> None:
    """The same agent sends until the guard ends it."""
    state = guarded(unsure(), tools=WITH_SEND).invoke(ask(), THREAD)

    assert "I stopped" in last(state).text
    assert len(executed) > 2


def test_the_tool_node_of_a_graph_sends_once_too(way: Way) -> None:
    """One mechanism serves middleware and graphs, twins in a batch included."""
    model = scripted([ANN, BOB, ANN], BOB)
    builder = graphs.react(model, tools=ToolNode(WITH_SEND))
    graphs.run(way, graphs.guarded(builder, ONCE))

    assert sorted(executed) == ["send Ann", "send Bob"]


def test_the_same_call_twice_in_a_batch_is_made_once(way: Way) -> None:
    """The second one points at the first."""
    state = run(way, [ANN, ANN])

    assert executed == ["send Ann"]
    assert "stands before it" in results(state["messages"])[1].text


def test_other_arguments_are_another_call(way: Way) -> None:
    """Nothing is lost: each letter is sent."""
    run(way, ANN, BOB, [ANN, call("send", to="Cid")])

    assert executed == ["send Ann", "send Bob", "send Cid"]


def test_a_failed_write_may_be_tried_again(way: Way) -> None:
    """Only a call that has worked has a receipt."""
    failing["Ann"] = 1
    run(way, [ANN, ANN], ANN, ANN)

    assert executed == ["send Ann"]


def test_a_new_word_may_ask_for_the_same_again(way: Way) -> None:
    """At most once holds for what a person asked for."""
    model = ScriptedModel(replies=[ANN, "done", ANN, "done"])
    agent = guarded(model, ONCE, tools=WITH_SEND, checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)
    way(agent, ask("once more"), THREAD)

    assert executed == ["send Ann"] * 2


def test_another_write_to_the_file_voids_its_receipt() -> None:
    """Put, changed, put again: the second put is needed."""
    policy = Policy(tools={"write": ToolPolicy(once=True)}, detectors=[])
    first, other = call("write", path="a", text="1"), call("write", path="a", text="2")
    guarded(scripted(first, first, other, first), policy).invoke(ask(), THREAD)

    assert executed == ["write a"] * 3


def test_a_resumed_run_keeps_its_receipts() -> None:
    """They are in the checkpoint, not in the process."""
    saver = InMemorySaver()
    model = scripted(ANN, BOB, ANN, BOB)
    for _ in range(12):
        agent = guarded(
            model, ONCE, tools=WITH_SEND, checkpointer=saver, interrupt_before=["tools"]
        )
        state = agent.invoke(None if model.requests else ask(), THREAD)

    assert last(state).text == "done"
    assert executed == ["send Ann", "send Bob"]


def test_a_rollback_keeps_receipts(way: Way) -> None:
    """What is out of the model's view was done all the same."""

    def reply(messages: list[BaseMessage]) -> Any:
        rolled_back = any("left out" in m.text for m in messages)
        sent = any("receipt for Ann" in m.text for m in messages[1:])
        if rolled_back:
            return "done" if sent else ANN
        return call("search", query="x") if sent else ANN

    ladder = Ladder(Escalate(), GiveUp())
    policy = Policy(ladder=ladder, tools=ONCE.tools)
    model = ScriptedModel(default=reply)
    state = way(guarded(model, policy, tools=WITH_SEND), ask(), THREAD)

    assert executed.count("send Ann") == 1
    assert last(state).text == "done"


def test_an_idempotency_key_is_the_same_for_every_try(way: Way) -> None:
    """It is made of the thread, the person's word and the call; the model's is not."""
    failing["Ann"] = 2
    policy = Policy(
        tools={"send": ToolPolicy(once=True, idempotency_key="key")}, detectors=[]
    )
    own = call("send", to="Ann", key="made-up")
    run(way, ANN, own, ANN, own, BOB, policy=policy)

    assert executed == ["send Ann", "send Bob"]
    assert len(keys) == 4
    assert len(set(keys)) == 2
    assert all(len(key) == 16 for key in keys)


def test_a_graph_fills_in_the_key_and_keeps_the_reply() -> None:
    """The state has the call as the model made it."""
    policy = Policy(tools={"send": ToolPolicy(idempotency_key="key")})
    builder = graphs.react(scripted(ANN), tools=ToolNode(WITH_SEND))
    state = graphs.guarded(builder, policy).invoke(ask(), THREAD)

    assert len(keys[0]) == 16
    assert state["messages"][1].tool_calls[0]["args"] == {"to": "Ann"}


SENDS = ToolPolicy(role="write", once=True)


def test_what_the_acts_remember_is_bounded() -> None:
    """At most 1.2 KB, however much is read and written."""
    memory: dict[str, Any] = {}
    for n in range(300):
        digest = 2**32 - 1 - n
        policy = SENDS if n > 100 else ToolPolicy(cache=True)
        one = Made(
            policy=policy,
            digest=digest,
            place=digest,
            role="write" if n > 100 else "read",
            executed=True,
            worked=True,
            message="0" * 36,
        )
        memory = acts.after(memory, [one])
        memory["cache"] = memory.get("cache") or [digest, "0" * 36, digest] * 8

    memory["polls"] = [2**32 - 1, 10_000, 12345.678] * polling.ENTRIES
    memory["lost"] = [2**32 - 1] * receipts.LOST

    assert len(memory["done"]) == 2 * receipts.ENTRIES
    assert len(memory["cache"]) == 3 * cache.ENTRIES
    assert len(JsonPlusSerializer().dumps_typed(memory)[1]) < 1_200
