"""How long the engine takes for a step, and how large its memory is, over a long run.

Every detector is on; arguments and results have 1 KB each and differ from step to
step, with loops and edits in between. Prints the median in microseconds at several
lengths, the ratio of the last to the first, and the memory in bytes.

    python benchmarks/engine.py [--steps 100000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import ormsgpack

from loopguard_lg import Policy, Step, Turn, decide

WORDS = [f"{a}{b}" for a in "bcdfghjklm" for b in ("ar", "en", "is", "ol", "um", "ex")]


def text(rng: random.Random, size: int) -> str:
    """Words and numbers of about `size` characters, in lines."""
    words: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(WORDS) if rng.random() < 0.9 else str(rng.randrange(10_000))
        words.append(word + ("\n" if rng.random() < 0.1 else " "))
        length += len(word) + 1
    return "".join(words)[:size]


def turn(rng: random.Random, n: int) -> Turn:
    """One turn of a long mixed run: mostly new reads, some edits, some repeats."""
    kind = rng.random()
    if kind < 0.1:
        args = {
            "path": f"src/m{n % 7}.py",
            "old": text(rng, 500),
            "new": text(rng, 500),
        }
        step = Step(tool="edit_file", args=args, result="applied")
    elif kind < 0.2:
        fixed = random.Random(n // 40)
        args = {"query": text(fixed, 1000)}
        step = Step(tool="search", args=args, result=text(fixed, 1000))
    else:
        step = Step(tool="read", args={"what": text(rng, 1000)}, result=text(rng, 1000))
    return Turn(text=f"step {n}", steps=(step,), seconds=0.0)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    marks = [m for m in (200, 1_000, 10_000, 50_000, 100_000) if m <= steps]
    rng = random.Random(1)
    policy = Policy(budget=())
    memory: dict[str, object] = {}
    times: list[float] = []
    at: dict[int, tuple[float, int]] = {}
    for n in range(1, steps + 1):
        event = turn(rng, n)
        started = time.perf_counter()
        _, memory = decide(policy, memory, event)
        times.append(time.perf_counter() - started)
        if n in marks:
            at[n] = (
                statistics.median(times[-1000:]) * 1e6,
                len(ormsgpack.packb(memory)),
            )
    print(f"{'step':>8} {'µs/step':>8} {'memory':>8}")
    for n, (median, size) in at.items():
        print(f"{n:>8} {median:>8.1f} {size:>8}")
    first = statistics.median(times[100:1100]) * 1e6
    last = statistics.median(times[-1000:]) * 1e6
    print(f"median {statistics.median(times) * 1e6:.1f} µs, p99 ", end="")
    print(f"{sorted(times)[int(len(times) * 0.99)] * 1e6:.1f} µs, ", end="")
    print(f"last 1000 to steps 100-1100: {last / first:.2f}")


if __name__ == "__main__":
    main()
