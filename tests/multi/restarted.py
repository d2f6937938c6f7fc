"""A team whose child asks a person, to be gone on with in another process.

python -m tests.multi.restarted FILE
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from loopguard_lg import AskUser
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, ask, guarded, laddered, loops_until
from tests.multi.teams import child, delegate_to, parent


@tool
def confirm(what: str) -> str:
    """Ask a person by an interrupt."""
    return f"{what}: {interrupt({'confirm': what})}"


def by_progress(first: Any, then: str) -> ScriptedModel:
    """A model that answers by what it is shown, as a new process has no script."""
    return ScriptedModel(
        default=lambda messages: then if messages[-1].type == "tool" else first
    )


def asking_team(saver: Any) -> Any:
    """An agent with a child that asks."""
    inner = child(
        [], tools=[confirm], model=by_progress(call("confirm", what="p"), "d")
    )
    outer = by_progress(call("delegate", task="a"), "found")
    return parent([], [delegate_to(inner)], model=outer, checkpointer=saver)


def looping_agent(saver: Any) -> Any:
    """An agent that loops until a person says `left`."""
    model = loops_until("left", "went left")
    return guarded(model, laddered(end=AskUser()), checkpointer=saver)


AGENTS = {"team": asking_team, "loop": looping_agent}


def run_first_half(file: Path, name: str) -> None:
    """Run an agent until it asks, in a process of its own."""
    command = [sys.executable, "-m", "tests.multi.restarted", str(file), name]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        AGENTS[sys.argv[2]](saver).invoke(ask(), THREAD)
