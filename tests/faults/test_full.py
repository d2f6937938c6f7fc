"""Everything that writes files, on a small disk that is full, and on one to read."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg import Recorder
from loopguard_lg.analysis.labels import Label, add_label, write_labels
from loopguard_lg.cli.app import run
from loopguard_lg.telemetry.jsonl import StepLog
from loopguard_lg.testing import bodies
from loopguard_lg.testing.cassettes import _Files
from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.wholefiles import append_whole
from tests.middleware.runs import THREAD, ask, guarded, same
from tests.traces import samples

ROOM = 64 << 10


class Disk:
    """A small disk with a file on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.old = folder / "old"
        self.old.write_bytes(b"as it was\n")

    def fill(self) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), open(self.folder / "fill", "wb", 0) as file:
            while True:
                file.write(b"x" * 512)

    def lock(self) -> None:
        """Let nobody write any more."""
        _mounting("mount", "-o", "remount,ro", str(self.folder))


def _mounting(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    _mounting("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder))
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=["fill", "lock"])
def spoilt(disk: Disk, request: pytest.FixtureRequest) -> Disk:
    """The disk, full or to be read only."""
    getattr(disk, request.param)()
    return disk


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A recording of runs, on another disk."""
    path = tmp_path / "runs.jsonl"
    lines = [json.loads(samples.own()) | {"id": f"r{n}"} for n in range(12)]
    path.write_bytes(samples.lines(*(line | {"success": True} for line in lines)))
    return str(path)


def test_a_command_that_can_t_write_says_so_and_spoils_nothing(
    spoilt: Disk, runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, one line that names the file, and the old file as it was."""
    old = str(spoilt.old)
    for args in (
        ["report", runs, "--out", old],
        ["report", runs, "--run", "r1", "--svg", old],
        ["report", runs, "--run", "r1", "--png", old],
        ["calibrate", runs, "--out", old],
    ):
        assert run(args) == 2, args
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert str(old) in line
        assert "No space left" in line or "Read-only" in line
        assert spoilt.old.read_bytes() == b"as it was\n"


TRAFFIC: dict[str, Any] = {"requests": [], "responses": []}
WRITERS: dict[str, Callable[[Path], Any]] = {
    "labels": lambda path: write_labels(path, {"a": Label(loop=True)}),
    "label": lambda path: add_label(path, "a" * 9_000, Label(loop=True)),
    "cassette": lambda path: _Files.save_cassette(path, TRAFFIC, bodies),
    "line": lambda path: append_whole(path, b"y" * 9_000),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_can_t_be_written_leaves_the_old_file(spoilt: Disk, writer: str) -> None:
    """Nothing of it is there, and no draft is left behind."""
    there = sorted(spoilt.folder.iterdir())
    with pytest.raises(OSError, match="No space left|Read-only"):
        WRITERS[writer](spoilt.old)

    assert spoilt.old.read_bytes() == b"as it was\n"
    assert sorted(spoilt.folder.iterdir()) == there


@pytest.mark.parametrize("kind", [Recorder, StepLog])
def test_a_disk_that_fills_up_costs_rows_and_no_run(disk: Disk, kind: Any) -> None:
    """The run is the same, and what was written before can be read."""
    path = disk.folder / "runs.jsonl"
    with kind(path) as observer:
        guarded(ScriptedModel(replies=same(9)), observers=[observer]).invoke(ask())
        before = path.read_bytes()
        disk.fill()
        agent = guarded(ScriptedModel(replies=same(20)), observers=[observer])
        state = agent.invoke(ask(), THREAD)
        (disk.folder / "fill").unlink()

    assert state["loopguard_exit"]["reason"] == "loop"
    assert before
    assert path.read_bytes().startswith(before)
    assert all(json.loads(line) for line in path.read_bytes().splitlines())
