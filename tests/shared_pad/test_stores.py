"""The stores that are known to hold shared scratchpads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from loopguard_lg.testing import store_kit

CHECKS = pytest.mark.parametrize("check", store_kit.CHECKS, ids=lambda c: c.__name__)


@CHECKS
def test_the_store_in_memory_passes(check: store_kit.Check) -> None:
    """By its synchronous methods."""
    store_kit.run(check, InMemoryStore())


@CHECKS
async def test_the_store_in_memory_passes_on_an_event_loop(
    check: store_kit.Check,
) -> None:
    """By its asynchronous methods."""
    await store_kit.arun(check, InMemoryStore())


@CHECKS
def test_the_store_in_postgres_passes(check: store_kit.Check, postgres: str) -> None:
    """By its synchronous methods."""
    from langgraph.store.postgres import PostgresStore

    with PostgresStore.from_conn_string(postgres) as store:
        store.setup()
        store_kit.run(check, store)


@CHECKS
async def test_the_store_in_postgres_passes_on_an_event_loop(
    check: store_kit.Check, postgres: str
) -> None:
    """By its asynchronous methods."""
    from langgraph.store.postgres.aio import AsyncPostgresStore

    async with AsyncPostgresStore.from_conn_string(postgres) as store:
        await store.setup()
        await store_kit.arun(check, store)


def test_a_store_in_postgres_is_told_when_an_entry_is_over(postgres: str) -> None:
    """Its own sweeper may delete it then, and reading does not put that off."""
    from langgraph.store.postgres import PostgresStore

    with PostgresStore.from_conn_string(postgres, ttl={}) as store:
        store.setup()
        bench = store_kit.Bench(store=store, awaits=False)
        pad = bench.pad(ttl_seconds=90)
        pad.write(store, ("over", bench.tenant), [store_kit.Entry("fact")])
        query = "SELECT expires_at, ttl_minutes FROM store WHERE prefix LIKE 'over.%'"
        (before,) = store.conn.execute(query).fetchall()
        pad.read(store, ("over", bench.tenant))
        (after,) = store.conn.execute(query).fetchall()

    assert before == after
    assert before["ttl_minutes"] in (1, 2)  # the column holds whole minutes


def test_writers_on_connections_of_their_own_never_wait_for_one_another(
    postgres: str,
) -> None:
    """Whatever order they learn the same things in: no deadlock, nothing lost."""
    from langgraph.store.postgres import PostgresStore

    entries = [store_kit.Entry(f"call {n}", "3x: none") for n in range(60)]
    bench = store_kit.Bench(store=InMemoryStore(), awaits=False)
    where, together = ("many", bench.tenant), threading.Barrier(4)

    def write(step: int) -> list[store_kit.Entry]:
        with PostgresStore.from_conn_string(postgres) as store:
            together.wait(60)
            for _ in range(10):
                bench.pad().write(store, where, entries[::step])
            return bench.pad().read(store, where)

    with PostgresStore.from_conn_string(postgres) as store:
        store.setup()
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(write, (1, -1, 1, -1))]

    assert all(sorted(one, key=str) == sorted(entries, key=str) for one in found)


def test_a_store_that_finds_too_much_lets_nothing_through() -> None:
    """Only the namespace itself counts, however loosely a store searches."""

    class Loose(InMemoryStore):
        def batch(self, ops: Any) -> Any:
            wide = [
                op._replace(namespace_prefix=()) if isinstance(op, SearchOp) else op
                for op in ops
            ]
            return super().batch(wide)

    store_kit.run(store_kit.a_namespace_is_nobody_elses, Loose())


def test_a_store_with_an_index_embeds_no_entry() -> None:
    """It would cost a model call for each."""

    def embed(texts: Any) -> Any:
        raise AssertionError("nothing searches for entries by meaning")

    store = InMemoryStore(index={"dims": 2, "embed": embed})
    store_kit.run(store_kit.what_is_written_is_read_newest_first, store)


class Forgetful(InMemoryStore):
    """Keeps the last entry only."""

    def batch(self, ops: Any) -> Any:
        ops = list(ops)
        if any(isinstance(op, PutOp) and op.value for op in ops):
            self._data.clear()
        return super().batch(ops)


@pytest.mark.parametrize(
    "check",
    [
        store_kit.what_is_written_is_read_newest_first,
        store_kit.writers_at_once_lose_nothing,
        store_kit.the_oldest_make_room,
        store_kit.a_namespace_is_nobody_elses,
    ],
)
def test_a_store_that_forgets_fails(check: store_kit.Check) -> None:
    """The kit tells a store that does not do from one that does."""
    with pytest.raises(AssertionError):
        store_kit.run(check, Forgetful())
