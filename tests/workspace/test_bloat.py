"""An app that compacts its context, and an agent that is told before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deepagents.middleware.summarization import compute_summarization_defaults
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware

from loopguard_lg import GiveUp, LoopGuardMiddleware, Reflect
from loopguard_lg.adapters.compaction import compaction_at
from loopguard_lg.detectors import Bloat
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.workspace.coding import GO, policy, repository, tools


def summarizing(at: int) -> SummarizationMiddleware:
    """What compacts the context."""
    return SummarizationMiddleware(ScriptedModel(["so far"]), trigger=("tokens", at))


def told(root: Path, at: int) -> list[str]:
    """What the model is told before its last words, in an app that compacts there."""
    repository(root)
    summarizer = summarizing(at)
    bloat = Bloat(compaction_at=compaction_at(summarizer))
    guard = LoopGuardMiddleware(policy(Reflect(), GiveUp(), detectors=[bloat]))
    model = ScriptedModel([call("bash", command="seq 1 90"), call("run_tests"), "end"])
    graph = create_agent(model, tools(root), middleware=[summarizer, guard])

    graph.invoke(GO)
    return [request.text for request in model.requests]


def test_the_agent_is_told_before_the_app_compacts(root: Path) -> None:
    """To finish the step and to hand over."""
    (*_, last) = told(root, 80)

    assert "the context is about to be compacted" in last
    assert "finish this step and hand over" in last


def test_it_is_not_told_while_there_is_room(root: Path) -> None:
    """Half of what there is room for is no signal."""
    assert not any("compacted" in text for text in told(root, 10_000))


@pytest.mark.parametrize(
    ("trigger", "tokens"),
    [
        (("tokens", 900), 900),
        (("fraction", 0.5), 1_000),
        ([("tokens", 900), ("fraction", 0.4)], 800),
        ({"tokens": 700, "messages": 20}, 700),
        (("messages", 20), None),
        (None, None),
        (summarizing(60), 60),
    ],
)
def test_a_trigger_is_read(trigger: Any, tokens: int | None) -> None:
    """In every form that a summarization middleware takes."""
    model = SimpleNamespace(profile={"max_input_tokens": 2_000})

    assert compaction_at(trigger, model) == tokens


def test_the_trigger_of_deepagents_is_read_from_its_defaults() -> None:
    """A model that tells no window is compacted at a fixed number of tokens."""
    model = ScriptedModel([])
    trigger = compute_summarization_defaults(model)["trigger"]

    assert compaction_at(trigger, model) == 170_000


def test_a_wrong_number_is_refused() -> None:
    """With its name and value."""
    with pytest.raises(PolicyError, match=r"Bloat\(compaction_at=0\)"):
        Bloat(compaction_at=0)
