"""What the rest costs: imports, command line, replay, hashing, batches, many agents.

Times are of the processor, the median or the least of repeats; where two things are
compared they run in turn in one process. `RECORDINGS` is a folder of recorded runs.

    python benchmarks/speed.py [--only imports replay ...] [--recordings RECORDINGS]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import engine
import overhead
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import LoopGuardMiddleware, Policy, Step, Turn, decide
from loopguard_lg.analysis.replay import check
from loopguard_lg.digests import result_hash
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import lines, parse

Row = tuple[str, str, str]
"""What was measured, what came out, what is aimed at."""


def took(work: Callable[[], Any]) -> float:
    """Seconds of processor time."""
    started = time.process_time()
    work()
    return time.process_time() - started


_IMPORT = """
import sys, time
for name in sys.argv[2:]:
    __import__(name)
started = time.process_time()
exec(sys.argv[1])
print(time.process_time() - started)
"""


def imported(statement: str, *before: str) -> str:
    """Milliseconds of an import in a fresh process, after others."""
    command = [sys.executable, "-c", _IMPORT, statement, *before]
    runs = [float(subprocess.check_output(command)) * 1000 for _ in range(7)]
    return f"{statistics.median(runs):.1f} ms"


def imports() -> Iterator[Row]:
    """Imports in fresh processes."""
    core = "from loopguard_lg import Policy, decide; Policy()"
    for statement in ("import loopguard_lg", core):
        yield statement, imported(statement), "80 ms"
    for statement, before in (
        ("import loopguard_lg", "langgraph.graph"),
        ("from loopguard_lg import guard_graph", "langchain.agents"),
        ("from loopguard_lg import LoopGuardMiddleware", "langchain.agents"),
    ):
        yield f"{statement}, after {before}", imported(statement, before), "30 ms"


def start() -> Iterator[Row]:
    """Start of the command line."""
    times = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "loopguard_lg", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime)
        times[-1] -= before.ru_utime + before.ru_stime
    yield "loopguard --help", f"{statistics.median(times) * 1000:.0f} ms", "300 ms"


def replay(recordings: Path | None) -> Iterator[Row]:
    """Runs replayed by one process."""
    rng, policy = random.Random(1), Policy()
    made = Trajectory(
        id="made", events=tuple(engine.turn(rng, n) for n in range(2_000))
    )
    seconds = min(took(lambda: check(policy, made)) for _ in range(5))
    aim = "25,000 steps/s"
    yield "replay, 1 KB arguments and results", f"{2_000 / seconds:,.0f} steps/s", aim
    if recordings is None:
        return
    found = [x for f in sorted(recordings.glob("*.jsonl.gz")) for x in lines(str(f))]
    runs = [run for run in map(parse, found) if isinstance(run, Trajectory)]
    steps = sum(len(e.steps) for run in runs for e in run.events if isinstance(e, Turn))
    reading = took(lambda: [*map(parse, found)])
    seconds = took(lambda: [check(policy, run) for run in runs])
    yield "replay of recorded runs", f"{steps / seconds:,.0f} steps/s", aim
    both = steps / (seconds + reading)
    yield "the same, reading the file included", f"{both:,.0f} steps/s", aim


def hashing() -> Iterator[Row]:
    """A result of 10 MB."""
    text = engine.text(random.Random(2), 1_000_000) * 10
    turn = Turn(steps=(Step(tool="read", args={"path": "a"}, result=text),))
    policy = Policy()
    for what, work in (
        ("hash of a result of 10 MB", lambda: result_hash(text)),
        ("engine, a step with such a result", lambda: decide(policy, {}, turn)),
    ):
        seconds = min(took(work) for _ in range(15))
        yield what, f"{len(text) / seconds / 1e6:,.0f} MB/s", "500 MB/s"


@tool
async def wait(topic: str) -> str:
    """Look something up, which takes 5 ms."""
    await asyncio.sleep(0.005)
    return overhead.look.invoke({"topic": topic})


class Slow(overhead.Model):
    """New calls in each turn, then a text; serves any number of threads at once."""

    messages: Any = None
    seconds: float = 0
    turns: int = 1
    calls: int = 1

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(self.seconds)
        n = sum(isinstance(message, ToolMessage) for message in messages)
        reply = AIMessage("done")
        if n < self.turns * self.calls:
            names = [f"{n} {k}" for k in range(self.calls)]
            made = [{"name": "wait", "args": {"topic": x}, "id": x} for x in names]
            reply = AIMessage("", tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def many(agent: Any, threads: int) -> None:
    """Run an agent on that many threads at once."""
    given: Any = {"messages": [("user", "go")]}
    configs: Any = [{"configurable": {"thread_id": f"{n}"}} for n in range(threads)]
    runs = [agent.ainvoke(given, config) for config in configs]
    for state in await asyncio.gather(*runs):
        assert state["messages"][-1].text == "done"


def agents() -> Iterator[Row]:
    """200 threads at once on one middleware object, and how fast they are without."""
    guard = LoopGuardMiddleware()
    for seconds, turns in ((0.005, 5), (2.0, 3)):
        rates: dict[str, list[float]] = {"bare": [], "guard": []}
        for _ in range(3):
            for kind, found in rates.items():
                agent = create_agent(
                    Slow(seconds=seconds, turns=turns),
                    [wait],
                    middleware=[guard] if kind == "guard" else [],
                    checkpointer=InMemorySaver(),
                )
                gc.collect()
                started = time.perf_counter()
                asyncio.run(many(agent, 200))
                found.append(200 * turns / (time.perf_counter() - started))
        bare, own = max(rates["bare"]), max(rates["guard"])
        what = f"200 agents at once, the model answers in {seconds * 1000:g} ms"
        yield what, f"{own:.0f} of {bare:.0f} turns/s: {own / bare:.0%}", "95 %"


def batch() -> Iterator[Row]:
    """One reply with 64 calls."""
    times: dict[str, list[float]] = {"bare": [], "guard": []}
    guard = LoopGuardMiddleware()
    for _ in range(9):
        for kind, found in times.items():
            given = [guard] if kind == "guard" else []
            agent = create_agent(Slow(calls=64), [wait], middleware=given)
            found.append(took(lambda agent=agent: asyncio.run(many(agent, 1))))
    bare, own = (statistics.median(found) * 1000 for found in times.values())
    yield "a batch of 64 calls", f"{own:.1f} ms, {bare:.1f} ms without", "-"


def growth() -> Iterator[Row]:
    """The guard's part of the newest checkpoint."""
    for turns in (50, 200, 800):
        _, size = overhead.run("guard", turns, InMemorySaver())
        yield f"the guard in a checkpoint, turn {turns}", f"{size:,} bytes", "8 KB"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "imports": imports,
        "start": start,
        "replay": lambda: replay(given.recordings),
        "hashing": hashing,
        "batch": batch,
        "agents": agents,
        "growth": growth,
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=[*parts])
    parser.add_argument("--recordings", type=Path)
    given = parser.parse_args()
    for name in given.only:
        for what, figure, aim in parts[name]():
            print(f"{what:62} {figure:>32}   aim {aim}", flush=True)


if __name__ == "__main__":
    main()
