"""Agents that work in one folder at the same time, and agents inside agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from loopguard_lg import GiveUp, LoopGuardMiddleware, Reflect
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.workspace.git import Snapshots
from loopguard_lg.workspace.locks import Locks
from tests.workspace.coding import (
    GO,
    RIGHT,
    agent,
    edit,
    failing,
    guarded,
    policy,
    repository,
    tools,
)

FIRST = edit("price * pieces", "pieces * price")


@pytest.fixture
def place(root: Path, shots: Snapshots) -> Workspace:
    """A folder with locks of which nobody waits long."""
    repository(root)
    locks = Locks(patience=0, wait=lambda state: 0.0)
    return Workspace(root, snapshots=shots, locks=locks)


def results(out: dict[str, Any]) -> list[str]:
    """What the tools said."""
    return [m.text for m in out["messages"] if isinstance(m, ToolMessage)]


def test_a_file_that_another_agent_edits_is_left_alone(
    root: Path, place: Workspace
) -> None:
    """The call is not made; the agent is told who has the file."""
    assert place.locks
    place.locks.attempt("price.py", "other")
    before = (root / "price.py").read_text()
    graph, _ = agent(root, [FIRST], guarded(place))

    out = graph.invoke(GO)

    assert "`price.py` is being edited by `other`" in results(out)[0]
    assert (root / "price.py").read_text() == before
    assert place.locks.report()["waits"] == []


@pytest.mark.parametrize("spelling", ["price.py", "./price.py", "x/../price.py", None])
def test_every_spelling_of_a_path_is_one_file(
    root: Path, place: Workspace, spelling: str | None
) -> None:
    """Relative or absolute."""
    assert place.locks
    place.locks.attempt("price.py", "other")
    path = spelling or str(root / "price.py")
    graph, _ = agent(root, [edit("a", "b", path=path)], guarded(place))

    assert "is being edited" in results(graph.invoke(GO))[0]


def test_going_back_leaves_the_files_of_others_alone(
    root: Path, place: Workspace
) -> None:
    """Those that another agent holds the lock on."""
    assert place.locks
    (root / "theirs.py").write_text("1")
    (root / "other").write_text("echo 2 > theirs.py")
    place.locks.attempt("theirs.py", "other")
    script = [call("run_tests"), call("bash", command="sh other"), *failing(6)]
    graph, model = agent(root, script, guarded(place))

    graph.invoke(GO)

    assert any("again as they were" in request.text for request in model.requests)
    assert (root / "theirs.py").read_text() == "2\n"
    assert (root / "price.py").read_text() == RIGHT


def test_locks_are_free_when_the_run_is_over(root: Path, place: Workspace) -> None:
    """By its last word, or by the guard."""
    assert place.locks
    for script in ([FIRST, "done"], failing(12)):
        graph, _ = agent(root, script, guarded(place))
        graph.invoke(GO)

        assert place.locks.report()["held"] == {}


def test_the_exit_report_says_who_waits_for_whom(root: Path, place: Workspace) -> None:
    """As the locks were when the run ended."""
    assert place.locks
    place.locks.attempt("a.py", "one")
    place.locks.attempt("a.py", "two")
    settings = policy(Reflect(), GiveUp())
    graph, _ = agent(root, failing(12), guarded(place, settings))

    report = graph.invoke(GO)["loopguard_exit"]

    waits = [{"agent": "two", "for": "one", "path": "a.py"}]
    assert report["workspace"]["locks"]["waits"] == waits


async def test_a_deadlock_of_two_agents_ends(root: Path, shots: Snapshots) -> None:
    """Each edits its file, then the other one's: both get done."""
    repository(root)
    (root / "b.py").write_text("b")
    (root / "a.py").write_text("a")
    locks = Locks(wait=lambda state: 0.0)
    place = Workspace(root, snapshots=None, locks=locks)

    async def work(name: str, first: str, second: str) -> list[str]:
        script = [
            edit(first[0], name, path=first),
            call("bash", command="true"),
            *[edit(second[0], name, path=second)] * 3,
            edit(name, name * 2, path=first),
        ]
        graph, _ = agent(root, script, guarded(place, name=name))
        return results(await graph.ainvoke(GO))

    said = await asyncio.gather(work("x", "a.py", "b.py"), work("y", "b.py", "a.py"))

    assert all("edited" in line for lines in said for line in lines[-1:])
    assert locks.report()["held"] == locks.report()["lost"] == {}


def test_a_lost_file_is_read_again_before_it_is_edited(
    root: Path, place: Workspace
) -> None:
    """Another agent may have changed it since."""
    locks = place.locks
    assert locks
    graph, _ = agent(root, [FIRST, FIRST], guarded(place))
    for agent_, path in (("loopguard", "price.py"), ("b", "b"), ("loopguard", "b")):
        locks.attempt(path, agent_)
    locks.attempt("price.py", "b")
    locks.release("b")

    said = results(graph.invoke(GO))

    assert "edited by others meanwhile. Read it again first" in said[0]
    assert said[1] == "edited price.py"


def nested(root: Path, place: Workspace, told: list[GuardEvent]) -> Any:
    """An agent whose subagent goes in circles on a file of the same folder."""
    inner = ScriptedModel([call("run_tests"), *failing(8)], default="stuck")
    child = create_agent(inner, tools(root))

    @tool
    def task(description: str) -> str:
        """Let a subagent work."""
        out = child.invoke({"messages": [("user", description)]})
        return str(out["messages"][-1].text)

    outer = ScriptedModel([call("task", description="mend it")], default="handed back")
    guard = guarded(place, observers=told.append)
    return create_agent(outer, [task], middleware=[guard])


def test_a_subagents_events_are_not_the_main_agents(
    root: Path, place: Workspace, shots: Snapshots
) -> None:
    """Its cost counts; its loop trips nothing and its checks save no files."""
    told: list[GuardEvent] = []
    out = nested(root, place, told).invoke(GO)

    turns = [event.event for event in told if event.name == "seen"]
    nested_calls = sum(n.model_calls for t in turns for n in getattr(t, "nested", ()))
    assert nested_calls == 18
    assert not [event for event in told if event.name != "seen"]
    assert shots.taken() == []
    assert out["messages"][-1].text == "handed back"


def test_a_subagent_with_a_guard_of_its_own_guards_itself(
    root: Path, place: Workspace
) -> None:
    """Then its loop is its own to end, and the parent goes on."""
    inner = ScriptedModel(failing(12), default="stuck")
    guard = LoopGuardMiddleware(policy(Reflect(), GiveUp()), name="child")
    child = create_agent(inner, tools(root), middleware=[guard])

    out = child.invoke(GO)

    assert out["loopguard_exit"]["kind"] in ("failing_edits", "edit_rate")
