"""What a real model does on a bug that can't be mended as asked."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_openai import ChatOpenAI

from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.adapters.middleware import LoopGuardMiddleware
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.ladder import Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.policy import Policy
from loopguard_lg.workspace.git import Snapshots

from .repository import FirstReplyCalls
from .test_scenarios import asked

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples/06_coding_agent.py"))
PROMPT = (
    "You work on a repository with parse.py, run_tests.py and tests/. First run the "
    "tests of tests/test_thousands.py. Then edit parse.py with write_file and run all "
    "tests, until they pass. One call at a time."
)


def coder(model: ChatOpenAI, root: Path, *middleware: Any) -> Any:
    """The example's agent, with a real model."""
    EXAMPLE["made"](root)
    return create_agent(
        model,
        EXAMPLE["tools"](root),
        system_prompt=PROMPT,
        middleware=[*middleware, FirstReplyCalls(notes=True)],
    )


@pytest.fixture
def task() -> dict[str, Any]:
    """What the person asks for."""
    return {"messages": [("user", EXAMPLE["TASK"])]}


def test_a_weak_coder_edits_in_circles(
    weak: ChatOpenAI, tmp_path: Path, task: dict[str, Any]
) -> None:
    """Left alone, it spends every call that it may make."""
    limit = ModelCallLimitMiddleware(run_limit=16)
    result = coder(weak, tmp_path / "work", limit).invoke(task)
    tools = [tool for tool, _ in asked(result)]

    assert len(tools) >= 15
    assert tools.count("write_file") >= 3


def test_a_guarded_weak_coder_is_handed_over(
    weak: ChatOpenAI, tmp_path: Path, task: dict[str, Any]
) -> None:
    """Told so, it goes on; its files go back, and a person gets the hand-over."""
    root, acts = tmp_path / "work", []
    root.mkdir()
    # A replay is faster than the model was, so that the rate of edits differs.
    timeless = [each for each in DEFAULTS if each.kind != "edit_rate"]
    ladder = Ladder(Reflect(), Escalate(files=True), GiveUp())
    policy = Policy.preset("coding", ladder=ladder, detectors=timeless)
    shots = Snapshots(root=root, store=tmp_path / "store")
    guard = LoopGuardMiddleware(
        policy,
        workspace=Workspace(root, snapshots=shots, watch=None),
        observers=lambda event: acts.append(event.name),
    )
    result = coder(weak, root, guard).invoke(task)

    assert "reflected" in acts
    assert result["loopguard_exit"]["reason"] in ("loop", "gave_up", "budget")
    assert "parse.py" in hand_over(result).files
