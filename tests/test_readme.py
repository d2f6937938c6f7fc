from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg import Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, ask, guarded, notes, same

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block does what it says, one after the other, on a scripted model."""
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    monkeypatch.chdir(tmp_path)
    model = ScriptedModel(default="done")
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {"messages": [("ai", "done")]})
    builder.add_node("tools", ToolNode(TOOLS))
    builder.set_entry_point("agent")
    ends = ["tools", "__end__"]
    builder.add_conditional_edges("agent", lambda state: "__end__", ends)
    builder.add_edge("tools", "agent")
    names = {"model": model, "strong": model, "tools": TOOLS, "builder": builder}

    for block in BLOCKS:
        exec(block, names)

    assert (tmp_path / "runs.jsonl").read_text().count("\n") == 1


def test_the_nudge_of_the_readme_is_what_a_model_is_told() -> None:
    """Word for word, as a run with a write and a loop brings it."""
    start = call("write", path="notes.md", text="todo")
    model = ScriptedModel(replies=[start, *same(3), "found"])
    guarded(model).invoke(ask(), THREAD)
    (shown,) = re.findall(r"```text\n(.*?)\n```", README, re.DOTALL)

    assert notes(model)[-1] == shown


@pytest.mark.parametrize("detector", Policy().detectors, ids=lambda d: d.kind)
def test_the_defaults_of_the_readme_are_those_of_the_code(detector: Any) -> None:
    """The numbers of a detector's row are its thresholds, in their order."""
    name = type(detector).__name__
    (row,) = re.findall(rf"^\| `{name}` .*\| (.*) \|$", README, re.MULTILINE)
    numbers = [int(number) for number in re.findall(r"\d+", row)]

    values = [getattr(detector, f.name) for f in fields(detector)]
    assert numbers == [v for v in values if type(v) in (int, float)]
