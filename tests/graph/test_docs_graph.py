"""The page on `guard_graph`, and its example, run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg.testing.doubles import ScriptedModel
from tests.graph.graphs import BY_NAME, agent_of, guarded, react
from tests.middleware.runs import THREAD, TOOLS, ask

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


def test_the_code_of_the_page_on_other_ways_in_runs() -> None:
    """Every block works with a model that answers at once, on one thread."""
    model = ScriptedModel(default="found")
    page = (ROOT / "docs/surfaces.md").read_text("utf-8")
    builder = react(model)
    builder.nodes.pop("tools")
    graph = guarded(react(model), checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)
    chain = RunnableLambda(model.invoke)
    names: dict[str, Any] = {"builder": builder, "graph": graph}
    names |= {"chain": chain, "model": model}
    names |= {"tools": TOOLS, "by_name": BY_NAME}

    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)

    assert names["agent"].invoke([HumanMessage("go")])[-1].text == "found"
    assert names["watch"].runs[-1].usage["model_calls"] == 1
    assert graph.get_state(names["branch"]).next == ("agent",)
