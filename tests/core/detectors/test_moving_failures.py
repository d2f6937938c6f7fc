"""Checks that fail in the same words, at one place after the other."""

from __future__ import annotations

import pytest

from loopguard_lg.steps import Event

from .runs import at, does, trip


def edit(n: int, grown: int = 0) -> Event:
    """An edit that makes the file longer by some lines."""
    new = f"short {n}" + "\n# more" * grown
    return at(
        n * 60.0, does("edit_file", "ok", path="src/a.py", old=f"long {n}", new=new)
    )


def ruff(line: int) -> Event:
    """A linter that names the next line."""
    said = f"src/a.py:{line}:89: E501 Line too long\nFound 1 error."
    return does("bash", said, error=True, command="ruff check src")


def crash(line: int) -> Event:
    """A check that ends in a traceback."""
    head = "Traceback (most recent call last):"
    said = f'{head}\n  File "/w/src/a.py", line {line}\nKeyError'
    return does("bash", said, error=True, command="make check")


def gcc(line: int) -> Event:
    """A compiler that stops at the first error."""
    said = f"src/a.py:{line}: error: expected ';'\nmake: *** Error 1"
    return does("bash", said, error=True, command="make")


@pytest.mark.parametrize("check", [ruff, gcc, crash])
def test_a_failure_that_moves_on_is_work(check: object) -> None:
    """One fix, one next line named."""
    events = [e for n in range(8) for e in (edit(n), check(10 + n * 7))]  # type: ignore[operator]

    assert trip(events) is None


@pytest.mark.parametrize("check", [ruff, gcc, crash])
def test_a_failure_that_stays_is_a_loop(check: object) -> None:
    """Also where the edits shift it to another line."""
    for grown in (0, 2):
        events = [
            e
            for n in range(6)
            for e in (edit(n, grown), check(10 + n * grown))  # type: ignore[operator]
        ]

        assert trip(events) == (5, "failing_edits")


def test_a_failure_that_comes_back_is_a_loop() -> None:
    """Two lines in turn."""
    events = [e for n in range(6) for e in (edit(n), ruff(10 + n % 2))]

    assert trip(events) == (7, "failing_edits")
