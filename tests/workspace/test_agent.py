"""A guard with a workspace, on a real agent whose tools edit real files."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import (
    AskUser,
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
)
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.detectors import EditRate
from loopguard_lg.errors import PolicyError, WorkspaceError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import call
from loopguard_lg.tools import ToolPolicy
from loopguard_lg.workspace import targets
from loopguard_lg.workspace.git import Snapshots
from loopguard_lg.workspace.watch import Watch
from tests.workspace.coding import (
    GO,
    RIGHT,
    agent,
    edit,
    failing,
    guarded,
    policy,
    repository,
)

PASS = call("run_tests")


@pytest.fixture
def place(root: Path, shots: Snapshots) -> Workspace:
    """A folder with a module that is right, and its check."""
    repository(root)
    return Workspace(root, snapshots=shots, watch=Watch(root=root, notified=False))


def notes(place: Workspace) -> list[str]:
    """Why each snapshot was taken, oldest first."""
    assert isinstance(place.snapshots, Snapshots)
    return [shot.note for shot in reversed(place.snapshots.taken())]


def test_a_check_that_passes_makes_a_snapshot(root: Path, place: Workspace) -> None:
    """One that fails does not."""
    graph, _ = agent(root, [PASS, *failing(1), "sorry"], guarded(place))

    graph.invoke(GO)

    assert notes(place) == ["loopguard turn 1: a check passed"]


def test_an_escalation_puts_the_files_back(root: Path, place: Workspace) -> None:
    """As they were when the check last passed; the model is told which."""
    graph, model = agent(root, [PASS, *failing(6), "sorry"], guarded(place))

    graph.invoke(GO)

    said = next(r for r in model.requests if "again as they" in r.text)
    assert "(`price.py`). Edits made since are undone" in said.messages[-1].text
    assert "not undone: edit_file" not in said.text
    assert (root / "price.py").read_text() == RIGHT
    place.undo()
    assert "- " in (root / "price.py").read_text()


def test_what_was_undone_may_be_done_again(root: Path, place: Workspace) -> None:
    """The receipts of edits that are made once are gone with the edits."""
    settings = policy(tools={"edit_file": ToolPolicy(once=True)})
    script = [PASS, *failing(4), failing(1)[0], "sorry"]
    graph, model = agent(root, script, guarded(place, settings))

    graph.invoke(GO)

    assert any("again as they" in request.text for request in model.requests)
    assert (root / "price.py").read_text() == RIGHT.replace("pieces\n", "pieces - 1\n")


def test_files_stay_where_nobody_asked(root: Path, place: Workspace) -> None:
    """Going back over files is opt-in."""
    settings = policy(Reflect(), Escalate(), GiveUp())
    graph, _ = agent(root, [PASS, *failing(6)], guarded(place, settings))

    graph.invoke(GO)

    assert (root / "price.py").read_text() != RIGHT


def test_a_pass_by_tampering_is_no_snapshot(root: Path, place: Workspace) -> None:
    """Nor is any pass after it, until a person speaks."""
    test = "tests/test_price.py"
    script = [
        *failing(1),
        edit("(2, 3) == 6", "(2, 3) == 5", path=test),
        PASS,
        edit("price *", "1 * price *"),
        PASS,
        "done",
        PASS,
    ]
    config = {"configurable": {"thread_id": "1"}}
    graph, _ = agent(root, script, guarded(place), checkpointer=InMemorySaver())

    graph.invoke(GO, config)
    assert notes(place) == []
    graph.invoke({"messages": [("user", "The test was wrong indeed")]}, config)
    assert len(notes(place)) == 1


def test_a_check_that_feeds_a_pipe_makes_no_snapshot(
    root: Path, place: Workspace
) -> None:
    """Its exit status is lost."""
    script = [call("bash", command="python -m pytest -q | tail -1"), "tests pass"]
    graph, _ = agent(root, script, guarded(place))

    graph.invoke(GO)

    assert notes(place) == []


def test_the_exit_report_says_how_the_files_are(root: Path, place: Workspace) -> None:
    """With the snapshot to go back to."""
    graph, _ = agent(root, [PASS, *failing(12)], guarded(place))

    out = graph.invoke(GO)

    report = out["loopguard_exit"]
    assert place.snapshots
    assert report["workspace"] == {"snapshot": place.snapshots.taken()[0].id}
    assert out["messages"][-1].response_metadata["loopguard_exit"] == report


def test_files_go_back_on_your_word(root: Path, place: Workspace) -> None:
    """By the thread's state; a dry run first."""
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    script = [PASS, *failing(1), "sorry"]
    graph, _ = agent(root, script, guarded(place), checkpointer=saver)
    graph.invoke(GO, config)
    state = graph.get_state(config).values

    planned = place.restore(state, dry_run=True)
    assert [change.path for change in planned] == ["price.py"]
    assert (root / "price.py").read_text() != RIGHT
    assert place.restore(state) == planned
    assert (root / "price.py").read_text() == RIGHT


def test_who_is_asked_and_says_rollback_gets_the_files_back(
    root: Path, place: Workspace
) -> None:
    """The question of the guard has that choice."""
    config = {"configurable": {"thread_id": "1"}}
    guard = guarded(place, policy(Reflect(), AskUser()))
    script = [PASS, *failing(12)]
    graph, model = agent(root, script, guard, checkpointer=InMemorySaver())
    out = graph.invoke(GO, config)
    assert out["__interrupt__"]
    assert (root / "price.py").read_text() != RIGHT
    before = len(model.requests)

    graph.invoke(Command(resume="rollback"), config)

    assert "again as they were" in model.requests[before].messages[-1].text


def test_a_thread_without_a_pass_has_nothing_to_go_back_to(place: Workspace) -> None:
    """The message says so."""
    with pytest.raises(WorkspaceError, match="no check has passed in this thread"):
        place.restore({})


def test_without_git_the_run_goes_on(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log, and messages are rolled back as ever."""
    repository(root)
    shots = Snapshots(root=root, store=tmp_path / "s", _git=None)
    guard = guarded(Workspace(root, snapshots=shots))
    graph, _ = agent(root, [PASS, PASS, *failing(6)], guard)

    with caplog.at_level(logging.WARNING):
        out = graph.invoke(GO)

    assert out["loopguard_exit"]["workspace"] == {"snapshot": None}
    said = [r.message for r in caplog.records if "git was not found" in r.message]
    assert len(said) == 1


def test_a_process_that_hangs_costs_the_files_alone(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is saved while it is at it; messages are rolled back as ever."""
    repository(root)
    shots = Snapshots(root=root, store=tmp_path / "s", patience=0)
    shots.taken()
    guard = guarded(Workspace(root, snapshots=shots, watch=None))
    graph, model = agent(root, [PASS, *failing(6), "sorry"], guard)

    with (tmp_path / "s/loopguard.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        graph.invoke(GO)

    assert "another process has been at work" in caplog.text
    assert any("were left out" in request.text for request in model.requests)


async def test_an_event_loop_gets_the_same(root: Path, place: Workspace) -> None:
    """Files are saved and put back off the loop."""
    graph, model = agent(root, [PASS, *failing(6), "sorry"], guarded(place))

    await graph.ainvoke(GO)

    assert [r for r in model.requests if "again as they" in r.text]


def test_edits_through_a_shell_count(root: Path, place: Workspace) -> None:
    """More than three of one file in the same place trip `edit_rate`."""
    found: list[str] = []

    def note(event: GuardEvent) -> None:
        found.extend(f.kind for f in event.verdict.findings if event.name == "seen")

    settings = policy(detectors=[EditRate(edits=3)])
    guard = guarded(place, settings, observers=[note])
    script = [
        call("bash", command=f"python3 -c \"open('made','w').write('{n}')\"")
        for n in range(6)
    ]
    graph, _ = agent(root, script, guard)

    graph.invoke(GO)

    assert "edit_rate" in found


def test_a_call_tells_of_the_files_that_it_changed(
    root: Path, place: Workspace
) -> None:
    """In the metadata of its result, for the guard and for recordings."""
    graph, _ = agent(root, [call("bash", command="echo 1 > made")], guarded(place))

    out = graph.invoke(GO)

    result = next(m for m in out["messages"] if isinstance(m, ToolMessage))
    touched = result.response_metadata["loopguard"]["touched"]
    assert [(path, size) for path, _, size in touched] == [("made", 2)]


def test_what_the_tree_ignores_is_no_edit(root: Path, place: Workspace) -> None:
    """Logs and builds are written by programs."""
    (root / ".gitignore").write_text("*.log\n")
    graph, _ = agent(root, [call("bash", command="echo 1 > a.log")], guarded(place))

    out = graph.invoke(GO)

    result = next(m for m in out["messages"] if isinstance(m, ToolMessage))
    assert "touched" not in result.response_metadata["loopguard"]


def test_files_need_a_workspace() -> None:
    """The message says what to give."""
    ladder = Ladder(Escalate(files=True), GiveUp())

    with pytest.raises(PolicyError, match=r"ladder\[0\].files=True needs the files"):
        LoopGuardMiddleware(Policy(ladder=ladder))


def test_a_call_that_can_t_be_read_is_made(
    root: Path, place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails while it is looked for which file a call names."""
    monkeypatch.delattr(targets, "names_file")
    graph, _ = agent(root, [PASS, failing(1)[0], "done"], guarded(place))

    assert graph.invoke(GO)["messages"][-1].text == "done"
    assert (root / "price.py").read_text() != RIGHT


class Held(Watch):
    """A watch whose calls begin while `entered` is set, and have begun by `goes_on`."""

    entered, goes_on = threading.Event(), threading.Event()

    def begin(self, agent: str, path: str = "") -> Any:
        """Begin a call, some time later."""
        self.entered.set()
        self.goes_on.wait(20)
        return super().begin(agent, path)


async def test_a_run_cancelled_as_a_call_begins_edits_nothing(root: Path) -> None:
    """What a person changes afterwards is not the agent's."""
    repository(root)
    watch = Held(root=root, notified=False)
    place = Workspace(root, snapshots=None, watch=watch)
    graph, _ = agent(root, failing(1), guarded(place))

    run = asyncio.create_task(graph.ainvoke(GO))
    await asyncio.to_thread(watch.entered.wait, 20)
    run.cancel()
    await asyncio.wait([run])
    watch.goes_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    (root / "notes.md").write_text("a person's")

    assert watch.end(watch.begin("loopguard")) == []


def test_edits_of_ignored_files_are_not_said_to_be_undone(
    root: Path, place: Workspace
) -> None:
    """No snapshot holds them, so they stay, on disk and in what is done."""
    (root / ".gitignore").write_text("price.py\n")
    graph, model = agent(root, [PASS, *failing(6), "sorry"], guarded(place))

    graph.invoke(GO)

    assert (root / "price.py").read_text() != RIGHT
    assert not any("again as they" in request.text for request in model.requests)
    assert any("done, not undone: edit_file" in r.text for r in model.requests)


@pytest.mark.parametrize("wrong", ["folder", 5])
def test_the_name_of_a_folder_is_no_workspace(wrong: Any) -> None:
    """It is said at the start, not in the run."""
    with pytest.raises(PolicyError, match=f"workspace={wrong!r}: give a Workspace"):
        LoopGuardMiddleware(Policy(), workspace=wrong)


def test_an_empty_name_is_no_folder() -> None:
    """A variable that is not set does not put the current folder under the guard."""
    with pytest.raises(WorkspaceError, match="root='' is not a folder"):
        Workspace("")
