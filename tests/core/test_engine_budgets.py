"""What budgets decide, event by event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from loopguard_lg import Budget, Policy, decide
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.memory import fresh
from loopguard_lg.steps import Human, Tokens

from .wild import call, fresh_reads, last, run

EMPTY = call("[]", query="x")
WORD = Human(text="go on")


@dataclass(frozen=True)
class Broken:
    """Fails on every turn."""

    kind: ClassVar[str] = "broken"
    shadow: bool = False

    def observe(self, history: History) -> Finding | None:
        """Divide by nothing."""
        raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize("scope", ["run", "thread"])
def test_a_budget_that_is_out_ends_the_run(scope: Any) -> None:
    """From the turn on that used it up, with what and how much."""
    policy = Policy(budget=Budget(steps=2, scope=scope))

    verdicts, _ = run(*fresh_reads(2), policy=policy)

    assert [v.action for v in verdicts] == ["continue", "exit"]
    assert verdicts[1].exceeded is not None
    assert (verdicts[1].exceeded.limit, verdicts[1].exceeded.spent) == ("steps", 2)


@pytest.mark.parametrize(
    ("scope", "answer", "out"),
    [
        ("run", False, False),
        ("run", True, True),
        ("thread", False, True),
        ("thread", True, True),
    ],
)
def test_only_a_new_word_begins_a_run_afresh(
    scope: Any, answer: bool, out: bool
) -> None:
    """An answer goes on with the run; a thread's budget spans its runs."""
    policy = Policy(budget=Budget(steps=2, scope=scope))

    verdict = last(*fresh_reads(2), Human(answer=answer), policy=policy)

    assert (verdict.exceeded is not None) == out


def test_a_limit_warns_once_and_again_in_the_next_run() -> None:
    """When its share is passed, not at every turn after that."""
    policy = Policy(budget=Budget(steps=6, warn=0.5))
    reads = fresh_reads(4)

    verdicts, _ = run(*reads, WORD, *reads, policy=policy)

    warned = [n for n, verdict in enumerate(verdicts) if verdict.warnings]
    assert warned == [2, 7]
    assert verdicts[2].warnings == ("run:steps",)


def test_a_thread_s_limit_warns_once() -> None:
    """A new word does not bring the warning again."""
    policy = Policy(budget=Budget(steps=9, warn=0.5, scope="thread"))
    reads = fresh_reads(5)

    verdicts, _ = run(*reads, WORD, *reads, policy=policy)

    assert sum(bool(verdict.warnings) for verdict in verdicts) == 1


def test_usage_is_charged_when_everything_else_fails() -> None:
    """Budgets hold also where nothing can be detected."""
    policy = Policy(detectors=[Broken()], budget=Budget(total_tokens=10))
    turn = replace(EMPTY, tokens=Tokens(input=9, output=2))

    verdict, memory = decide(policy, {**fresh(), "history": {"i": "?"}}, turn)

    assert verdict.exceeded is not None
    assert memory["used"]["thread"]["tool_calls"] == 1
