"""Names, links and settings that are there to lead out of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.workspace import files
from loopguard_lg.workspace.files import Content
from loopguard_lg.workspace.git import Snapshots
from tests.workspace.conftest import git, tree

BYTES = [
    b"a\nb",
    b"\xff\xfe",
    b"-rf",
    b":(glob)*",
    b"*",
    b'"',
    b" ",
    b"a\\b",
    b"...",
    b"git~2",
]
OUTSIDE = [b"../a", b"/a", b"", b"a/../b", b".git/x", b"d/.GIT/x", b".git ./x", b"a\0b"]
OUTSIDE += [b".g\xe2\x80\x8cit/x", b"GIT~1/x", b".git::$INDEX_ALLOCATION/x"]


@pytest.mark.parametrize("name", BYTES)
def test_an_odd_name_is_a_name(root: Path, shots: Snapshots, name: bytes) -> None:
    """New lines, bytes that are no text, options and patterns are saved as they are."""
    path = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
    path.write_text("1")
    before, shot = tree(root), shots.take()
    path.unlink()

    shots.restore(shot.id)

    assert tree(root) == before


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_path_is_written_outside(root: Path, name: bytes) -> None:
    """Nor into git's own folder."""
    with files.opened(os.fsencode(root)) as folder:
        with pytest.raises(WorkspaceError, match="not a path inside"):
            files.put(folder, name, Content("100644", b""))
        with pytest.raises(WorkspaceError, match="not a path inside"):
            files.remove(folder, name)


def test_a_name_that_git_refuses_costs_that_file_alone(
    root: Path, shots: Snapshots
) -> None:
    """The others are saved and come back."""
    for name in ("git~1", ".git.", ".g\u200cit"):
        (root / name).mkdir()
        (root / name / "config").write_text("1")
    (root / "a").write_text("1")
    shot = shots.take()
    (root / "a").write_text("2")

    assert len(shot.skipped) == 3
    assert [change.path for change in shots.restore(shot.id)] == ["a"]


def test_a_link_out_of_the_tree_is_saved_as_a_link(
    root: Path, shots: Snapshots, tmp_path: Path
) -> None:
    """What it leads to is neither read nor written."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "d").symlink_to(outside)
    shot = shots.take()
    (root / "d").unlink()
    (root / "d").mkdir()
    (root / "d/secret").write_text("mine")

    shots.restore(shot.id)

    assert (root / "d").is_symlink()
    assert tree(outside) == {b"secret": ("file", b"secret")}


def test_a_folder_that_became_a_link_leads_nowhere(
    root: Path, shots: Snapshots, tmp_path: Path
) -> None:
    """The link goes, the folder comes back, what lies behind the link stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("theirs")
    (root / "d").mkdir()
    (root / "d/x").write_text("mine")
    before, shot = tree(root), shots.take()
    (root / "d/x").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)

    shots.restore(shot.id)

    assert tree(root) == before
    assert (outside / "x").read_text() == "theirs"


def test_a_link_that_is_swapped_in_stops_a_write(root: Path, tmp_path: Path) -> None:
    """Between planning and writing too: no link is followed."""
    (root / "d").symlink_to(tmp_path)

    with files.opened(os.fsencode(root)) as folder:
        with pytest.raises(NotADirectoryError):
            files.put(folder, b"d/x", Content("100644", b"out"))
        with pytest.raises(NotADirectoryError):
            files.remove(folder, b"d/x")

    assert not (tmp_path / "x").exists()


def test_a_path_longer_than_the_system_takes_is_left_out(
    root: Path, shots: Snapshots
) -> None:
    """The rest is saved and comes back."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(21):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (root / "a").write_text("1")
    shot = shots.take()
    (root / "a").write_text("2")

    assert [change.path for change in shots.restore(shot.id)] == ["a"]


def test_names_that_differ_in_case_are_two_files(root: Path, shots: Snapshots) -> None:
    """Each gets its own content back."""
    (root / "README").write_text("1")
    (root / "readme").write_text("2")
    before, shot = tree(root), shots.take()
    (root / "README").write_text("3")
    (root / "readme").unlink()

    shots.restore(shot.id)

    assert tree(root) == before


def test_no_command_of_the_tree_is_run(
    root: Path, shots: Snapshots, tmp_path: Path
) -> None:
    """Neither hooks nor filters nor a file system monitor, whoever configured them."""
    proof = tmp_path / "proof"
    touch = f"touch {proof}; cat"
    git(root, "init", "-q")
    hook = root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
    hook.chmod(0o755)
    shot = shots.take()
    for config in (root / ".git/config", tmp_path / "store/config"):
        for key in (
            "core.fsmonitor",
            "filter.f.clean",
            "filter.f.smudge",
            "diff.external",
        ):
            git(root, "config", "-f", str(config), key, touch)
        git(root, "config", "-f", str(config), "core.hooksPath", str(hook.parent))
    (root / ".gitattributes").write_text("* filter=f\n")
    (root / "a").write_text("1")

    shots.take()
    shots.restore(shot.id)

    assert not proof.exists()


def test_attributes_of_the_tree_change_no_byte(root: Path, shots: Snapshots) -> None:
    """Line ends, encodings and keywords come back as they were."""
    rules = "* text eol=crlf ident\nu working-tree-encoding=UTF-16\n"
    (root / ".gitattributes").write_text(rules)
    (root / "a").write_bytes(b"1\r\n2\n$Id$\n")
    (root / "u").write_bytes("é".encode("utf-16"))
    before, shot = tree(root), shots.take()
    (root / "a").unlink()
    (root / "u").unlink()

    shots.restore(shot.id)

    assert tree(root) == before


def test_the_callers_environment_is_not_gits(
    root: Path, shots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`GIT_DIR` and its like lead nowhere else."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "theirs"))
    (root / "a").write_text("1")

    assert shots.take().id
    assert not (tmp_path / "theirs").exists()


def test_a_store_inside_the_tree_is_refused(root: Path) -> None:
    """An agent would edit its own history."""
    with pytest.raises(WorkspaceError, match="inside the workspace"):
        Snapshots(root=root, store=root / "store").take()


def test_a_root_that_is_no_folder_is_named(tmp_path: Path) -> None:
    """The message says what to give."""
    with pytest.raises(WorkspaceError, match="is not a folder: give one"):
        Snapshots(root=tmp_path / "none", store=tmp_path / "s").take()
