"""The example of a coding agent shows what the guard is for."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/06_coding_agent.py"


def test_the_agent_is_nudged_blocked_rolled_back_and_handed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the guard it burns whatever it may; with it the files come back."""
    runpy.run_path(str(EXAMPLE), run_name="__main__")

    out = capsys.readouterr().out
    acts = [line.split()[0] for line in out.partition("\n\n")[0].splitlines()]
    assert acts == ["reflected", "blocked", "escalated", "exited"]
    assert "without the guard 33 model calls, with it 18" in out
    assert "# Hand-over" in out
    assert out.endswith("put back: parse.py\n")
