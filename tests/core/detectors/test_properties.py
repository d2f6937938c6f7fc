from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import ormsgpack
from hypothesis import given, strategies as st

from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.history import History
from loopguard_lg.steps import Compaction, Event, Human, Progress, Step, Turn

from .honest import HONEST
from .loops import LOOPS
from .runs import does, verdicts

TOOLS = ("read_file", "bash", "edit_file", "search", "get_job_status", "write_todos")
WORDS = st.sampled_from(("a.py", "pytest -q", "ls src", "x = 1", "", "réf", "查询"))
RESULTS = st.sampled_from(
    ("ok", "", "1 failed", "Error: no", "a\nb\nc\nd", "[]", "running", "3 passed")
)
STEPS = st.builds(
    Step,
    tool=st.sampled_from(TOOLS),
    args=st.dictionaries(st.sampled_from(("path", "command", "query")), WORDS),
    result=RESULTS,
    error=st.sampled_from((None, True, False)),
)
EVENTS = st.one_of(
    st.builds(Turn, steps=st.lists(STEPS, max_size=3).map(tuple), text=WORDS),
    st.builds(Human, text=WORDS),
    st.just(Compaction()),
    st.just(Progress()),
)
RUNS = st.lists(EVENTS, max_size=40)


def _stored(history: History, pack: Any, unpack: Any) -> History:
    return History.load(unpack(pack(history.dump())))


@given(RUNS)
def test_a_stored_history_gives_the_same_verdicts(events: list[Event]) -> None:
    """Storing the history after every event, as msgpack or JSON, changes nothing."""
    live = packed = texted = History()
    for event in events:
        live = live.push(event)
        packed = _stored(packed, ormsgpack.packb, ormsgpack.unpackb).push(event)
        texted = _stored(texted, json.dumps, json.loads).push(event)
        for detector in DEFAULTS:
            found = detector.observe(live)

            assert found == detector.observe(packed) == detector.observe(texted)


@given(RUNS)
def test_push_changes_no_history_that_it_was_given(events: list[Event]) -> None:
    """A history pushed upon twice gives the same twice."""
    history = History()
    for event in events:
        before = json.dumps(history.dump())
        after = history.push(event)

        assert json.dumps(history.dump()) == before
        assert history.push(event).dump() == after.dump()
        history = after


@given(RUNS, st.integers(0, 40))
def test_verdicts_on_a_prefix_are_a_prefix(events: list[Event], end: int) -> None:
    """What comes later does not change what was found before."""
    assert verdicts(events[:end]) == verdicts(events)[:end]


@given(RUNS)
def test_every_finding_has_its_threshold_and_ends_now(events: list[Event]) -> None:
    """No finding counts less than its threshold or lacks fresh evidence."""
    for at, finding in enumerate(verdicts(events)):
        if finding:
            assert finding.count >= finding.threshold
            assert finding.steps[-1] == at
            assert list(finding.steps) == sorted(set(finding.steps))


@given(st.lists(st.text(min_size=1), max_size=60, unique=True))
def test_news_after_news_is_never_a_finding(names: list[str]) -> None:
    """Different reads with different content don't trip, however many they are."""
    events = [
        does("fetch", f"{name} is described in part {n}", url=f"{name}/{n}")
        for n, name in enumerate(names)
    ]

    assert not any(verdicts(events))


@given(
    st.sampled_from(sorted(HONEST)),
    st.lists(st.integers(0, 40), max_size=10, unique=True),
)
def test_honest_steps_between_create_no_finding(name: str, places: list[int]) -> None:
    """An honest run stays one when reads with news come between its steps."""
    events = list(HONEST[name])
    for n, place in enumerate(sorted(places, reverse=True)):
        read = does("fetch", f"chapter {n} tells of another thing", url=f"book/{n}")
        events.insert(place, read)

    assert not any(verdicts(events))


def _noisy(event: Event, n: int) -> Event:
    """The same event with keys in another order, white space and a request id."""
    if not isinstance(event, Turn):
        return event
    steps = tuple(
        Step(
            tool=step.tool,
            args={
                "request_id": f"{n * 2654435761 % 2**32:08x}-a{n:06x}",
                **{
                    key: f" {value}\n" if isinstance(value, str) else value
                    for key, value in reversed(step.args.items())
                },
            }
            if step.args
            else {},
            result=step.result + (f" (took 1.{n} s)" if len(step.result) > 40 else ""),
            error=step.error,
            role=step.role,
            state=step.state,
        )
        for step in event.steps
    )
    return replace(event, steps=steps)


@given(st.sampled_from(sorted(LOOPS)))
def test_noise_changes_no_verdict(name: str) -> None:
    """Key order, white space at the ends, request ids and durations don't matter."""
    events = LOOPS[name][2]
    noisy = [_noisy(event, n) for n, event in enumerate(events)]

    told = [(f.kind, f.steps) if f else None for f in verdicts(events)]
    assert [(f.kind, f.steps) if f else None for f in verdicts(noisy)] == told


@given(st.lists(st.one_of(EVENTS, st.builds(Turn, text=st.text())), max_size=80))
def test_a_history_takes_less_than_five_kilobytes(events: list[Event]) -> None:
    """Its size is bounded whatever is pushed."""
    history = History()
    for n, event in enumerate(events):
        history = history.push(event)
        assert history.i == n

    assert len(ormsgpack.packb(history.dump())) <= 4_800
