"""A real model judges an exit of the guard, in the shape that it was asked for."""

from __future__ import annotations

from langchain_openai import ChatOpenAI

from loopguard_lg import Policy
from loopguard_lg.adapters.judging import asking
from loopguard_lg.analysis.judge import exit_of, judge
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import circles


def test_a_model_judges_an_exit(strong: ChatOpenAI) -> None:
    """The answer is a label: a verdict with its reason, held to the question asked."""
    run = from_dict(circles("loop", 8, task="find x"))
    found = exit_of(Policy(budget=()), run)
    assert found is not None

    ((name, label),) = judge([found], {}, asking(strong), strong.model_name, 1)

    assert name == "loop"
    assert not label.reason.startswith("no valid answer")
    assert label.reason
    assert label.extra == {
        "judge": strong.model_name,
        "key": found.key(strong.model_name),
    }
