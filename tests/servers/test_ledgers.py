from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from loopguard_lg.budgets import Budget
from loopguard_lg.fleet import BudgetLedger, FleetBudget, Hold, MemoryLedger
from loopguard_lg.fleet.background import ServerLedger
from loopguard_lg.fleet.limits import GRACE, claims
from loopguard_lg.fleet.postgres import PostgresLedger
from loopguard_lg.fleet.redis import RedisLedger
from loopguard_lg.testing import ledger_kit

NOW = 1_700_000_000.0
KINDS = ("memory", "postgres", "redis")


def made(kind: str, request: pytest.FixtureRequest) -> BudgetLedger:
    """A ledger by its name, on the session's server."""
    if kind == "postgres":
        return PostgresLedger(request.getfixturevalue("postgres"), timeout=30)
    if kind == "redis":
        return RedisLedger(request.getfixturevalue("redis_url"), timeout=30)
    return MemoryLedger()


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest) -> Iterator[BudgetLedger]:
    """Each ledger in turn."""
    found = made(request.param, request)
    yield found
    if isinstance(found, ServerLedger):
        found.close()


def hold(calls: int = 1, id_: str = "h", now: float = NOW) -> Hold:
    """A hold of one call out of `calls`."""
    budget = FleetBudget(Budget(model_calls=calls))
    return Hold(
        id=id_, claims=claims([budget], {}, {"model_calls": 1}, now), expires=now + 60
    )


@pytest.mark.parametrize("check", ledger_kit.CHECKS)
def test_a_ledger_keeps_a_fleet_s_budgets(
    ledger: BudgetLedger, check: ledger_kit.Check
) -> None:
    """Every ledger passes every check of the kit."""
    ledger_kit.run(check, ledger)


@pytest.mark.parametrize("check", ledger_kit.CHECKS)
async def test_a_ledger_keeps_a_fleet_s_budgets_on_an_event_loop(
    ledger: BudgetLedger, check: ledger_kit.Check
) -> None:
    """Every ledger passes every check of the kit by its asynchronous methods."""
    await ledger_kit.arun(check, ledger)


@pytest.mark.parametrize("server", ["postgres", "redis_url"])
def test_workers_together_get_what_there_is(
    server: str, request: pytest.FixtureRequest
) -> None:
    """Three processes that draw from one budget at once get all of it, and no more."""
    url = request.getfixturevalue(server)
    command = [sys.executable, "-m", "tests.servers.drawer", url, server]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    drawn = [int(worker.communicate(timeout=60)[0]) for worker in workers]

    assert sum(drawn) == 40


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a server that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def silent(kind: str, port: int) -> ServerLedger:
    """A ledger on a server that does not answer."""
    if kind == "redis":
        return RedisLedger(f"redis://127.0.0.1:{port}", timeout=0.1)
    return PostgresLedger(f"host=127.0.0.1 port={port} user=x", timeout=0.1)


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_server_that_does_not_answer_is_an_error_in_time(
    kind: str, mute: int
) -> None:
    """A synchronous act on a mute server is cut, too."""
    with pytest.raises(TimeoutError):
        silent(kind, mute).reserve(hold(), NOW)


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_server_that_is_gone_is_an_error(kind: str, mute: int) -> None:
    """Nothing listens there: whatever the driver raises comes out."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(Exception, match=r"(?i)refused|failed|timeout|connect"):
        silent(kind, port).settle(hold(), [1], NOW)


@pytest.mark.parametrize("ledger", ["memory", "postgres"], indirect=True)
def test_old_windows_are_forgotten(ledger: BudgetLedger) -> None:
    """A day after a window has ended its sum makes room for others."""
    old = hold(9, "old")
    ledger.settle(old, [3], NOW)
    ledger.reserve(hold(9, "new", NOW + 86_400 + GRACE), NOW + 86_400 + GRACE)

    assert ledger.balance(old.claims[0].key, NOW).spent == 0


def test_a_forked_worker_has_connections_of_its_own(postgres: str) -> None:
    """A process that is forked with a ledger in use draws on, and so does its child."""
    # From 3.12 on Python warns of each fork of a process with threads.
    python = [sys.executable, "-W", "ignore::DeprecationWarning"]
    command = [*python, "-m", "tests.servers.drawer", postgres, "forked"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (done.stdout.split(), done.stderr) == (["1", "1"], "")
