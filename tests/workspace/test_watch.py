"""Which files changed while which agent was at work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.workspace.watch import Call, Change, Watch, whose


@pytest.fixture
def watch(root: Path) -> Watch:
    """A watch that looks at every file, so that nothing depends on when it is told."""
    return Watch(root=root, notified=False)


def test_an_edit_through_a_shell_is_seen(root: Path, watch: Watch) -> None:
    """With its path, its time and its size."""
    (root / "a.py").write_text("1")

    with watch.during("one") as found:
        subprocess.run("echo 22 > a.py", shell=True, cwd=root, check=True)

    assert [(change.path, change.size) for change in found] == [("a.py", 3)]
    assert abs(found[0].at - os.stat(root / "a.py").st_mtime) < 1


def test_made_moved_and_deleted_files_are_changes(root: Path, watch: Watch) -> None:
    """What is gone has no size."""
    (root / "a").write_text("1")

    with watch.during("one") as found:
        shutil.move(root / "a", root / "b")

    assert [(c.path, c.size) for c in found] == [("a", None), ("b", 1)]


def test_an_edit_that_keeps_time_and_size_is_seen(root: Path, watch: Watch) -> None:
    """As a new file is a new place on the disk."""
    (root / "a").write_text("1")
    os.utime(root / "a", (1, 1))

    with watch.during("one") as found:
        (root / "new").write_text("2")
        os.utime(root / "new", (1, 1))
        os.replace(root / "new", root / "a")

    assert [change.path for change in found] == ["a"]


def test_a_change_between_calls_is_a_persons(root: Path, watch: Watch) -> None:
    """Nobody is told of it."""
    with watch.during("one"):
        pass
    (root / "a").write_text("1")
    os.utime(root / "a", (1, 1))
    watch.forget()

    with watch.during("one") as found:
        pass

    assert found == []


def test_one_edit_is_counted_once(root: Path, watch: Watch) -> None:
    """Of two agents at work at once, the one that began last is told, the other not."""
    (root / "a").write_text("1")

    with watch.during("one") as first, watch.during("two") as second:
        (root / "a").write_text("22")

    assert (len(first), len(second)) == (0, 1)


def test_the_holder_of_the_lock_made_the_edit(root: Path, watch: Watch) -> None:
    """Whosever call is running; it is told when its own next call ends."""
    (root / "a").write_text("1")
    watch.holders = lambda: {"a": "one"}

    with watch.during("two") as second:
        (root / "a").write_text("22")
    with watch.during("one") as first:
        pass

    assert (len(first), len(second)) == (1, 0)


def test_changes_of_agents_that_look_no_more_are_let_go(
    root: Path, watch: Watch
) -> None:
    """A folder is watched for as long as its agents' process lives."""
    calls = []
    for n in range(220):
        calls.append(watch.begin(f"agent {n}", f"{n}"))
        (root / str(n)).write_text("1")

    assert [len(watch.end(calls[n])) for n in (0, 210)] == [0, 1]


def test_folders_of_tools_are_not_watched(root: Path, watch: Watch) -> None:
    """Nor are links followed."""
    (root / "node_modules").mkdir()
    (root / "out").symlink_to(root.parent)

    with watch.during("one") as found:
        (root / "node_modules/x").write_text("1")
        (root.parent / "x").write_text("1")

    assert found == []


def test_a_large_tree_is_watched_in_part(root: Path) -> None:
    """No more files than the limit, always the same ones."""
    for n in range(5):
        (root / str(n)).write_text("1")
    watch = Watch(root=root, notified=False, most=2)

    with watch.during("one") as found:
        for n in range(5):
            (root / str(n)).write_text("22")

    assert [change.path for change in found] == ["0", "1"]


def test_a_name_that_is_no_text_is_told_as_text(root: Path, watch: Watch) -> None:
    """So that it can be stored and shown."""
    with watch.during("one") as found:
        Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("1")

    assert [change.path for change in found] == ["\ufffd"]


def seen(watch: Watch, path: str) -> bool:
    """Whether a change comes to light; the system may tell of it late."""
    for _ in range(300):
        with watch.during("one") as found:
            pass
        if path in [change.path for change in found]:
            return True
    return False


def test_the_system_tells_what_changed(root: Path) -> None:
    """With watchfiles: edits, files in new folders, and whole folders that go."""
    pytest.importorskip("watchfiles")
    watch = Watch(root=root)
    (root / "d").mkdir()
    (root / "d/a").write_text("1")
    with watch.during("one"):
        pass

    with watch.during("one") as found:
        (root / "d/a").write_text("22")
    assert found or seen(watch, "d/a")
    with watch.during("one") as found:
        shutil.move(root / "d", root / "e")
    assert {"d/a", "e/a"} & {c.path for c in found} or seen(watch, "e/a")
    assert watch.notified


def test_without_watchfiles_every_file_is_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are the same."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    watch = Watch(root=root)

    with watch.during("one") as found:
        (root / "a").write_text("1")

    assert [change.path for change in found] == ["a"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message says what to give."""
    with pytest.raises(WorkspaceError, match="is not a folder: give one"):
        Watch(root=tmp_path / "none")


_CALLS = st.builds(
    Call,
    st.sampled_from(["one", "two"]),
    st.integers(0, 9),
    st.sampled_from(["", "a"]),
    st.integers(0, 9),
)


@given(st.integers(0, 9), st.lists(_CALLS, max_size=5), st.booleans())
def test_a_change_belongs_to_one_agent_at_most(
    at: int, calls: list[Call], locked: bool
) -> None:
    """To the lock's holder, or to a call that was running then."""
    holders = {"a": "three"} if locked else {}
    owner = whose(Change("a", at), holders, calls)

    running = {call.agent for call in calls if call.start <= at <= call.end}
    assert owner in ({"three"} if locked else running or {None})
