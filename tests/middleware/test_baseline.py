from __future__ import annotations

import logging

import pytest
from langchain.agents import create_agent

from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call


class NamedModel(ScriptedModel):
    """A scripted model with a name."""

    model_name: str = "gpt-x-2026-01-02"


@pytest.mark.parametrize(
    ("calibrated_for", "warned"),
    [("gpt-y", True), ("gpt-x", False), ("openai:gpt-x", False), ("", False)],
)
def test_budgets_of_another_model_are_warned_about_once(
    calibrated_for: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The first model call says that a new baseline is wanted; a dated name is none."""
    policy = Policy(calibrated_for=calibrated_for)

    def look() -> str:
        """Look."""
        return "found"

    model = NamedModel([call("look"), "done"])
    agent = create_agent(model, [look], middleware=[LoopGuardMiddleware(policy)])
    with caplog.at_level(logging.WARNING, "loopguard_lg"):
        agent.invoke({"messages": [("user", "go")]})

    said = [text for text in caplog.messages if "make a new baseline" in text]
    assert len(said) == warned
