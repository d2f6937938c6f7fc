"""Observers are told, and can never break a run."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import pytest

from loopguard_lg import Verdict
from loopguard_lg.hooks import GuardEvent, notify
from loopguard_lg.steps import Turn

EVENT = GuardEvent(
    name="seen", thread="t", agent="main", event=Turn(text="hi"), verdict=Verdict()
)


def fails(event: GuardEvent) -> NoReturn:
    """An observer that raises."""
    raise RuntimeError("the disk is full")


def test_every_observer_is_told_in_order() -> None:
    """Of the same event; what they answer is ignored."""
    told: list[tuple[str, GuardEvent]] = []

    notify([lambda e: told.append(("a", e)), lambda e: told.append(("b", e))], EVENT)

    assert told == [("a", EVENT), ("b", EVENT)]


def test_an_observer_that_fails_is_logged_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its exception stops at the guard, with its trace in the log."""
    told: list[GuardEvent] = []

    with caplog.at_level(logging.ERROR, "loopguard_lg"):
        notify([fails, told.append], EVENT)

    assert told == [EVENT]
    [record] = caplog.records
    assert record.getMessage() == "an observer failed on seen"
    assert "the disk is full" in (record.exc_text or "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_wish_to_end_the_process_goes_through(error: Any) -> None:
    """Ctrl-C in an observer is Ctrl-C."""

    def interrupted(event: GuardEvent) -> NoReturn:
        raise error

    with pytest.raises(error):
        notify([interrupted], EVENT)


def test_nobody_has_to_listen() -> None:
    """Without observers nothing happens."""
    notify([], EVENT)
