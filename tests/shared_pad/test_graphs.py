"""Runs of a guarded graph that know what other runs ruled out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from loopguard_lg import guard_graph
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import WAYS, Way, ask, notes
from tests.shared_pad.agents import ACME, LEARNED, Watched, agent, broken, looping, user

SAID = 'ruled out in an earlier run: search(query="x") (3x: no results)'


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way to run a graph."""
    return request.param


def graph(model: ScriptedModel, store: Any, shared: SharedScratchpad = ACME) -> Any:
    """The usual graph, which shares what it rules out."""
    builder = graphs.react(model)
    built = guard_graph(builder, model="agent", tools="tools", shared=shared)
    return built.compile(store=store)


def other_loop() -> ScriptedModel:
    """A model that is caught in another loop."""
    return ScriptedModel(replies=[*[call("read", path="a")] * 3, "that is all"])


def test_a_graph_knows_what_another_thread_ruled_out(way: Way) -> None:
    """Its first note lists what the other run learned."""
    store, second = InMemoryStore(), other_loop()
    way(graph(looping(), store), ask(), user("u", thread="1"))
    way(graph(second, store), ask(), user("u", thread="2"))

    assert SAID in next(filter(None, notes(second)))


@pytest.mark.parametrize("times", [3, 4, 9])
def test_what_a_graph_ruled_out_is_kept_however_it_ends(times: int) -> None:
    """By its own answer after a note, after an escalation, or by the guard."""
    store = InMemoryStore()
    graph(looping(times), store).invoke(ask(), user("u"))

    assert ACME.read(store, ("acme",)) == [LEARNED]


def test_graphs_and_agents_share_one_scratchpad() -> None:
    """What an agent rules out, a graph knows."""
    store, second = InMemoryStore(), other_loop()
    agent(looping(), store).invoke(ask(), user("u", thread="1"))
    graph(second, store).invoke(ask(), user("u", thread="2"))

    assert SAID in next(filter(None, notes(second)))


def test_a_graph_does_without_a_store_that_fails(way: Way) -> None:
    """The run goes on as without one; so it does where there is none."""
    for store in (Watched(broken), None):
        state = way(graph(looping(3, "found"), store), ask(), user("u"))

        assert state["messages"][-1].text == "found"


def test_other_tenants_stay_apart_in_graphs() -> None:
    """A namespace of its own for each."""
    store, stranger = InMemoryStore(), other_loop()
    graph(looping(), store).invoke(ask(), user("u", thread="1"))
    bob = replace(ACME, namespace=("bob",))
    graph(stranger, store, bob).invoke(ask(), user("u", thread="2"))

    assert SAID not in next(filter(None, notes(stranger)))
