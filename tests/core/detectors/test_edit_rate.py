"""Edits that come too fast."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.detectors import EditRate
from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Event, Progress, Touch, Turn

from .runs import asks, at, call, does, says, trip, turn, verdicts

RATE = (EditRate(),)
A = Touch(path="src/a.py")


def tweak(n: int, t: float | None = None, path: str = "a.py") -> Turn:
    """The n-th edit of one line, twenty seconds after the one before."""
    old, new = f"wait({n})", f"wait({n + 1})"
    edit = does("edit_file", "applied", path=path, old=old, new=new)
    return at(n * 20.0 if t is None else t, edit)


def script(n: int, *touched: Touch) -> Turn:
    """A program of which nobody knows what it changes, but for the watcher."""
    return at(n * 20.0, does("bash", f"ran {n}", command=f"./fix {n}"), *touched)


def rated(events: list[Event], **options: int) -> int | None:
    """Where the first finding is."""
    found = trip(events, detectors=[EditRate(**options)])
    return found[0] if found else None


def between(event: Event) -> list[Event]:
    """Edits with this event after each."""
    return [one for n in range(6) for one in (tweak(n), event)]


def test_the_fourth_edit_in_one_place_within_the_window_trips() -> None:
    """Three are allowed."""
    assert rated([tweak(n) for n in range(6)]) == 3


def test_thresholds_are_settings() -> None:
    """`edits` are allowed within `seconds`."""
    assert rated([tweak(n) for n in range(9)], edits=6) == 6
    assert rated([tweak(n) for n in range(9)], seconds=40) is None


def test_the_window_slides() -> None:
    """Four within 300 seconds count; one before them was too long ago."""
    times = [0.0, 250.0, 400.0, 500.0, 545.0]

    assert rated([tweak(n, t) for n, t in enumerate(times)]) == 4
    assert rated([tweak(n, n * 101.0) for n in range(9)]) is None


def test_without_times_it_is_silent() -> None:
    """Nothing is guessed of a recording that carries none."""
    assert rated([replace(tweak(n), t=None) for n in range(9)]) is None


@pytest.mark.parametrize(
    "event",
    [
        does("bash", "9 passed", command="pytest", error=False),
        asks("go on"),
        Progress(),
    ],
    ids=["a pass", "a person", "progress"],
)
def test_the_count_starts_afresh_when_work_goes_on(event: Event) -> None:
    """A pass, a word, or progress that was reported after each edit."""
    assert rated(between(event)) is None


def test_news_start_the_count_afresh() -> None:
    """Another page read after each edit is work."""
    events = [
        event
        for n in range(6)
        for event in (tweak(n), does("fetch", f"chapter {n} on waits", url=f"b/{n}"))
    ]

    assert rated(events) is None


def test_failures_that_change_start_the_count_afresh() -> None:
    """Every edit leads to another error: the work moves."""
    errors = ("NameError: a", "TypeError: b", "KeyError: c", "ValueError: d", "OSError")
    events = [
        event
        for n, error in enumerate(errors)
        for event in (tweak(n), does("bash", error, command="pytest x.py", error=True))
    ]

    assert rated(events) is None


def test_talk_and_known_failures_do_not() -> None:
    """A failure seen before, and words, are no progress."""
    red = does("bash", "3 failed, 2 passed", command="pytest", error=True)

    assert rated(between(red)) == 8, "the first failure was new"
    assert rated(between(says("I see it now."))) == 6


def test_edits_of_other_places_and_files_are_work() -> None:
    """Lines that no edit put in place, a file that grows, other files."""
    places = [
        at(
            n,
            does("edit_file", "applied", path="a.py", old=f"todo {n}", new=f"do({n})"),
        )
        for n in range(9)
    ]
    grown = [
        at(n, does("write_file", "ok", path="a.md", content="a line\n" * (n + 1)))
        for n in range(9)
    ]

    assert rated(places) is None
    assert rated(grown) is None
    assert rated([tweak(n // 4, n, path=f"src/{n % 4}.py") for n in range(12)]) is None


def test_each_agent_counts_for_itself() -> None:
    """Two agents that take turns at one file edit it half as often."""
    events = [replace(tweak(n), agent="ab"[n % 2]) for n in range(8)]

    assert rated(events) == 6


def test_edits_by_a_shell_count() -> None:
    """`sed -i` of one value again and again; another value each time does not."""
    same = [f"sed -i 's/wait={n}/wait={n + 1}/' a.cfg" for n in range(6)]
    other = [f"sed -i 's/{n}=old/{n}=new/' a.cfg" for n in range(6)]

    assert rated([at(n, does("bash", command=c)) for n, c in enumerate(same)]) == 3
    assert rated([at(n, does("bash", command=c)) for n, c in enumerate(other)]) is None


def test_changes_that_a_watcher_saw_count() -> None:
    """Also where no call tells what it edits."""
    assert rated([script(n, A) for n in range(6)]) is None, (
        "each run says something new"
    )

    silent = [
        replace(script(n, A), steps=(call("bash", command="./f"),)) for n in range(6)
    ]
    assert rated(silent) == 3


def test_an_edit_that_the_watcher_saw_as_well_counts_once() -> None:
    """Whether the tool's path is relative or not."""
    seen = [replace(tweak(n, path="/w/src/a.py"), touched=(A,)) for n in range(6)]

    assert rated(seen) == 3


def test_the_holder_of_the_lock_is_who_edits() -> None:
    """The watcher may know better than the turn."""
    held = [
        replace(tweak(n), touched=(Touch(path="a.py", agent="ab"[n % 2]),))
        for n in range(8)
    ]

    assert rated(held) == 6


def test_a_change_of_many_files_is_no_edit() -> None:
    """So a checkout or a formatter looks."""
    many = tuple(Touch(path=f"src/{n}.py") for n in range(20))
    steps = (call("bash", command="git checkout ."),)

    assert rated([replace(script(n, *many), steps=steps) for n in range(9)]) is None


def test_a_file_that_grows_under_the_watch_is_work() -> None:
    """Its size after each change says so."""
    grown = [
        replace(
            script(n, replace(A, size=100 + n)), steps=(call("bash", command="./f"),)
        )
        for n in range(9)
    ]

    assert rated(grown) is None


def test_a_batch_has_one_vote() -> None:
    """Parallel edits of one file are one step."""
    batch = turn(
        *(
            call(
                "edit_file", "applied", path="a.py", old=f"x = {n}", new=f"x = {n + 1}"
            )
            for n in range(5)
        )
    )

    assert rated([at(0, batch)]) is None


def test_more_than_is_remembered_is_refused() -> None:
    """The error names the field and the most."""
    with pytest.raises(PolicyError, match=r"EditRate\(edits=13\).*at most 12"):
        EditRate(edits=13)


@given(
    st.lists(st.tuples(st.floats(0, 2_000), st.sampled_from("ab")), max_size=60),
    st.integers(1, 6),
    st.integers(1, 600),
)
def test_no_finding_below_the_threshold(
    edits: list[tuple[float, str]], most: int, seconds: int
) -> None:
    """There are more than `edits` of the file in the window before each finding."""
    edits = sorted(edits)
    events = [tweak(n, t, path=path) for n, (t, path) in enumerate(edits)]
    rate = EditRate(edits=most, seconds=seconds)
    for found, (t, path) in zip(verdicts(events, [rate]), edits, strict=True):
        near = [a for a, p in edits if p == path and t - seconds - 0.001 <= a <= t]

        assert not found or len(near) >= found.count > most
