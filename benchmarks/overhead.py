"""What the guard adds to an agent, beside what langchain's two call limiters add.

Three agents run side by side, interleaved, on a model that answers at once: bare, with
this guard (everything on), and with `ModelCallLimitMiddleware` and
`ToolCallLimitMiddleware`. Prints milliseconds of processor time per turn, the part that
each adds, the ratio of the two with a bootstrap interval, and the guard's bytes in a
checkpoint.

    python benchmarks/overhead.py [--repeats 9] [--turns 100 1000] [--savers memory]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ormsgpack
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from loopguard_lg import LoopGuardMiddleware

KINDS: dict[str, Callable[[], list[Any]]] = {
    "bare": list,
    "guard": lambda: [LoopGuardMiddleware()],
    "limiters": lambda: [
        ModelCallLimitMiddleware(thread_limit=100_000),
        ToolCallLimitMiddleware(thread_limit=100_000),
    ],
}


WORDS = [
    f"{a}{b}{c}" for a in "bdgklmnprst" for b in "aeiou" for c in ("n", "rk", "st")
]


@tool
def look(topic: str) -> str:
    """Look something up."""
    rng = random.Random(topic)
    return " ".join(rng.choice(WORDS) for _ in range(100))


class Model(GenericFakeChatModel):
    """Answers at once with the next reply."""

    def bind_tools(self, tools: Any, **settings: Any) -> Model:
        """The tools are in the script already."""
        return self


def replies(turns: int) -> Any:
    """One new call a turn, then a text."""
    for n in range(turns):
        call = {"name": "look", "args": {"topic": f"topic {n}"}, "id": f"c{n}"}
        yield AIMessage("", tool_calls=[call])
    yield AIMessage("done")


def run(kind: str, turns: int, saver: Any) -> tuple[float, int]:
    """Milliseconds per turn of one run, and the guard's bytes in its checkpoint."""
    model = Model(messages=replies(turns))
    agent = create_agent(model, [look], middleware=KINDS[kind](), checkpointer=saver)
    config: Any = {"configurable": {"thread_id": kind}, "recursion_limit": 10 * turns}
    gc.collect()
    started = time.process_time()
    state = agent.invoke({"messages": [("user", "go")]}, config, durability="sync")
    took = (time.process_time() - started) * 1000 / turns
    if state["messages"][-1].text != "done":
        raise SystemExit(f"{kind} did not come to its end")
    values = saver.get_tuple(config).checkpoint["channel_values"]
    own = values.get("loopguard")
    return took, len(ormsgpack.packb(own)) if own else 0


def saver_of(name: str, folder: str, n: int) -> Any:
    """A new checkpointer."""
    if name == "memory":
        return InMemorySaver()
    file = str(Path(folder) / f"{n}.db")
    return SqliteSaver(sqlite3.connect(file, check_same_thread=False))


def ratios(times: dict[str, Sequence[float]], rng: random.Random) -> list[float]:
    """Bootstrapped ratios of what the guard adds to what the limiters add."""
    rounds = range(len(times["bare"]))
    out = []
    for _ in range(2_000):
        pick = rng.choices(rounds, k=len(rounds))
        mid = {k: statistics.median(v[i] for i in pick) for k, v in times.items()}
        added = mid["limiters"] - mid["bare"]
        out.append((mid["guard"] - mid["bare"]) / added if added > 0 else float("inf"))
    return sorted(out)


def measure(name: str, turns: int, repeats: int) -> None:
    """Run the three agents interleaved and print what came out."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    own = 0
    count = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for kind in KINDS:
                took, size = run(kind, turns, saver_of(name, folder, next(count)))
                times[kind].append(took)
                own = max(own, size)
    mid = {kind: statistics.median(found) for kind, found in times.items()}
    spread = ratios(times, random.Random(1))
    low, high = spread[50], spread[-50]
    print(
        f"{name:>7} {turns:>6} "
        + " ".join(f"{mid[kind]:>9.3f}" for kind in KINDS)
        + f" {mid['guard'] - mid['bare']:>+9.3f} {mid['limiters'] - mid['bare']:>+9.3f}"
        + f" {spread[len(spread) // 2]:>6.2f} [{low:.2f}, {high:.2f}] {own:>7}"
    )


def main() -> None:
    """Run every combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--turns", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--savers", nargs="+", default=["memory", "sqlite"])
    given = parser.parse_args()
    print("ms per turn; added by guard and limiters; ratio [95 %]; guard's bytes")
    print(f"{'saver':>7} {'turns':>6} " + " ".join(f"{kind:>9}" for kind in KINDS))
    for name in given.savers:
        for turns in given.turns:
            measure(name, turns, given.repeats if turns <= 100 else 3)


if __name__ == "__main__":
    main()
