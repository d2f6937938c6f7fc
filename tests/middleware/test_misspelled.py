"""Names in a policy that look like a slip for a tool's."""

from __future__ import annotations

import pytest

from loopguard_lg import Budget, Policy, ToolPolicy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import ask, guarded


def _said(policy: Policy, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged of names in two runs of one agent."""
    model = ScriptedModel(replies=[call("read", path="a")], default="found")
    agent = guarded(model, policy)
    for _ in range(2):
        agent.invoke(ask())
    return [text for text in caplog.messages if "did you mean" in text]


def test_a_misspelled_tool_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning for all runs, with the name that was meant."""
    (text,) = _said(Policy(tools={"serach": ToolPolicy(role="read")}), caplog)

    assert "'serach'" in text
    assert text.endswith("did you mean 'search'?")


def test_a_misspelled_tool_of_a_budget_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its limit would never hold."""
    (text,) = _said(Policy(budget=Budget(per_tool={"serach": 2})), caplog)

    assert "'serach'" in text


def test_tools_of_another_agent_are_no_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A policy may be shared, and tools may be offered later."""
    policy = Policy(tools={"search": ToolPolicy(), "deploy": ToolPolicy()})

    assert _said(policy, caplog) == []
