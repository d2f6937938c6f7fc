"""How long the analyses take: a million made steps, a folder of recordings, the page.

    python benchmarks/analysis.py [--steps 1000000] [--recordings FOLDER]

1. Made runs are put into a store, and every metric is computed for every grouping, from
   the tables in memory, from Parquet and from JSON lines.
2. `loopguard check` and `loopguard report` go over all recordings of the folder, as
   commands; memory is that of the largest process and of the whole tree.
3. Headless Chromium opens the page of that report, five times, each in a new tab.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from loopguard_lg.analysis.facts import RunFacts, StepRow
from loopguard_lg.analysis.metrics import DIMENSIONS, groups, stored
from loopguard_lg.traces.store import Store

PER_RUN = 20


def made(steps: int) -> Iterator[RunFacts]:
    """Runs of twenty steps, a fifth of them with a loop, of 5 models and 12 tools."""
    rng = random.Random(1)
    for n in range(steps // PER_RUN):
        loops, model = rng.random() < 0.2, f"model-{n % 5}"
        tools = [f"tool-{rng.randrange(12)}" for _ in range(PER_RUN)]
        rows = tuple(
            StepRow(
                i=i, agent=f"agent-{i % 3}", model=model, tool=tool,
                args_hash=f"{rng.getrandbits(64):016x}",
                result_hash=f"{rng.getrandbits(64):016x}", state=None, error=None,
                seconds=rng.random(), tokens=float(rng.randrange(2_000)),
                cost=rng.random() / 100, repeat=loops and i > 9, idle=loops and i > 9,
                loop=loops and i > 9,
            )
            for i, tool in enumerate(tools)
        )  # fmt: skip
        yield RunFacts(
            id=f"run-{n}", model=model, success=rng.random() < 0.7 and not loops,
            versions={"prompt": str(n % 3)}, kind="repeat" if loops else None,
            tool=tools[-1] if loops else None, step=12 if loops else None,
            spent={"usd": sum(row.cost or 0 for row in rows)}, rows=rows,
            steps=len(rows), wasted=sum(row.repeat for row in rows),
        )  # fmt: skip


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Do it, and print how long it took."""
    began, spent = time.perf_counter(), time.process_time()
    done = work()
    took, spent = time.perf_counter() - began, time.process_time() - spent
    print(f"{what:44} {took:7.1f} s, of the processor {spent:7.1f} s", flush=True)
    return done


def every_figure(store: Store) -> list[Any]:
    """All metrics of all groupings."""
    return [list(groups(store, by)) for by in DIMENSIONS]


def million(steps: int) -> None:
    """The made steps."""
    runs = list(made(steps))
    store = timed(f"{steps:,} steps into the tables", lambda: stored(runs))
    timed("every metric by every grouping", lambda: every_figure(store))
    with tempfile.TemporaryDirectory() as folder:
        timed("kept as Parquet", lambda: store.save(folder))

        def loaded() -> list[Any]:
            return every_figure(Store().load(folder))

        timed("loaded from Parquet, and every metric", loaded)
        for name in ("runs", "steps"):
            path = Path(folder) / f"{name}.parquet"
            out = path.with_suffix(".jsonl")
            duckdb.sql(f"COPY (FROM '{path}') TO '{out}' (FORMAT json)")
            path.unlink()
        timed("loaded from JSON lines, and every metric", loaded)


def tree_memory(root: int) -> int:
    """Resident megabytes of a process and those below it."""
    shown = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
    )
    table = [tuple(map(int, line.split())) for line in shown.stdout.splitlines()]
    wanted, total = {root}, 0
    for pid, parent, resident in sorted(table):
        if pid in wanted or parent in wanted:
            wanted.add(pid)
            total += resident
    return total // 1024


def command(*args: str) -> None:
    """Run `loopguard`, and print time and the most memory of its processes."""
    began = time.perf_counter()
    line = [sys.executable, "-m", "loopguard_lg", *args]
    process = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    most = [0]

    def watch() -> None:
        while process.poll() is None:
            most[0] = max(most[0], tree_memory(process.pid))
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    watcher.join()
    took = time.perf_counter() - began
    print(f"{'loopguard ' + args[0]:52} {took:7.1f} s  {most[0]:6} MB")


def opened(page: Path) -> None:
    """How long Chromium takes to open the page, in the median."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        path = shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=args)
        times = []
        for _ in range(5):
            tab = browser.new_page()
            began = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="load")
            tab.screenshot()
            times.append(time.perf_counter() - began)
            tab.close()
        browser.close()
    size = page.stat().st_size / 1e6
    took = statistics.median(times)
    print(f"{f'the page ({size:.1f} MB) opened and drawn':52} {took:7.2f} s")


def main() -> None:
    """All of it; what is not there is left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--recordings", type=Path)
    args = parser.parse_args()
    million(args.steps)
    if args.recordings is None:
        return
    files = [str(path) for path in sorted(args.recordings.glob("*.jsonl.gz"))]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command("check", *files)
        command("report", *files, "--out", str(page))
        if shutil.which("chromium"):
            opened(page)


if __name__ == "__main__":
    main()
