"""The example of `guard_graph`, run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows a loop, the way round it, and the answer."""
    runpy.run_path(str(ROOT / "examples/02_guard_graph.py"), run_name="__main__")

    out = capsys.readouterr().out
    first = [line.split()[0] for line in out.splitlines()[:12]]
    assert first[6:10] == ["loopguard_reflect", "agent", "tools", "loopguard_escalate"]
    assert "Ten years." in out
