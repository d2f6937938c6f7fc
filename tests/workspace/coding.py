"""A coding agent on a small real repository, with tools that edit real files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool

from loopguard_lg import Escalate, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.testing.doubles import Reply, ScriptedModel, call

CHECK = """\
from price import total

try:
    assert total(2, 3) == 6
    print("1 passed")
except AssertionError:
    print("1 failed")
"""
RIGHT = "def total(price, pieces):\n    return price * pieces\n"

GO: dict[str, Any] = {"messages": [("user", "Add a discount to total")]}


def repository(root: Path) -> None:
    """A module that is right, and the check of it."""
    (root / "price.py").write_text(RIGHT)
    (root / "tests").mkdir()
    (root / "tests/test_price.py").write_text(CHECK)
    (root / ".gitignore").write_text("__pycache__\n")


def tools(root: Path) -> list[BaseTool]:
    """A shell, a check and an editor, at work in a folder."""

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        done = subprocess.run(command, shell=True, cwd=root, capture_output=True)
        return f"{done.stdout.decode()}{done.stderr.decode()}exit {done.returncode}"

    @tool
    def run_tests() -> str:
        """Run the tests."""
        path = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "tests/test_price.py"]
        done = subprocess.run(command, cwd=root, capture_output=True, env=path)
        return done.stdout.decode()

    @tool
    def edit_file(path: str, old: str, new: str) -> str:
        """Replace a text in a file."""
        if not (root / path).exists():
            return f"error: no such file: {path}"
        text = (root / path).read_text()
        if old not in text:
            return f"error: {old!r} not found in {path}"
        (root / path).write_text(text.replace(old, new, 1))
        return f"edited {path}"

    return [bash, run_tests, edit_file]


def edit(old: str, new: str, path: str = "price.py") -> Any:
    """A call that edits a file."""
    return call("edit_file", path=path, old=old, new=new)


def failing(n: int) -> list[Any]:
    """Edits each followed by a check that fails in one way."""
    turns: list[Any] = []
    for k in range(n):
        old = "price * pieces" if k == 0 else f"price * pieces - {k}"
        turns += [edit(old, f"price * pieces - {k + 1}"), call("run_tests")]
    return turns


def policy(*rungs: Any, **settings: Any) -> Policy:
    """Reflect, put the files back, give up."""
    ladder = Ladder(*rungs or (Reflect(), Escalate(files=True), GiveUp()))
    return Policy.preset("coding", ladder=ladder, **settings)


def agent(
    root: Path,
    replies: Sequence[Reply],
    guard: LoopGuardMiddleware,
    extra: Sequence[BaseTool] = (),
    **settings: Any,
) -> tuple[Any, ScriptedModel]:
    """An agent that answers from a script, under a guard."""
    model = ScriptedModel(replies, default="done")
    given = [*tools(root), *extra]
    return create_agent(model, given, middleware=[guard], **settings), model


def guarded(place: Workspace, settings: Policy | None = None, **more: Any) -> Any:
    """The guard of such an agent."""
    return LoopGuardMiddleware(settings or policy(), workspace=place, **more)
