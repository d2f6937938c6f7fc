"""Disks that are full or read-only, and clocks that jump."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy, Recorder
from loopguard_lg.fleet import FleetBudget, Hold, MemoryLedger
from loopguard_lg.fleet.limits import claims
from loopguard_lg.hooks import failures
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded as guarded_graph, react
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    guarded,
    last,
    same,
)

FULL = Path("/dev/full")
NOW = 1_700_000_000.0


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_recorder_on_a_full_disk_costs_the_recording(
    tmp_path: Path, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is the same, the fault is counted and said once."""
    path = tmp_path / "run.jsonl"
    path.symlink_to(FULL)
    recorder = Recorder(path)
    agent = guarded(ScriptedModel(replies=same(20)), observers=[recorder])

    assert way(agent, ask(), THREAD)["loopguard_exit"]["reason"] == "loop"
    assert failures(recorder) >= 1
    assert caplog.text.count("No space left on device") == 1


def reading(*more: Any) -> ScriptedModel:
    """A model that reads three files and answers; then always answers."""
    calls = [call("read", path=path * 2_000) for path in "abc"]
    return ScriptedModel(replies=[*calls, *more], default="found")


LIMIT = Policy(budget=Budget(steps=6, scope="thread"))


@pytest.fixture
def opened() -> Iterator[Callable[[str], SqliteSaver]]:
    """Opens savers by a database's address; their connections are closed at the end."""
    with ExitStack() as stack:

        def saver(address: str) -> SqliteSaver:
            db = sqlite3.connect(address, uri=True, check_same_thread=False)
            return SqliteSaver(stack.enter_context(closing(db)))

        yield saver


def test_a_checkpointer_on_a_full_disk_leaves_a_thread_to_go_on(
    tmp_path: Path, opened: Callable[[str], SqliteSaver]
) -> None:
    """The host's error ends the run; with room again, each call was counted once."""
    saver = opened(f"file:{tmp_path}/state.db")
    saver.setup()
    (pages,) = saver.conn.execute("PRAGMA page_count").fetchone()
    saver.conn.execute(f"PRAGMA max_page_count = {pages + 12}")  # for the first step
    agent = guarded(reading(), LIMIT, checkpointer=saver)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        agent.invoke(ask(), THREAD, durability="sync")
    saver.conn.execute("PRAGMA max_page_count = 100000")
    state = agent.invoke(ask("again"), THREAD)

    asked = sum(
        len(m.tool_calls) for m in state["messages"] if isinstance(m, AIMessage)
    )
    used = agent.get_state(THREAD).values["loopguard"]["used"]["thread"]
    assert last(state).text == "found"
    assert used["steps"] == asked >= 2


def test_a_read_only_checkpointer_ends_runs_with_the_host_s_error(
    tmp_path: Path, opened: Callable[[str], SqliteSaver]
) -> None:
    """Nothing hides that a thread can't be kept; what is kept can be read."""
    path = f"{tmp_path}/state.db"
    with SqliteSaver.from_conn_string(path) as saver:
        guarded(reading(), LIMIT, checkpointer=saver).invoke(ask(), THREAD)
    saver = opened(f"file:{path}?mode=ro")
    saver.is_setup = True
    agent = guarded(reading(), LIMIT, checkpointer=saver)

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        agent.invoke(ask("again"), THREAD)
    assert last(agent.get_state(THREAD).values).text == "found"


class Jumping:
    """A clock that goes back an hour at each look."""

    now = 0.0

    def __call__(self) -> float:
        self.now -= 3_600.0
        return self.now


def agent(model: ScriptedModel, policy: Policy) -> Any:
    """An agent whose guard has such a clock."""
    guard = LoopGuardMiddleware(policy, clock=Jumping())
    return create_agent(model, TOOLS, middleware=[guard])


def graph(model: ScriptedModel, policy: Policy) -> Any:
    """A graph whose guard has such a clock."""
    return guarded_graph(react(model), policy, clock=Jumping())


@pytest.mark.parametrize("host", [agent, graph])
def test_a_clock_that_jumps_back_gives_no_budget_back(way: Way, host: Any) -> None:
    """No time is less than none; the other limits hold."""
    policy = Policy(budget=Budget(seconds=60.0, steps=4))
    model = ScriptedModel(default=lambda sent: call("read", path=str(len(sent))))
    report = way(host(model, policy), ask(), THREAD)["loopguard_exit"]

    assert report["budget"] == "steps"
    assert report["usage"].get("seconds", 0) >= 0


def test_a_fleet_s_clock_that_jumps_back_gives_no_budget_back() -> None:
    """What was spent in the window stands when the clock is right again."""
    times = iter([NOW, NOW - 86_400.0, NOW])
    ledger, budget = MemoryLedger(), FleetBudget(Budget(model_calls=1))
    out = []
    for n in range(3):
        now = next(times)
        claimed = claims([budget], {}, {"model_calls": 1}, now)
        out.append(
            ledger.reserve(Hold(id=str(n), claims=claimed, expires=now + 9), now)
        )
        ledger.settle(Hold(id=str(n), claims=claimed, expires=now), [1], now)

    assert [one is None for one in out] == [True, True, False]
