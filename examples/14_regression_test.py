"""A loop that happened once becomes a test that it does not come back.

The model answers from a script, so that it runs without a key or a network:

    python examples/14_regression_test.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import LoopGuardMiddleware, Policy, Recorder
from loopguard_lg.testing import ScriptedModel, assert_no_loop, assert_trips, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results" if query == "retention" else "ten years, says policy.md"


def record(path: Path, queries: list[str]) -> Path:
    """A recorded run of the agent, watched only."""
    script = [*[call("search", query=query) for query in queries], "Ten years."]
    with Recorder(path) as recorder:
        guard = LoopGuardMiddleware(Policy(observe_only=True), observers=[recorder])
        agent: Any = create_agent(ScriptedModel(script), [search], middleware=[guard])
        agent.invoke({"messages": [("user", "How long do we keep invoices?")]})
    return path


def test_the_old_prompt_went_in_circles(tmp_path: Path) -> None:
    """As it was seen in production: the recording is the evidence."""
    path = record(tmp_path / "old.jsonl", ["retention"] * 4)
    assert_trips(path, kind="repeat", by=3)


def test_the_new_prompt_does_not(tmp_path: Path) -> None:
    """With the prompt that asks for other words after a search without results."""
    assert_no_loop(record(tmp_path / "new.jsonl", ["retention", "keep invoices"]))


if __name__ == "__main__":  # or `pytest examples/14_regression_test.py`
    for test in (test_the_old_prompt_went_in_circles, test_the_new_prompt_does_not):
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))
        print(f"{test.__name__}: passed")
