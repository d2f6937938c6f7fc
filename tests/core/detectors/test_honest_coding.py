"""Long honest runs of coding agents are left alone."""

from __future__ import annotations

import pytest

from loopguard_lg import Policy, decide
from loopguard_lg.findings import Finding
from loopguard_lg.memory import Memory
from loopguard_lg.steps import Event

from .coding_runs import CODING

POLICIES = {"default": Policy(), "coding": Policy.preset("coding")}


def findings(policy: Policy, events: list[Event]) -> list[tuple[int, Finding]]:
    """Everything that was found, with the event at which it was."""
    memory: Memory = {}
    found = []
    for n, event in enumerate(events):
        verdict, memory = decide(policy, memory, event)
        found += [(n, one) for one in verdict.findings]
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CODING)
def test_nothing_is_found_in_an_honest_run(name: str, policy: str) -> None:
    """Not even by a detector that has no say."""
    assert findings(POLICIES[policy], CODING[name]) == []


@pytest.mark.parametrize("name", CODING)
def test_the_runs_are_long(name: str) -> None:
    """Each has at least sixty steps."""
    assert len(CODING[name]) > 60
