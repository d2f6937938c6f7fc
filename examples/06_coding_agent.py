"""A coding agent on a bug that can't be mended as asked: it is nudged, blocked, rolled
back and handed over.

The model answers from a script and edits real files in a temporary folder:

    python examples/06_coding_agent.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from coding_repository import TASK, made, stubborn, tools
from langchain.agents import create_agent

from loopguard_lg import Escalate, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.workspace.git import Snapshots


def told(event: GuardEvent) -> None:
    """Print what the guard did."""
    if event.name not in ("seen", "detected"):
        print(f"{event.name:10} {event.text.partition(chr(10))[0][:100]}")


def run(root: Path, *middleware: Any) -> tuple[dict[str, Any], int]:
    """The state after a run in a new repository, and how many calls the model had."""
    model = stubborn(tries=15)
    agent: Any = create_agent(model, tools(made(root)), middleware=middleware)
    return agent.invoke({"messages": [("user", TASK)]}), len(model.requests)


ladder = Ladder(Reflect(), Escalate(files=True), GiveUp())
policy = Policy.preset("coding", ladder=ladder)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _, alone = run(Path(folder, "alone"))
        root = Path(folder, "guarded")
        root.mkdir()
        shots = Snapshots(root=root, store=Path(folder, "store"))
        workspace = Workspace(root, snapshots=shots)
        guard = LoopGuardMiddleware(policy, workspace=workspace, observers=[told])
        state, calls = run(root, guard)
        print(f"\nwithout the guard {alone} model calls, with it {calls}\n")
        print(hand_over(state).markdown())
        for change in workspace.restore(state):  # on your word
            print(f"put back: {change.path}")
