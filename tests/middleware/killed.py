"""Runs one agent again and again, killed at another write each time, then resumed.

    python -m tests.middleware.killed FOLDER

Prints a JSON list: for each run the point of the kill (0: none), what the guard decided
by turn, and what the thread ended with. Processes are forked, so that SIGKILL is real.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver

from loopguard_lg import Budget, LoopGuardMiddleware
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, ask, laddered


class Killing(SqliteSaver):
    """A checkpointer that kills its process after a number of writes."""

    left = 0

    def put(self, *args: Any) -> Any:
        """Write a checkpoint, then die if it is time."""
        return self._die_after(super().put(*args))

    def put_writes(self, *args: Any) -> Any:
        """Write what a task did, then die if it is time."""
        return self._die_after(super().put_writes(*args))

    def _die_after(self, done: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def weak(messages: list[Any]) -> Any:
    """Works a little, then searches for the same thing whatever it is told."""
    if len(messages) == 1:
        return [call("read", "r1", path="a"), call("write", "r2", path="n", text="z")]
    return call("search", f"s{len(messages)}", query="x")


def strong(messages: list[Any]) -> Any:
    """Reads a file, then goes on with the same search."""
    if "contents of b" in messages[-1].text:
        return call("search", f"s{len(messages)}", query="x")
    return call("read", f"b{len(messages)}", path="b")


def run(folder: Path, kill_after: int) -> None:
    """Start the thread, or go on with it, up to the kill."""
    seen = folder / "seen.jsonl"

    def note(event: GuardEvent) -> None:
        if event.name == "seen":
            kind = event.verdict.finding and event.verdict.finding.kind
            verdict = [event.verdict.i, event.verdict.action, kind, event.verdict.rung]
            with seen.open("a") as file:
                file.write(json.dumps(verdict) + "\n")

    connection = sqlite3.connect(folder / "state.db", check_same_thread=False)
    saver = Killing(connection)
    saver.setup()
    saver.left = kill_after
    policy = laddered(ScriptedModel(default=strong), turns=2)
    policy = policy.replace(budget=Budget(tool_calls=30))
    agent = create_agent(
        ScriptedModel(default=weak),
        TOOLS,
        middleware=[LoopGuardMiddleware(policy, observers=[note])],
        checkpointer=saver,
    )
    begun = agent.get_state(THREAD).values
    state = agent.invoke(None if begun else ask(), THREAD, durability="sync")
    used = dict(agent.get_state(THREAD).values["loopguard"]["used"]["run"])
    used.pop("seconds")
    end = {"exit": state["loopguard_exit"]["reason"], "used": used}
    (folder / "end.json").write_text(json.dumps(end))


def forked(folder: Path, kill_after: int) -> bool:
    """Run in a process of its own; whether it came to its end."""
    child = os.fork()
    if child == 0:
        run(folder, kill_after)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


def main(root: Path) -> None:
    """Kill after the first write, after the second one, ... until nothing is left."""
    runs = []
    for point in range(200):
        folder = root / str(point)
        folder.mkdir()
        whole = forked(folder, point)
        if not whole:
            forked(folder, 0)
        lines = (folder / "seen.jsonl").read_text().splitlines()
        end = json.loads((folder / "end.json").read_text())
        seen = [json.loads(line) for line in lines]
        runs.append({"point": point, "seen": seen, **end})
        if point and whole:
            break
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
