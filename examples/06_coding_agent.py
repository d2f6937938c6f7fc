"""A coding agent on a bug that can't be mended as asked: it is nudged, blocked, rolled
back and handed over.

The replies are those that two small models gave when this was recorded; they edit real
files in a temporary folder:

    python examples/06_coding_agent.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from coding_repository import PROMPT, TASK, InTurns, made, played, told, tools
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware

from loopguard_lg import Escalate, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.workspace.git import Snapshots

# A recording is played faster than it was made, so that the rate of edits differs.
TIMELESS = [detector for detector in DEFAULTS if detector.kind != "edit_rate"]


def run(root: Path, model: Any, *guards: Any) -> dict[str, Any]:
    """The state after a run in a new repository; the model may be called 30 times."""
    middleware = [*guards, ModelCallLimitMiddleware(run_limit=30), InTurns()]
    given = {"system_prompt": PROMPT, "middleware": middleware}
    agent: Any = create_agent(model, tools(made(root)), **given)
    return agent.invoke({"messages": [("user", TASK)]})


def guarded(root: Path, strong: Any, told: Any) -> tuple[Any, Workspace]:
    """A guard that gives up on the files in `root`, and what puts them back."""
    shots = Snapshots(root=root, store=root.with_name("store"))
    workspace = Workspace(root, snapshots=shots, watch=None)
    ladder = Ladder(Reflect(), Escalate(model=strong, files=True), GiveUp())
    policy = Policy.preset("coding", ladder=ladder, detectors=TIMELESS)
    return LoopGuardMiddleware(policy, workspace=workspace, observers=told), workspace


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        with played("weak_coder_spends_all_its_calls") as (weak,):
            print(run(Path(folder, "alone"), weak)["messages"][-1].text, "\n")
        root = Path(folder, "guarded")
        with played("guarded_weak_coder_is_handed_over") as (weak, strong):
            guard, workspace = guarded(root, strong, told)
            state = run(root, weak, guard)
        print(f"\n{hand_over(state).markdown()}")
        for change in workspace.restore(state):  # on your word
            print(f"put back: {change.path}")
