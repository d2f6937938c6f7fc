"""A real agent that edits a real file in vain: told once, then blocked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import AskUser, Ladder, Policy, Reflect
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, ask, guarded, last, notes, results

CHECK = "import app\nassert app.half(3) == 1.5, f'{app.half(3)} is 1 failed test'\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A program with a bug, and its check."""
    (tmp_path / "app.py").write_text("def half(n):\n    return n - 0\n")
    (tmp_path / "check.py").write_text(CHECK)
    return tmp_path


def tools(root: Path) -> list[BaseTool]:
    """What edits and checks the repository."""

    @tool
    def edit_file(path: str, old: str, new: str) -> str:
        """Replace a text in a file."""
        text = (root / path).read_text()
        (root / path).write_text(text.replace(old, new))
        return "applied"

    @tool
    def run_tests() -> str:
        """Run the check."""
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "check.py"],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
        )
        return "1 failed, 0 passed" if done.returncode else "1 passed"

    return [edit_file, run_tests]


def edit(old: str, new: str) -> Any:
    """A call that changes the program."""
    return call("edit_file", path="app.py", old=f"n {old}", new=f"n {new}")


def vain(times: int) -> list[Any]:
    """Edits that don't mend it, each with a check."""
    return [
        one
        for n in range(times)
        for one in (edit(f"- {n}", f"- {n + 1}"), call("run_tests"))
    ]


ASKS = Policy(ladder=Ladder(Reflect(), AskUser()))


def test_the_edit_after_the_note_is_not_executed(repository: Path) -> None:
    """The file stays as it is, and the run ends with the reason, headless."""
    model = ScriptedModel(replies=[*vain(3), edit("- 3", "/ 2"), "done"])
    state = guarded(model, ASKS, tools=tools(repository)).invoke(ask(), THREAD)

    assert "3 edits in a row" in notes(model)[6]
    assert "n - 3" in (repository / "app.py").read_text()
    refused = [m.text for m in results(state["messages"]) if m.status == "error"]
    assert "`app.py` was edited in circles (failing_edits)" in refused[0]
    assert "ask how to go on" in refused[0]
    assert last(state).response_metadata["loopguard_exit"]["kind"] == "failing_edits"


def test_the_next_word_releases_the_file(repository: Path) -> None:
    """A person has spoken: the same edit is made, and the check passes."""
    mend = [edit("- 3", "/ 2"), call("run_tests"), "done"]
    model = ScriptedModel(replies=[*vain(3), "I am stuck.", *mend])
    agent = guarded(model, ASKS, tools=tools(repository), checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    state = agent.invoke(ask("divide by two"), THREAD)

    assert "n / 2" in (repository / "app.py").read_text()
    assert results(state["messages"])[-1].text == "1 passed"


def test_without_the_block_the_edit_is_made(repository: Path) -> None:
    """`block_ignored=False`."""
    policy = Policy(ladder=Ladder(Reflect(), AskUser(), block_ignored=False))
    model = ScriptedModel(
        replies=[*vain(3), edit("- 3", "/ 2"), call("run_tests"), "done"]
    )
    state = guarded(model, policy, tools=tools(repository)).invoke(ask(), THREAD)

    assert results(state["messages"])[-1].text == "1 passed"
    assert last(state).text == "done"
