"""What is saved of a working tree, and what comes back."""

from __future__ import annotations

import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.workspace.git import Change, Snapshots
from tests.workspace.conftest import git, tree


def test_what_was_changed_made_and_deleted_comes_back(
    root: Path, shots: Snapshots
) -> None:
    """A restore makes the tree what it was, and says what it did."""
    (root / "a").write_text("1")
    (root / "b").write_text("1")
    before, shot = tree(root), shots.take("green")
    (root / "a").write_text("2")
    (root / "b").unlink()
    (root / "c").write_text("2")

    done = shots.restore(shot.id)

    assert [(c.path, c.act) for c in done] == [
        ("a", "write"),
        ("b", "write"),
        ("c", "delete"),
    ]
    assert tree(root) == before


def test_an_undo_is_undone_by_an_undo(root: Path, shots: Snapshots) -> None:
    """What a restore took away is there again, and then not."""
    (root / "a").write_text("1")
    shot = shots.take()
    (root / "a").write_text("2")
    shots.restore(shot.id)

    shots.undo()
    assert (root / "a").read_text() == "2"
    shots.undo()
    assert (root / "a").read_text() == "1"


def test_a_dry_run_changes_nothing(root: Path, shots: Snapshots) -> None:
    """It says what a restore would do."""
    (root / "a").write_text("1")
    shot = shots.take()
    (root / "a").write_text("2")

    assert shots.compare(shot.id) == [Change(path="a", act="write")]
    assert (root / "a").read_text() == "2"
    assert shots.compare(shot.id) == shots.restore(shot.id)


def test_paths_that_are_to_be_kept_are_kept(root: Path, shots: Snapshots) -> None:
    """Changed, new or deleted: the restore says so and leaves them alone."""
    for name in "ab":
        (root / name).write_text("1")
    shot = shots.take()
    (root / "a").write_text("2")
    (root / "b").unlink()
    (root / "c").write_text("2")

    done = shots.restore(shot.id, keep=["a", "b", "c"])

    assert {change.act for change in done} == {"keep"}
    assert tree(root) == {b"a": ("file", b"2"), b"c": ("file", b"2")}


_NAMES = st.sampled_from([b"a", b"b", b"A", b"d/a", b"d/b", b"d/e/a", b"\xff\n", b"-x"])
_FILES = st.dictionaries(
    _NAMES,
    st.tuples(
        st.sampled_from(["file", "exec", "link"]),
        st.sampled_from([b"", b"1\r\n", b"\xff", b"/etc", b"../.."]),
    ),
)


def laid_out(root: Path, files: dict[bytes, tuple[str, bytes]]) -> None:
    """Fill an empty folder; a path that is in another one's way is left out."""
    shutil.rmtree(root)
    for name, (kind, data) in files.items():
        path = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link" and data:
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod(0o755 if kind == "exec" else 0o644)
    root.mkdir(exist_ok=True)


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_FILES, _FILES)
def test_any_tree_comes_back_from_any_other(
    root: Path,
    shots: Snapshots,
    first: dict[bytes, tuple[str, bytes]],
    second: dict[bytes, tuple[str, bytes]],
) -> None:
    """Whatever was there, whatever came of it: restore, undo and redo are exact."""
    laid_out(root, first)
    old, shot = tree(root), shots.take()
    laid_out(root, second)
    new = tree(root)

    changed = shots.restore(shot.id)
    assert tree(root) == old
    if changed:
        shots.undo()
        assert tree(root) == new


def test_a_file_that_became_a_folder_is_a_file_again(
    root: Path, shots: Snapshots
) -> None:
    """And the folder, a folder."""
    (root / "a").write_text("1")
    (root / "d").mkdir()
    (root / "d/x").write_text("1")
    before, shot = tree(root), shots.take()
    (root / "a").unlink()
    shutil.move(root / "d", root / "a")
    (root / "d").write_text("2")

    shots.restore(shot.id)

    assert tree(root) == before


def test_a_tree_that_has_not_changed_is_one_snapshot(
    root: Path, shots: Snapshots
) -> None:
    """Checks that pass one after another cost no room."""
    (root / "a").write_text("1")

    assert shots.take("first").id == shots.take("second").id
    assert [shot.note for shot in shots.taken()] == ["first"]


def test_many_at_once_take_turns(root: Path, tmp_path: Path) -> None:
    """From the first one on, which makes the repository."""

    def taken(n: int) -> str:
        (root / str(n)).write_text("1")
        return Snapshots(root=root, store=tmp_path / "store").take().id

    with ThreadPoolExecutor(4) as pool:
        ids = [*pool.map(taken, range(6))]

    shots = Snapshots(root=root, store=tmp_path / "store")
    assert {shot.id for shot in shots.taken()} == {*ids}


def test_the_oldest_snapshots_are_dropped(root: Path, tmp_path: Path) -> None:
    """There are never more than the limit, the newest first."""
    shots = Snapshots(root=root, store=tmp_path / "s", most_snapshots=2)
    for n in range(5):
        (root / "a").write_text(str(n))
        shots.take(str(n))

    assert [shot.note for shot in shots.taken()] == ["4", "3"]


def test_the_users_repository_is_never_touched(root: Path, shots: Snapshots) -> None:
    """Its index, branches, configuration, hooks and staged work stay byte by byte."""
    git(root, "init", "-q")
    (root / "a").write_text("1")
    git(root, "add", "a")
    git(root, "commit", "-qm", "one")
    (root / "a").write_text("2")
    git(root, "add", "a")
    before = tree(root / ".git")

    shot = shots.take()
    (root / "a").write_text("3")
    shots.restore(shot.id)

    assert tree(root / ".git") == before


def test_ignored_files_stay_as_they_are(root: Path, shots: Snapshots) -> None:
    """By `.gitignore`, and by the user's own `.git/info/exclude`."""
    git(root, "init", "-q")
    (root / ".git/info/exclude").write_text("*.tmp\n")
    (root / ".gitignore").write_text("*.log\n")
    shot = shots.take()
    (root / "a.log").write_text("kept")
    (root / "a.tmp").write_text("kept")

    assert shots.restore(shot.id) == []
    assert (root / "a.log").read_text() == (root / "a.tmp").read_text() == "kept"


def test_it_is_known_what_is_ignored(root: Path, shots: Snapshots) -> None:
    """Names that look like patterns are names."""
    (root / ".gitignore").write_text("*.log\n")

    assert shots.ignored(["a.log", "b", ":(glob)*.log", "*"]) == {
        "a.log",
        ":(glob)*.log",
    }


def test_what_no_snapshot_holds_is_never_overwritten(
    root: Path, shots: Snapshots
) -> None:
    """An ignored file in the way is kept, and the restore says so."""
    (root / "a").write_text("1")
    (root / "d").mkdir()
    (root / "d/x").write_text("1")
    shot = shots.take()
    shutil.rmtree(root / "d")
    (root / ".gitignore").write_text("a\nd\n")
    (root / "a").write_bytes(b"x" * 11_000_000)
    (root / "d").write_text("mine")

    done = {change.path: change.act for change in shots.restore(shot.id)}

    assert done == {".gitignore": "delete", "a": "keep", "d/x": "keep"}
    assert (root / "d").read_text() == "mine"
    assert (root / "a").stat().st_size == 11_000_000


def test_a_file_over_the_limit_is_named_and_left_alone(
    root: Path, tmp_path: Path
) -> None:
    """It is no part of a snapshot."""
    shots = Snapshots(root=root, store=tmp_path / "s", most_bytes=10)
    (root / "big").write_text("1" * 11)
    shot = shots.take()
    (root / "big").write_text("2" * 11)

    assert shot.skipped == ("big",)
    assert shots.restore(shot.id) == []


def test_too_many_files_are_one_clear_error(root: Path, tmp_path: Path) -> None:
    """The message names the number and the setting."""
    for n in range(4):
        (root / str(n)).touch()

    with pytest.raises(WorkspaceError, match="4 files .* most_files=3"):
        Snapshots(root=root, store=tmp_path / "s", most_files=3).take()


def test_a_submodules_files_come_back_and_its_history_stays(
    root: Path, shots: Snapshots, tmp_path: Path
) -> None:
    """Nested repositories are files; their own git is theirs."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "x").write_text("1")
    git(other, "add", "x")
    git(other, "commit", "-qm", "one")
    git(root, "init", "-q")
    git(root, "submodule", "--quiet", "add", str(other), "sub")
    head, shot = git(root / "sub", "rev-parse", "HEAD"), shots.take()
    (root / "sub/x").write_text("2")
    (root / "sub/y").write_text("2")

    shots.restore(shot.id)

    assert (root / "sub/x").read_text() == "1"
    assert not (root / "sub/y").exists()
    assert git(root / "sub", "rev-parse", "HEAD") == head


def test_without_git_there_is_one_clear_message(root: Path, tmp_path: Path) -> None:
    """It says what is missing and what still works."""
    shots = Snapshots(root=root, store=tmp_path / "s", _git=None)

    with pytest.raises(WorkspaceError, match="git was not found.*messages are still"):
        shots.take()


def test_nothing_restored_is_nothing_to_undo(shots: Snapshots) -> None:
    """The message says so."""
    with pytest.raises(WorkspaceError, match="nothing was restored"):
        shots.undo()


@pytest.mark.parametrize("name", ["0" * 40, "--help", "HEAD", "", "../x", "a\nb"])
def test_a_snapshot_that_is_not_there_is_named(shots: Snapshots, name: str) -> None:
    """Neither an option nor another name of git's is taken for one."""
    with pytest.raises(WorkspaceError, match="there is no snapshot"):
        shots.restore(name)


def test_a_process_that_hangs_is_not_waited_for_for_ever(
    root: Path, tmp_path: Path
) -> None:
    """The message says where it is at work, and what is still done."""
    shots = Snapshots(root=root, store=tmp_path / "store", patience=0)
    shots.take()
    with (tmp_path / "store/loopguard.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        with pytest.raises(WorkspaceError, match=r"another process .* rolled back"):
            shots.take()
    assert shots.taken()
