"""Real servers that go away while a run is under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.fleet import Fleet
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.faults.proxy import Proxy, in_front_of
from tests.middleware.runs import THREAD, TOOLS, ask, last
from tests.servers.test_fleet_runs import CALLS, NOW, of
from tests.shared_pad.agents import ACME, agent as sharing, looping

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    """A proxy in front of PostgreSQL."""
    known = psycopg.conninfo.conninfo_to_dict(database)
    with in_front_of(f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}") as made:
        yield made


@pytest.fixture
def address(database: str, proxy: Proxy) -> str:
    """The address of the database behind the proxy."""
    made: str = psycopg.conninfo.make_conninfo(
        database, host="127.0.0.1", port=proxy.port
    )
    return made


@pytest.fixture(params=["postgres", "redis"])
def ledger(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Proxy]]:
    """A ledger behind a proxy, and that."""
    if request.param == "postgres":
        from loopguard_lg.fleet.postgres import PostgresLedger

        proxy = request.getfixturevalue("proxy")
        made: Any = PostgresLedger(request.getfixturevalue("address"), timeout=0.5)
        yield made, proxy
        made.close()
        return
    from loopguard_lg.fleet.redis import RedisLedger

    socket = request.getfixturevalue("redis_url").removeprefix("unix://")
    with in_front_of(socket) as proxy:
        made = RedisLedger(
            f"redis://127.0.0.1:{proxy.port}", timeout=0.5, prefix=f"{proxy.port}:"
        )
        yield made, proxy
        made.close()


def drawing(ledger: Any, *replies: Any, **settings: Any) -> Any:
    """An agent that draws from a ledger."""
    guard = LoopGuardMiddleware(
        fleet=Fleet(ledger, CALLS, clock=lambda: NOW, **settings)
    )
    return create_agent(ScriptedModel(replies=replies), TOOLS, middleware=[guard])


@pytest.mark.parametrize("fault", ["cut", "hung"])
def test_a_ledger_that_goes_away_ends_runs_until_it_is_back(
    ledger: tuple[Any, Proxy], fault: str
) -> None:
    """Fleet budgets fail closed, within their time-out, and count again afterwards."""
    made, proxy = ledger

    def goes_away(_: Any) -> Any:
        proxy.cut() if fault == "cut" else setattr(proxy, "hung", True)
        return call("read", path="a")

    agent = drawing(made, "well", goes_away, "found")
    assert last(agent.invoke(ask(), of())).text == "well"
    report = last(agent.invoke(ask(), of())).response_metadata["loopguard_exit"]
    assert report["budget"] == "fleet:unreachable"
    proxy.mend()

    assert last(agent.invoke(ask(), of())).text == "found"


def test_a_ledger_that_goes_away_lets_runs_go_on_if_told_so(
    ledger: tuple[Any, Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    """`when_down="open"`: uncounted, and said in the log."""
    made, proxy = ledger
    proxy.cut()

    state = drawing(made, "found", when_down="open").invoke(ask(), of())

    assert last(state).text == "found"
    assert "ledger failed" in caplog.text


def test_a_store_that_goes_away_costs_what_others_learned(
    address: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """The shared scratchpad is left out, and the loop is caught."""
    with PostgresStore.from_conn_string(address) as store:
        store.setup()
        proxy.cut()
        state = sharing(looping(30), store).invoke(ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert "shared scratchpad is left out" in caplog.text


def test_a_checkpointer_that_goes_away_leaves_a_thread_to_go_on(
    address: str, proxy: Proxy
) -> None:
    """The run fails with the host's error; the next one is whole, and is counted."""

    def goes_away(_: Any) -> Any:
        proxy.cut()
        return call("read", path="b")

    replies = [call("read", path="a"), goes_away, call("read", path="c"), "found"]
    model = ScriptedModel(replies=replies, default="found")
    guard = LoopGuardMiddleware(Policy(budget=Budget(steps=3, scope="thread")))

    def agent(saver: Any) -> Any:
        return create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)

    with PostgresSaver.from_conn_string(address) as saver:
        saver.setup()
        with pytest.raises(psycopg.OperationalError):
            agent(saver).invoke(ask(), THREAD, durability="sync")
    proxy.mend()
    with PostgresSaver.from_conn_string(address) as saver:
        state = agent(saver).invoke(ask("again"), THREAD)
        used = agent(saver).get_state(THREAD).values["loopguard"]["used"]["thread"]

    assert last(state).text == "found"
    assert used["steps"] == 2


def test_a_hung_store_is_left_behind(
    address: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A synchronous turn of the store has its seconds, too; the run goes on."""
    shared = replace(ACME, timeout=0.1)
    lost = suppress(psycopg.OperationalError)  # nothing can be closed in order now
    with lost, PostgresStore.from_conn_string(address) as store:
        store.setup()
        proxy.hung = True
        state = sharing(looping(30), store, shared).invoke(ask(), THREAD)
        proxy.cut()

    assert state["loopguard_exit"]["reason"] == "loop"
    assert "no answer in 0.1 seconds" in caplog.text


async def test_a_hung_store_is_cut_on_an_event_loop(address: str, proxy: Proxy) -> None:
    """Each turn of the store has its seconds; the run goes on."""
    from langgraph.store.postgres.aio import AsyncPostgresStore

    shared = replace(ACME, timeout=0.2)
    with suppress(psycopg.OperationalError):  # nothing can be closed in order now
        async with AsyncPostgresStore.from_conn_string(address) as store:
            await store.setup()
            proxy.hung = True
            agent = sharing(looping(30), store, shared)
            state = await agent.ainvoke(ask(), THREAD)
            proxy.cut()

    assert state["loopguard_exit"]["reason"] == "loop"
