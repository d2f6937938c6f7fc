"""Claims of an agent, and whether a check shows them."""

from __future__ import annotations

from typing import Any

import pytest

from loopguard_lg.claims import unproven
from loopguard_lg.history import History
from loopguard_lg.steps import Event

from .detectors.runs import does

PIPED = does("bash", "... 4 passed", command="pytest | tail -1", error=False)
GREEN = does("bash", "4 passed", command="pytest", error=False)
RED = does("bash", "1 failed", command="pytest", error=True)
KEPT = does(
    "bash", "4 passed", command="set -o pipefail; pytest | tail -1", error=False
)
READ = does("read_file", "x = 1", path="a.py")


def after(*events: Event) -> dict[str, Any]:
    """The plain history after events."""
    history = History()
    for event in events:
        history = history.push(event)
    return history.dump()


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([PIPED], False),
        ([GREEN, PIPED], False),
        ([PIPED, READ], False),
        ([RED], False),
        ([GREEN], True),
        ([PIPED, GREEN, READ], True),
        ([KEPT], True),
        ([READ], True),
        ([], True),
    ],
)
def test_a_claim_needs_a_check_that_shows_it(events: list[Event], shown: bool) -> None:
    """The newest one decides; where none is known, nothing is said."""
    claim = "Done, all tests pass"

    assert unproven(after(*events), f"{claim}. Bye.") == ([] if shown else [claim])


@pytest.mark.parametrize(
    "text",
    [
        "All tests pass.",
        "I ran the suite: everything is green",
        "The build succeeded",
        "pytest: 4 passed",
        "mypy is clean now",
        "The tests are passing.",
    ],
)
def test_a_claim_is_known_by_its_words(text: str) -> None:
    """Tests, builds and linters that pass."""
    assert unproven(after(PIPED), text)


@pytest.mark.parametrize(
    "text",
    [
        "The tests should pass now.",
        "I could not see whether the tests pass.",
        "Two tests fail, the others pass",
        "Run the tests until they pass",
        "I passed the file to the parser",
        "",
    ],
)
def test_a_hope_is_no_claim(text: str) -> None:
    """Nor is a condition, or another use of the words."""
    assert unproven(after(PIPED), text) == []


def test_a_history_that_is_none_shows_nothing() -> None:
    """The report is made all the same."""
    assert unproven({"rows": 1}, "All tests pass") == []
