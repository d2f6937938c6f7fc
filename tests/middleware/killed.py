"""Runs one agent again and again, killed at another moment each time, then resumed.

    python -m tests.middleware.killed FOLDER [--server URI] [--points N] [--seed N]

A moment is just before or just after one of the checkpointer's writes. Without
`--points` there is one after each write, with it so many random ones, half of them on
an event loop, with each durability that writes while the run goes on. The checkpointer
is SQLite, or PostgreSQL or Redis at `--server`.

Prints a JSON list: for each run the moment of the kill (0: none), what the guard
decided by turn, and what the thread ended with. Processes are forked, so that SIGKILL
is real.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent

from loopguard_lg import Budget, LoopGuardMiddleware
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import TOOLS, ask, laddered

SAVERS = {
    "sqlite": "langgraph.checkpoint.sqlite:SqliteSaver",
    "sqlite on a loop": "langgraph.checkpoint.sqlite.aio:AsyncSqliteSaver",
    "postgres": "langgraph.checkpoint.postgres:PostgresSaver",
    "postgres on a loop": "langgraph.checkpoint.postgres.aio:AsyncPostgresSaver",
    "redis": "langgraph.checkpoint.redis:RedisSaver",
    "redis on a loop": "langgraph.checkpoint.redis.aio:AsyncRedisSaver",
}
"""Where each checkpointer is; imported when it is used, as Redis's takes a second."""


@dataclass
class Fuse:
    """Kills its process at a moment (0: never); a tick before and after each write."""

    moment: int
    ticks: int = 0

    def tick(self) -> None:
        """Count, and die if it is time."""
        self.ticks += 1
        if self.ticks == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A checkpointer with a fuse; a graph may write with a copy of it."""

    fuse: Fuse

    def put(self, *args: Any) -> Any:
        """Write a checkpoint."""
        self.fuse.tick()
        done = super().put(*args)
        self.fuse.tick()
        return done

    def put_writes(self, *args: Any) -> None:
        """Write what a task did."""
        self.fuse.tick()
        super().put_writes(*args)
        self.fuse.tick()

    async def aput(self, *args: Any) -> Any:
        """Write a checkpoint."""
        self.fuse.tick()
        done = await super().aput(*args)
        self.fuse.tick()
        return done

    async def aput_writes(self, *args: Any) -> None:
        """Write what a task did."""
        self.fuse.tick()
        await super().aput_writes(*args)
        self.fuse.tick()


def dying(server: str | None, awaits: bool) -> Any:
    """The class of the checkpointer for a server, or for a file, with a fuse."""
    kind = "sqlite"
    if server is not None:
        kind = "redis" if server.startswith(("redis", "unix")) else "postgres"
    saver = resolve_name(SAVERS[kind + " on a loop" * awaits])
    return type(f"Dying{saver.__name__}", (Dying, saver), {})


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


@dataclass(frozen=True)
class Run:
    """One run: where it is kept, how it goes, and when it is killed (0: never)."""

    folder: Path
    server: str | None
    moment: int
    awaits: bool = False
    durability: Any = "sync"
    thread: str = field(default_factory=lambda: uuid4().hex)

    def go(self, moment: int) -> None:
        """Start the thread, or go on with it, up to the moment."""
        kind = dying(self.server, self.awaits)
        kept = kind.from_conn_string(self.server or str(self.folder / "state.db"))
        if self.awaits:
            asyncio.run(self._agoes(kept, moment))
            return
        with kept as saver:
            saver.setup()
            saver.fuse = Fuse(moment)
            agent, thread = self._agent(saver), self._thread
            given = None if agent.get_state(thread).values else ask()
            agent.invoke(given, thread, durability=self.durability)
            self._ended(agent.get_state(thread).values, saver.fuse.ticks)

    async def _agoes(self, kept: Any, moment: int) -> None:
        async with kept as saver:
            await saver.setup()
            saver.fuse = Fuse(moment)
            agent, thread = self._agent(saver), self._thread
            given = None if (await agent.aget_state(thread)).values else ask()
            await agent.ainvoke(given, thread, durability=self.durability)
            self._ended((await agent.aget_state(thread)).values, saver.fuse.ticks)

    @property
    def _thread(self) -> Any:
        return {"configurable": {"thread_id": self.thread}}

    def _agent(self, saver: Any) -> Any:
        policy = laddered(ScriptedModel(default=strong), turns=2)
        policy = policy.replace(budget=Budget(tool_calls=30))
        guard = LoopGuardMiddleware(policy, observers=[self._note])
        model = ScriptedModel(default=weak)
        return create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)

    def _note(self, event: GuardEvent) -> None:
        if event.name == "seen":
            kind = event.verdict.finding and event.verdict.finding.kind
            verdict = [event.verdict.i, event.verdict.action, kind, event.verdict.rung]
            with (self.folder / "seen.jsonl").open("a") as file:
                file.write(json.dumps(verdict) + "\n")

    def _ended(self, state: dict[str, Any], ticks: int) -> None:
        used = dict(state["loopguard"]["used"]["run"])
        used.pop("seconds")
        end = {"exit": state["loopguard_exit"]["reason"], "used": used, "ticks": ticks}
        (self.folder / "end.json").write_text(json.dumps(end))

    def forked(self, moment: int) -> bool:
        """Run in a process of its own; whether it came to its end."""
        child = os.fork()
        if child == 0:
            self.go(moment)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return not os.WIFSIGNALED(status)

    def record(self) -> dict[str, Any]:
        """Run, be killed, and run on: what was seen, and the end."""
        self.folder.mkdir()
        whole = self.forked(self.moment)
        if not whole:
            self.forked(0)
        lines = (self.folder / "seen.jsonl").read_text().splitlines()
        end = json.loads((self.folder / "end.json").read_text())
        seen = [json.loads(line) for line in lines]
        return {"moment": self.moment, "whole": whole, "seen": seen, **end}


def each(root: Path, server: str | None) -> Iterator[dict[str, Any]]:
    """The whole run, then one killed after each write, until nothing is left."""
    for moment in itertools.count(0, 2):
        found = Run(root / f"{moment}", server, moment).record()
        yield found
        if moment and found["whole"]:
            return


def some(
    root: Path, server: str | None, points: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The whole run, then runs killed at random moments."""
    first = Run(root / "whole", server, 0).record()
    yield first
    chance = random.Random(seed)
    for point in range(points):
        yield Run(
            root / f"{point}",
            server,
            chance.randint(1, first["ticks"]),
            awaits=point % 2 == 1,
            durability=chance.choice(["sync", "async"]),
        ).record()


def main() -> None:
    """Read the command line, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server")
    parser.add_argument("--points", type=int)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    for awaits in (False, True):
        dying(given.server, awaits)  # imported once, not in each fork
    if given.points is None:
        runs = each(given.folder, given.server)
    else:
        runs = some(given.folder, given.server, given.points, given.seed)
    json.dump([*runs], sys.stdout)


if __name__ == "__main__":
    main()
