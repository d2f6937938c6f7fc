"""Who may edit which file, in one process and across workers."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import psycopg
import pytest
import redis
from hypothesis import given, strategies as st

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.testing import lock_kit
from loopguard_lg.workspace import waits
from loopguard_lg.workspace.lock_stores import PostgresLocks, RedisLocks
from loopguard_lg.workspace.locks import InProcess, Locks, LockStore
from loopguard_lg.workspace.waits import Table


@pytest.fixture(params=["process", "postgres", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[LockStore]:
    """Each kind of store, empty."""
    name = uuid4().hex
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        shared = PostgresLocks(partial(psycopg.connect, url), name)
        shared.setup()
        yield shared
    elif request.param == "redis":
        address = request.getfixturevalue("redis_socket")
        with redis.Redis(unix_socket_path=address) as client:
            yield RedisLocks(client, name)
    else:
        yield InProcess()


@pytest.mark.parametrize("check", lock_kit.CHECKS, ids=lambda check: check.__name__)
def test_a_store_keeps_locks(check: lock_kit.Check, store: LockStore) -> None:
    """Every store passes every check of the kit."""
    check(store)


def test_a_database_without_the_table_says_what_to_call(postgres: str) -> None:
    """The message names `setup`."""
    store = PostgresLocks(partial(psycopg.connect, postgres), "not set up")
    store.setup()
    other = PostgresLocks(partial(psycopg.connect, postgres), "another")

    with pytest.raises(LookupError, match=r"call setup\(\) once"):
        Locks(store=other).attempt("a", "one")


def test_a_wait_ends_when_the_file_is_free() -> None:
    """The waiter looks again after each pause."""
    locks = Locks()
    locks.attempt("a", "one")
    waiting = Locks(store=locks.store, sleep=lambda seconds: locks.release("one"))

    assert waiting.acquire("a", "two").held


def test_a_wait_is_bounded() -> None:
    """After `patience` seconds of pauses the answer is no, and who holds the file."""
    slept: list[float] = []
    locks = Locks(patience=3, wait=lambda state: 1.0, sleep=slept.append)
    locks.attempt("a", "one")

    assert locks.acquire("a", "two").by == "one"
    assert slept == [1.0, 1.0, 1.0]


async def test_an_event_loop_goes_on_while_an_agent_waits() -> None:
    """Two agents wait for each other's file, and both get done."""
    locks = Locks(wait=lambda state: 0.0)
    done: list[str] = []

    async def agent(name: str, first: str, second: str) -> None:
        await locks.aacquire(first, name)
        await asyncio.sleep(0)
        assert (await locks.aacquire(second, name)).held
        done.append(name)
        locks.release(name)

    await asyncio.gather(agent("one", "a", "b"), agent("two", "b", "a"))

    assert sorted(done) == ["one", "two"]


def test_locks_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without networkx no circle can be found, so that nobody may wait."""
    monkeypatch.setitem(sys.modules, "networkx", None)
    locks = Locks()
    assert locks.attempt("a", "one").held

    with pytest.raises(WorkspaceError, match="install the extra `workspace`: pip"):
        locks.attempt("a", "two")


def test_names_that_differ_in_case_may_be_one_file() -> None:
    """Where the file system says so."""
    locks = Locks(casefold=True)
    locks.attempt("Read.me", "one")

    assert locks.holder("READ.ME") == "one"
    assert not locks.attempt("read.me", "two").held


_AGENTS = st.sampled_from(["one", "two", "three"])
_PATHS = st.sampled_from(["a", "b", "c"])
_ACTS = st.lists(
    st.tuples(st.sampled_from(["get", "get", "get", "drop", "age"]), _AGENTS, _PATHS),
    max_size=40,
)


def after(acts: list[tuple[str, str, str]]) -> Iterator[Table]:
    """The table after each of some acts, a second apart."""
    table = waits.fresh()
    for now, (act, agent, path) in enumerate(acts):
        if act == "get":
            table, grant = waits.acquire(table, path, agent, now, 9)
            assert grant.held == (table["held"].get(path, [None])[0] == agent)
        elif act == "drop":
            table = waits.release(table, agent, path)
        else:
            table = waits.live(table, now + 5)
        yield table


@given(_ACTS)
def test_nobody_ever_waits_in_a_circle(acts: list[tuple[str, str, str]]) -> None:
    """Whatever agents ask for, and whoever dies meanwhile."""
    assert not any(map(waits.deadlock, after(acts)))


@given(_ACTS)
def test_nobody_waits_for_what_it_holds(acts: list[tuple[str, str, str]]) -> None:
    """And each waits once for a file."""
    for table in after(acts):
        lines = [(agent, path) for agent, path, *_ in table["waits"]]
        assert len(lines) == len({*lines})
        assert not [p for a, p in lines if table["held"].get(p, [None])[0] == a]


@given(_ACTS, _AGENTS)
def test_who_releases_everything_leaves_no_trace(
    acts: list[tuple[str, str, str]], agent: str
) -> None:
    """No lock, no wait, no note."""
    *_, table = waits.fresh(), *after(acts)

    assert agent not in str(waits.release(table, agent))


def test_redis_forgets_a_workspace_that_nobody_works_in(redis_socket: str) -> None:
    """A day after the last lease."""
    with redis.Redis(unix_socket_path=redis_socket) as client:
        locks = Locks(store=RedisLocks(client, "left"), lease=3_600)
        locks.attempt("a", "one")

        assert 86_400 < client.ttl("loopguard:locks:left") <= 86_400 + 3_600


def test_a_lease_without_an_end_is_kept_for_long(redis_socket: str) -> None:
    """Redis takes no expiry without an end."""
    with redis.Redis(unix_socket_path=redis_socket) as client:
        locks = Locks(store=RedisLocks(client, "kept"), lease=math.inf)

        assert locks.attempt("a", "one").held
        assert client.ttl("loopguard:locks:kept") > 300 * 86_400


def test_a_busy_redis_is_not_asked_for_ever(redis_socket: str) -> None:
    """Where others are faster each time, the error says so."""
    with redis.Redis(unix_socket_path=redis_socket) as client:
        store = RedisLocks(client, "busy", patience=0)

        def change(table: Table, now: float) -> tuple[Table, None]:
            client.set("loopguard:locks:busy", json.dumps(table))
            return table, None

        with pytest.raises(WorkspaceError, match="others were faster 1 times"):
            store.update(change)


def test_a_busy_database_is_not_waited_for_for_ever(postgres: str) -> None:
    """A row that another worker keeps is an error after `patience` seconds."""
    store = PostgresLocks(partial(psycopg.connect, postgres), "busy", patience=0)
    store.setup()
    with psycopg.connect(postgres) as other:
        other.execute("SELECT 1 FROM loopguard_locks FOR UPDATE")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            store.update(lambda table, now: (table, None))
