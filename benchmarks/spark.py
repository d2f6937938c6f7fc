"""How replay scales: one process, processes, and Spark on one and two cores.

    python benchmarks/spark.py [RUNS] [STEPS]

Made runs of so many steps; each engine replays all of them and fetches what a report
needs. Spark's start is given by itself. Ratios count, as all are of one sitting.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from loopguard_lg import Policy
from loopguard_lg.analysis import report
from loopguard_lg.analysis.replay import map_runs
from loopguard_lg.traces import spark
from loopguard_lg.traces.readers import lines

LOOK = partial(report.look, Policy(budget=()))


def made(runs: int, steps: int) -> Path:
    """A file of runs that search for something new with each call."""
    file = Path(tempfile.mkdtemp(prefix="spark")) / "runs.jsonl"
    with file.open("w") as out:
        for n in range(runs):
            calls = [
                {"tool": "search", "args": {"q": f"{n} {i}"}, "result": f"hit {i * n}"}
                for i in range(steps)
            ]
            turns = [{"agent": "main", "calls": [call]} for call in calls]
            out.write(json.dumps({"id": f"r{n}", "steps": turns}) + "\n")
    return file


def timed(name: str, work: Callable[[], int], steps: int, base: float) -> float:
    """Print how long it took; gives the seconds."""
    began = time.perf_counter()
    runs = work()
    took = time.perf_counter() - began
    rate = runs * steps / took
    print(f"{name:24} {took:7.1f} s {rate:9,.0f} steps/s {(base or took) / took:5.2f}x")
    return took


def on_spark(file: Path, cores: int, steps: int, base: float) -> None:
    """Replay on a session of so many cores, its start apart."""
    began = time.perf_counter()
    session = spark.session(cores)
    list(spark.map_runs(len_of, [str(file.with_name("one.jsonl"))], session))
    print(f"{f'spark starts, {cores} cores':24} {time.perf_counter() - began:7.1f} s")
    work = partial(spark.map_runs, LOOK, [str(file)], session)
    timed(f"spark, {cores} cores", lambda: sum(1 for _ in work()), steps, base)
    session.stop()


def len_of(run: object) -> int:
    """Next to nothing, to have the workers started."""
    return 1


def main(runs: int = 2_000, steps: int = 50) -> None:
    """Run all and print them."""
    file = made(runs, steps)
    first = file.read_text().split("\n", 1)[0]
    file.with_name("one.jsonl").write_text(first + "\n")
    count = lambda jobs: sum(1 for _ in map_runs(LOOK, lines(str(file)), jobs))  # noqa: E731
    print(f"{runs * steps:,} steps in {runs:,} runs")
    base = timed("one process", lambda: count(1), steps, 0.0)
    timed("two processes", lambda: count(2), steps, base)
    for cores in (1, 2):
        on_spark(file, cores, steps, base)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
