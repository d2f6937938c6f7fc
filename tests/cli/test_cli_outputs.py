"""What the commands write: never over what they read, and in any encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell

COMMANDS = {
    "export": ("export", "r.jsonl", "--out", "./r.jsonl"),
    "twice": ("export", "r.jsonl", "--out", "x.jsonl", "--pairs", "x.jsonl"),
    "calibrate": ("calibrate", "r.jsonl", "--out", "r.jsonl"),
    "report": ("report", "r.jsonl", "--out", "r.jsonl"),
    "picture": ("report", "r.jsonl", "--svg", "r.jsonl"),
    "judge": ("judge", "r.jsonl", "--labels=l", "--model=m", "--out=l"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_written_over_what_is_read(
    loopguard: Shell, loop: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The command ends before the recording is touched, and says what would go."""
    monkeypatch.chdir(loopguard.folder)
    recording = Path(loopguard.write("r.jsonl", loop))
    before = recording.read_bytes()

    status, _, err = loopguard(*COMMANDS[name])

    assert (status, recording.read_bytes()) == (2, before)
    assert "this would write over" in err


def test_a_terminal_without_a_sign_is_shown_another(
    loopguard: Shell, loop: Any
) -> None:
    """An encoding that has no dash is no traceback."""
    runs = loopguard.write("r.jsonl", loop)
    command = [sys.executable, "-m", "loopguard_lg", "compare", runs, runs]
    plain = {**os.environ, "PYTHONIOENCODING": "latin-1"}

    done = subprocess.run(command, capture_output=True, env=plain, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"| cost | ? | ? |" in done.stdout
