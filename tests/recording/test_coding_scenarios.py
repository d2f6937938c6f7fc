"""What real models do on a bug that can't be mended as asked: the coding example."""

from __future__ import annotations

import runpy
from pathlib import Path

from langchain_openai import ChatOpenAI

from loopguard_lg.testing.asserts import assert_trips

from .test_scenarios import answered_by, asked

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples/06_coding_agent.py"))


def test_a_weak_coder_spends_all_its_calls(weak: ChatOpenAI, tmp_path: Path) -> None:
    """Left alone, it edits and fails until no call is left."""
    result = EXAMPLE["run"](tmp_path / "work", weak)
    tools = [tool for tool, _ in asked(result)]

    assert len(tools) == 30
    assert tools.count("edit_return") == 15
    assert_trips(result, kind="failing_edits")


def test_a_guarded_weak_coder_is_handed_over(
    weak: ChatOpenAI, strong: ChatOpenAI, tmp_path: Path
) -> None:
    """Told so, it goes on; so it does when rerouted from where the tests passed."""
    root, acts = tmp_path / "work", []
    guard, _ = EXAMPLE["guarded"](root, strong, lambda event: acts.append(event.name))
    result = EXAMPLE["run"](root, weak, guard)
    models = answered_by(result)

    ladder = [act for act in acts if act not in ("seen", "detected")]
    assert ladder[:3] == ["reflected", "blocked", "escalated"]
    assert ladder[-1] == "exited"
    assert {weak.model_name, strong.model_name} <= {*models}
    assert len(models) < 30
    assert result["loopguard_exit"]["kind"] == "failing_edits"
