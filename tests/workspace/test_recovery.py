"""Agents that end badly: stopped with their children, started again, parked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from tenacity import wait_fixed

from loopguard_lg import Reflect
from loopguard_lg.adapters.crews import graph_ending, graph_start
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.errors import PolicyError, WorkspaceError
from loopguard_lg.ladder import GiveUp
from loopguard_lg.testing.doubles import call
from loopguard_lg.workspace import recovery
from loopguard_lg.workspace.crew import Attempt, Crew
from loopguard_lg.workspace.locks import Locks
from loopguard_lg.workspace.recovery import Next, Respawn
from tests.workspace.coding import GO, agent, failing, guarded, policy, repository

SOON = Respawn(spawns=3, runs=1, wait=wait_fixed(2))


def test_a_start_that_fails_is_made_again_after_a_pause() -> None:
    """It is no loop."""
    state, then = recovery.after(SOON, {}, "spawn_failed", "no room")

    assert then == Next(act="start", after=2.0, reason="no room")
    assert state["spawns"] == 1


def test_starts_that_go_on_failing_park_the_agent() -> None:
    """With the reason, for whoever looks."""
    state: dict[str, Any] = {}
    for _ in range(3):
        state, then = recovery.after(SOON, state, "spawn_failed", "no room")

    assert then.act == "park"
    assert state["parked"] == "3 starts in a row failed: no room"
    assert recovery.unparked(state)["parked"] == ""


def test_a_loop_gets_one_fresh_start_then_it_is_the_orchestrators() -> None:
    """At once, without a pause."""
    state, first = recovery.after(SOON, {}, "loop", "in circles")
    _, second = recovery.after(SOON, state, "loop", "in circles")

    assert (first.act, first.after) == ("start", 0.0)
    assert (second.act, second.reason) == ("escalate", "in circles")


_ENDINGS = st.sampled_from(["spawn_failed", "loop", "failed", "budget", "done"])


@given(
    st.lists(_ENDINGS, min_size=1, max_size=30), st.integers(1, 4), st.integers(0, 3)
)
def test_no_agent_is_started_for_ever(endings: Any, spawns: int, runs: int) -> None:
    """However its runs end, the starts are bounded."""
    respawn, state, starts = Respawn(spawns=spawns, runs=runs), {}, 0
    for ending in endings:
        state, then = recovery.after(respawn, state, ending)
        if then.act != "start":
            break
        starts += 1

    assert starts <= (runs + 1) * spawns


@pytest.mark.parametrize("bad", [{"spawns": 0}, {"runs": -1}, {"wait": 3}])
def test_a_wrong_setting_is_named(bad: Any) -> None:
    """With its value, and what is right."""
    with pytest.raises(PolicyError, match=rf"Respawn\.{[*bad][0]}="):
        Respawn(**bad)


async def never(seconds: float) -> None:
    """Let no time pass."""
    await asyncio.sleep(0)


@pytest.fixture
def crew() -> Crew:
    """A crew that waits for nothing, with locks."""
    return Crew(respawn=SOON, locks=Locks(), asleep=never)


async def test_an_agent_that_works_is_done(crew: Crew) -> None:
    """With its result."""

    async def start(attempt: Attempt) -> str:
        return f"{attempt.agent} {attempt.number}"

    outcome = await crew.run("one", start)

    assert (outcome.act, outcome.result, outcome.starts) == ("done", "one 1", 1)


async def test_locks_that_cant_be_cleared_cost_no_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They end with their leases."""

    class Down:
        def update(self, change: Any, /) -> Any:
            raise ConnectionError("down")

    async def start(attempt: Attempt) -> str:
        return "found"

    outcome = await Crew(locks=Locks(store=Down())).run("one", start)

    assert (outcome.act, outcome.result) == ("done", "found")
    assert "locks of one are not cleared: down" in caplog.text


async def test_an_agent_that_cant_be_started_is_parked(crew: Crew) -> None:
    """Nobody starts it again until somebody says so."""

    async def start(attempt: Attempt) -> None:
        raise ConnectionError("no room")

    outcome = await crew.run("one", start)

    assert (outcome.act, outcome.starts) == ("park", 3)
    assert "no room" in crew.report()["parked"]["one"]
    with pytest.raises(WorkspaceError, match="'one' is parked: 3 starts"):
        await crew.run("one", start)
    crew.unpark("one")
    assert (await crew.run("one", start)).act == "park"


async def test_an_error_after_a_step_is_no_failed_start(crew: Crew) -> None:
    """It gets its fresh start, with what there was, then it is escalated."""
    seen: list[Any] = []

    async def start(attempt: Attempt) -> None:
        seen.append(attempt.partial)
        attempt.keep(f"part {attempt.number}")
        raise ValueError("broken")

    outcome = await crew.run("one", start)

    assert seen == [None, "part 1"]
    assert (outcome.act, outcome.partial) == ("escalate", "part 2")
    assert outcome.reason == "ValueError: broken"


async def hanging(attempt: Attempt) -> None:
    """Work that ends only if it is stopped."""
    attempt.keep("half")
    await asyncio.Event().wait()


async def at_work(crew: Crew, agents: int) -> None:
    """Let others run until so many agents have begun."""
    for _ in range(1_000):
        if len(crew.report()["running"]) == agents:
            break
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # each begins its work in a task of its own


async def test_a_runaway_is_stopped_and_its_locks_are_free(crew: Crew) -> None:
    """Its waits are gone, and its partial result is kept."""
    assert crew.locks
    crew.respawn = Respawn(runs=0)
    running = asyncio.create_task(crew.run("one", hanging))
    await at_work(crew, 1)
    for name, path in (("one/thread", "a"), ("two", "b"), ("one/thread", "b")):
        crew.locks.attempt(path, name)

    crew.stop("one", "edits too fast")
    outcome = await running

    assert (outcome.act, outcome.partial) == ("escalate", "half")
    assert outcome.reason == "edits too fast"
    assert crew.report()["locks"] == {"held": {"b": "two"}, "waits": [], "lost": {}}


async def test_children_are_stopped_with_their_parent(crew: Crew) -> None:
    """And theirs; none of them is started again."""
    crew.respawn = Respawn(runs=0)
    family = [("a", ""), ("b", "a"), ("c", "b"), ("other", "")]
    runs = [asyncio.create_task(crew.run(n, hanging, parent=p)) for n, p in family]
    await at_work(crew, 4)

    crew.stop("a", "in circles")
    outcomes = await asyncio.gather(*runs[:3])

    assert [o.act for o in outcomes] == ["escalate"] * 3
    assert outcomes[2].reason == "its parent b was stopped"
    assert crew.report()["running"] == {"other": ""}
    crew.stop("other", "the end")
    await runs[3]


async def test_a_cancelled_run_leaves_nothing_behind(crew: Crew) -> None:
    """The caller's cancel goes through, and its agent is stopped."""
    running = asyncio.create_task(crew.run("one", hanging))
    await at_work(crew, 1)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert crew.report()["running"] == {}


async def test_two_agents_of_one_name_are_refused(crew: Crew) -> None:
    """The message says so."""
    running = asyncio.create_task(crew.run("one", hanging))
    await at_work(crew, 1)

    with pytest.raises(WorkspaceError, match="'one' runs already"):
        await crew.run("one", hanging)
    running.cancel()


def graph_of(root: Path, script: list[Any], guard: Any) -> Any:
    """A coding agent with a checkpointer."""
    return agent(root, script, guard, checkpointer=InMemorySaver())


async def test_a_graph_in_circles_gets_a_fresh_start_with_a_hand_over(
    root: Path, crew: Crew
) -> None:
    """On an empty thread; the second time its report goes to the orchestrator."""
    repository(root)
    crew.ending = graph_ending
    place = Workspace(root, snapshots=None)
    guard = guarded(place, policy(Reflect(), GiveUp()), name="coder")
    script = [call("run_tests"), *failing(40)]
    graph, model = graph_of(root, script, guard)

    outcome = await crew.run("coder", graph_start(graph, GO))

    firsts = [r for r in model.requests if len(r.messages) == 1]
    assert "An earlier run has worked on this" in firsts[1].text
    assert (outcome.act, outcome.starts) == ("escalate", 2)
    assert outcome.partial["loopguard_exit"]["reason"] == "loop"


async def test_the_guard_of_a_graph_stops_a_runaway(root: Path, crew: Crew) -> None:
    """At the first finding, before the ladder is climbed."""
    repository(root)
    crew.respawn = Respawn(runs=0)
    place = Workspace(root, snapshots=None, locks=crew.locks)
    guard = guarded(place, name="coder", observers=crew.watching("failing_edits"))
    graph, model = graph_of(root, [call("run_tests"), *failing(40)], guard)

    outcome = await crew.run("coder", graph_start(graph, GO))

    assert outcome.act == "escalate"
    assert "edits in a row" in outcome.reason
    assert len(model.requests) < 12
    assert crew.report()["locks"]["held"] == {}


async def test_agents_that_work_for_each_other_can_be_stopped(crew: Crew) -> None:
    """A circle of parents is gone through once."""
    crew.respawn = Respawn(runs=0)
    circle = [("a", "b"), ("b", "a"), ("c", "c")]
    runs = [asyncio.create_task(crew.run(n, hanging, parent=p)) for n, p in circle]
    await at_work(crew, 3)

    crew.stop("a", "in circles")
    crew.stop("c", "in circles")
    outcomes = await asyncio.gather(*runs)

    reasons = ["in circles", "its parent a was stopped", "in circles"]
    assert [outcome.reason for outcome in outcomes] == reasons
