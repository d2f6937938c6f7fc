from __future__ import annotations

import pytest

from loopguard_lg.steps import Event

from .honest import HONEST
from .loops import LOOPS
from .runs import trip


@pytest.mark.parametrize(("kind", "by", "events"), LOOPS.values(), ids=LOOPS)
def test_a_loop_is_found_in_time_and_named(
    kind: str, by: int, events: list[Event]
) -> None:
    """Each of these loops trips with its kind, by the event given."""
    found = trip(events)

    assert found is not None
    assert found[1] == kind
    assert found[0] <= by


@pytest.mark.parametrize("events", HONEST.values(), ids=HONEST)
def test_honest_work_is_left_alone(events: list[Event]) -> None:
    """None of these runs trips, however repetitive it looks."""
    assert trip(events) is None
