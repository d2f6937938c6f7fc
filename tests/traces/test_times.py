"""Times in recordings of others: units, zones, and the order that they tell."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from loopguard_lg.steps import Turn
from loopguard_lg.traces.formats.base import moment, since
from tests.traces.samples import SAMPLES
from tests.traces.test_formats import only, written

NOON = 1_764_072_000.0
"""2025-11-25, 12:00 UTC, in seconds since 1970."""


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        int(NOON) * 1_000,
        int(NOON) * 1_000_000,
        int(NOON) * 1_000_000_000,
        f"{int(NOON)}000000000",
        "2025-11-25T12:00:00Z",
        "2025-11-25T07:00:00-05:00",
        "2025-11-25T12:00:00",
    ],
)
def test_a_time_is_read_whatever_its_unit(
    monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    """Seconds to nanoseconds, and ISO 8601: UTC without a zone, wherever it is read."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert moment(value) == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("value", [None, True, "", "noon", "nan", [], 10**400])
def test_what_is_no_time_is_none(value: object) -> None:
    """Nothing is made of a value that is no time."""
    assert moment(value) is None


def test_no_step_is_before_the_run_began() -> None:
    """A clock that was set back makes no negative seconds."""
    assert since(NOON, NOON - 1) == {"t": 0.0}
    assert since(NOON, "2025-11-25T12:00:01.5Z") == {"t": 1.5}
    assert since(None, NOON) == since(NOON, None) == {}


@pytest.mark.parametrize("name", ["otlp", "openinference"])
def test_calls_of_spans_have_times(tmp_path: Path, name: str) -> None:
    """Spans with nanoseconds since 1970 say when each turn was and how long it took."""
    run = only(written(tmp_path, SAMPLES[name]()))
    turns = [event for event in run.events if isinstance(event, Turn)]

    assert [turn.t for turn in turns] == [0.5, 2.5, 4.5, 6.5]
    assert {step.seconds for turn in turns for step in turn.steps} == {0.5}


def test_spans_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    """A file that lists the newest span first makes the same run."""
    data = SAMPLES["otlp"]()
    backwards = b"\n".join(reversed(data.splitlines()))

    assert (
        only(written(tmp_path, backwards)).steps == only(written(tmp_path, data)).steps
    )
