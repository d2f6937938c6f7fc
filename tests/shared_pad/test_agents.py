"""Runs that know what other runs ruled out."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents.structured_output import ToolStrategy
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from loopguard_lg import AskUser
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.adapters.shared_store import Entry
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import WAYS, Way, ask, laddered, notes, same
from tests.shared_pad.agents import (
    ACME,
    LEARNED,
    NOON,
    Hung,
    Watched,
    agent,
    broken,
    looping,
    of_user,
    user,
)

SAID = 'ruled out in an earlier run: search(query="x") (3x: no results)'


def first_note(model: ScriptedModel) -> str:
    """What the guard said first."""
    return next(filter(None, notes(model)), "")


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way to run an agent."""
    return request.param


def other_loop() -> ScriptedModel:
    """A model that is caught in another loop."""
    return ScriptedModel(replies=[*[call("read", path="a")] * 3, "that is all"])


def test_a_run_knows_what_another_thread_ruled_out(way: Way) -> None:
    """Its first note lists what the other run learned."""
    store, second = InMemoryStore(), other_loop()
    way(agent(looping(), store), ask(), user("u", thread="1"))
    way(agent(second, store), ask(), user("u", thread="2"))

    assert SAID in first_note(second)


def test_a_run_does_not_know_what_another_tenant_ruled_out(way: Way) -> None:
    """Each user has a namespace of their own, made of the run's config."""
    store, stranger, same_user = InMemoryStore(), other_loop(), other_loop()
    shared = replace(ACME, namespace=of_user)
    way(agent(looping(), store, shared), ask(), user("ann"))
    way(agent(stranger, store, shared), ask(), user("bob"))
    way(agent(same_user, store, shared), ask(), user("ann"))

    assert SAID not in first_note(stranger)
    assert SAID in first_note(same_user)


@pytest.mark.parametrize("times", [3, 4, 9])
def test_what_is_ruled_out_is_kept_however_the_run_ends(times: int) -> None:
    """By its own answer after a note, after an escalation, or by the guard."""
    store = InMemoryStore()
    agent(looping(times), store).invoke(ask())

    assert ACME.read(store, ("acme",)) == [LEARNED]


def test_what_is_ruled_out_is_kept_when_the_answer_has_a_form() -> None:
    """A structured response is given by a call, but ends the run."""

    class Answer(BaseModel):
        text: str

    store = InMemoryStore()
    model = ScriptedModel(replies=[*same(3), call("Answer", text="nothing")])
    answering = agent(model, store, response_format=ToolStrategy(Answer))
    state = answering.invoke(ask())

    assert state["structured_response"] == Answer(text="nothing")
    assert ACME.read(store, ("acme",)) == [LEARNED]


def test_a_run_without_a_loop_keeps_nothing() -> None:
    """It reads once, and writes nothing."""
    store = Watched()
    agent(ScriptedModel(replies=["hello"]), store).invoke(ask())

    assert store.asked == ["search"]


def test_the_store_is_read_once_in_a_run(way: Way) -> None:
    """Later turns ask for nothing, but for what is kept and the tidying after it."""
    store = Watched()
    way(agent(looping(), store), ask(), user("u"))

    assert store.asked == ["search", "put", "search"]


def test_a_resumed_run_does_not_read_again() -> None:
    """It knows what it knew; the next word reads again."""
    store = Watched()
    model = ScriptedModel(replies=[*same(5), "found", "bye"])
    asking = agent(
        model, store, policy=laddered(end=AskUser()), checkpointer=InMemorySaver()
    )
    asking.invoke(ask(), user("u"))
    before = len(store.asked)
    asking.invoke(Command(resume="look elsewhere"), user("u"))
    resumed = len(store.asked)
    asking.invoke(ask("and now?"), user("u"))

    assert store.asked[before:resumed] == []
    assert store.asked[resumed:] == ["search"]


def test_what_others_learn_meanwhile_changes_no_note() -> None:
    """Within a run the notes are the same bytes, whatever happens in the store."""
    store = InMemoryStore()

    def reply(messages: Any) -> Any:
        ACME.write(store, ("acme",), [Entry(f"the other's {len(messages)}", "no")])
        return call("search", query="x")

    alone, meanwhile = looping(), ScriptedModel(default=reply)
    agent(alone, InMemoryStore()).invoke(ask())
    agent(meanwhile, store).invoke(ask())

    assert notes(alone) == notes(meanwhile)


def test_what_was_read_is_not_written_again() -> None:
    """An entry that nobody finds again expires, however often it is read."""
    store, later = InMemoryStore(), replace(ACME, clock=lambda: NOON + 60)
    ACME.write(store, ("acme",), [Entry("fact")])
    agent(looping(), store, later).invoke(ask())
    after = replace(ACME, clock=lambda: NOON + 90, ttl_seconds=90)

    assert after.read(store, ("acme",)) == [LEARNED]


@pytest.mark.parametrize(
    ("store", "said"),
    [(Watched(broken), "no route to the store"), (None, "made without a store")],
)
def test_a_store_that_fails_is_done_without(
    way: Way, store: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes the way it goes without a store, and the log says why."""
    plain, without = looping(), looping()
    end = way(agent(plain, None, shared=None), ask(), user("u"))

    with caplog.at_level(logging.WARNING, "loopguard_lg"):
        state = way(agent(without, store), ask(), user("u"))

    assert notes(without) == notes(plain)
    assert state["messages"][-1].text == end["messages"][-1].text
    assert said in caplog.text


def test_a_store_that_hangs_is_done_without_on_an_event_loop() -> None:
    """Its time is bounded."""
    shared = replace(ACME, timeout=0.01)
    state = asyncio.run(agent(looping(), Hung(), shared).ainvoke(ask()))

    assert "I stopped" in state["messages"][-1].text


@pytest.mark.parametrize("labels", [(), "acme", ("acme", ""), ("acme", 7), None])
def test_a_run_of_no_tenant_shares_nothing(
    labels: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A namespace that is not known is nobody's, never everybody's."""
    store = Watched()
    shared = replace(ACME, namespace=lambda config, context: labels)
    agent(looping(), store, shared).invoke(ask())

    assert store.asked == []
    assert "give labels" in caplog.text


def test_a_tenant_that_is_known_too_late_shares_nothing_yet() -> None:
    """The guard doesn't know what of the thread is this run's."""
    store, answers = Watched(), iter([(), ("acme",)])
    shared = replace(ACME, namespace=lambda config, context: next(answers))
    agent(ScriptedModel(replies=["hello"]), store, shared).invoke(ask())

    assert store.asked == []


def test_a_namespace_may_come_from_the_context() -> None:
    """What the app passes as `context=` says whose run it is."""
    store = InMemoryStore()
    shared = replace(ACME, namespace=lambda config, context: ("of", context["user"]))
    running = agent(looping(), store, shared, context_schema=dict)
    running.invoke(ask(), context={"user": "ann@example.org"})

    assert shared.read(store, ("of", "ann@example.org")) == [LEARNED]


def test_a_real_database_carries_it_over(postgres: str) -> None:
    """Through PostgreSQL, with the store of an event loop."""
    from langgraph.store.postgres.aio import AsyncPostgresStore

    second = other_loop()

    async def run() -> None:
        async with AsyncPostgresStore.from_conn_string(postgres) as store:
            await store.setup()
            await agent(looping(), store).ainvoke(ask(), user("u", thread="1"))
            await agent(second, store).ainvoke(ask(), user("u", thread="2"))

    asyncio.run(run())
    assert SAID in first_note(second)


@pytest.mark.parametrize(
    "wrong", [{"ttl_seconds": 0}, {"most": -1}, {"timeout": 0}, {"namespace": "acme"}]
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    """The message names it."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SharedScratchpad(**{"namespace": ("acme",), **wrong})
