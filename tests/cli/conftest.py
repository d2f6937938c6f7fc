"""Recordings for the command line to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg.cli.app import run


class Shell:
    """Runs `loopguard` in a folder and keeps what came of it."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def write(self, name: str, *runs: dict[str, Any] | str) -> str:
        """Write a file of JSON lines; a string is a line as it is."""
        lines = [line if isinstance(line, str) else json.dumps(line) for line in runs]
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    def __call__(self, *args: str) -> tuple[int, str, str]:
        """Exit status, output and errors of a command line."""
        self._capture.readouterr()
        status = run(args)
        return (status, *self._capture.readouterr())


@pytest.fixture
def loopguard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line, in an empty folder."""
    return Shell(tmp_path, capsys)


@pytest.fixture
def trajectory() -> Callable[..., dict[str, Any]]:
    """Makes a run that asks the same thing each time and is given `results`."""

    def make(name: str, *results: str, **more: Any) -> dict[str, Any]:
        calls = [{"tool": "search", "args": {"q": "x"}, "result": r} for r in results]
        steps = [{"i": i, "agent": "main", "calls": [c]} for i, c in enumerate(calls)]
        return {"id": name, "success": None, **more, "steps": steps}

    return make


@pytest.fixture
def loop(trajectory: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A run that goes in circles."""
    return trajectory("loop", *["no results"] * 6)


@pytest.fixture
def fine(trajectory: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A run that does not."""
    return trajectory("fine", "the first of three", "and a second", success=True)
