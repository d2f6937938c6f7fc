"""How long does a snapshot take of a tree of 50,000 files?

Beside it `git status` of the user's own git on the same tree, since seconds depend on
the machine and its neighbours: the ratio does not.

    python benchmarks/workspace.py [FILES]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopguard_lg.workspace.git import Snapshots

FOLDER = 50
"""Files in one folder."""


def filled(root: Path, files: int) -> None:
    """Make a tree of small files."""
    for n in range(files):
        path = root / f"{n // FOLDER // 40}" / f"{n // FOLDER}" / f"{n}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {n}\n")


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(files: int) -> None:
    """Print one line for each measurement."""
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder, "work"), Path(folder, "store")
        filled(root, files)
        shots = Snapshots(root=root, store=store)
        print(f"first snapshot of {files:,} files: {seconds(shots.take):.2f} s")
        for command in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *command], cwd=root, check=True)
        status = ["git", "status", "--porcelain"]
        for changed in (1, 10, 100):
            for n in range(changed):
                (root / "0" / "0" / f"{n % FOLDER}.py").write_text(f"{changed} {n}\n")
            own = seconds(shots.take)
            beside = seconds(
                lambda: subprocess.run(status, cwd=root, stdout=subprocess.DEVNULL)
            )
            back = seconds(lambda: shots.compare(shots.taken()[1].id))
            print(
                f"{changed:4} changed: snapshot {own:.2f} s, {own / beside:.1f} times "
                f"`git status` ({beside:.2f} s); dry run {back:.2f} s"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
