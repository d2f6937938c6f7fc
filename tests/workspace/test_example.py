"""The example of a coding agent shows what the guard is for, on recorded replies."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "examples/06_coding_agent.py"
EXAMPLE = runpy.run_path(str(PATH))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The guarded run: its state, what the guard did, how parse.py was meanwhile."""
    root = tmp_path_factory.mktemp("example") / "work"
    acts: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        if event.name not in ("seen", "detected"):
            acts.append((event.name, (root / "parse.py").read_text()))

    with EXAMPLE["played"]("guarded_weak_coder_is_handed_over") as (weak, strong):
        guard, workspace = EXAMPLE["guarded"](root, strong, note)
        state = EXAMPLE["run"](root, weak, guard)
    return {"state": state, "acts": acts, "root": root, "workspace": workspace}


def test_the_agent_is_nudged_blocked_rolled_back_and_handed_over(
    run: dict[str, Any],
) -> None:
    """Two small models go up the ladder; one step of progress takes them down again."""
    names = [name for name, _ in run["acts"]]

    assert names == ["reflected", "blocked", "escalated", "escalated", "exited"]
    assert run["state"]["loopguard_exit"]["usage"]["model_calls"] == 18


def test_its_files_are_back_before_another_model_goes_on(run: dict[str, Any]) -> None:
    """At each escalation parse.py is what it was when the tests passed."""
    texts = [text for name, text in run["acts"] if name == "escalated"]

    assert texts == ["def parse(text):\n    return float(text)\n"] * 2


def test_the_example_says_what_became_of_both_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the guard all calls are spent; with it there is a hand-over."""
    runpy.run_path(str(PATH), run_name="__main__")

    out = capsys.readouterr().out
    assert out.startswith("Model call limits exceeded: run limit (30/30)")
    assert "# Hand-over" in out
    assert out.endswith("put back: parse.py\n")
