"""The page on `guard_graph`, and its example, run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from loopguard_lg.testing.doubles import ScriptedModel
from tests.graph.graphs import agent_of, react

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guard_graph.md").read_text("utf-8")


def test_the_code_of_the_page_runs() -> None:
    """Every block does what it says on a graph of the usual shape."""
    builder = react(ScriptedModel())
    builder.add_node("agent_strong", agent_of(ScriptedModel()))
    names = {"builder": builder}

    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)

    assert "loopguard_escalate" in names["graph"].nodes


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows a loop, the way round it, and the answer."""
    runpy.run_path(str(ROOT / "examples/02_guard_graph.py"), run_name="__main__")

    out = capsys.readouterr().out
    first = [line.split()[0] for line in out.splitlines()[:12]]
    assert first[6:10] == ["loopguard_reflect", "agent", "tools", "loopguard_escalate"]
    assert "Ten years, says policy.md." in out
