from __future__ import annotations

import re
from typing import Any

import pytest

from loopguard_lg.detectors import (
    DEFAULTS,
    Bloat,
    Chanting,
    Churn,
    Detector,
    FailingEdits,
    NearRepeat,
    Oscillation,
    PingPong,
    RecurringError,
    Repeat,
    arbiter,
)
from loopguard_lg.digests import call_digest
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.steps import Step, Turn
from loopguard_lg.tools import ToolPolicy

from .loops import LOOPS
from .runs import asks, call, does, trip, turn, verdicts

EMPTY = does("search", "no results", query="x")


@pytest.mark.parametrize("detector", DEFAULTS, ids=lambda d: d.kind)
def test_default_detectors_are_detectors(detector: Detector) -> None:
    """They have a kind and observe, and act unless told otherwise."""
    assert isinstance(detector, Detector)
    assert detector.observe(History()) is None
    assert not detector.shadow


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (Repeat, {"times": 1}),
        (Repeat, {"times": 5, "window": 4}),
        (Repeat, {"times": "3"}),
        (Repeat, {"times": True}),
        (NearRepeat, {"window": 3}),
        (Oscillation, {"laps": 1}),
        (Churn, {"steps": 0}),
        (FailingEdits, {"times": -1}),
        (PingPong, {"depth": 1}),
        (Chanting, {"times": 2.5}),
        (Bloat, {"tokens": 0}),
        (RecurringError, {"times": None}),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    spec: Any, settings: dict[str, Any]
) -> None:
    """The message names the detector, the field, its value and what is right."""
    with pytest.raises(PolicyError) as caught:
        spec(**settings)

    (field, value), *_ = reversed(settings.items())
    assert f"{spec.__name__}({field}={value!r})" in str(caught.value)
    assert "at least" in str(caught.value)


def test_a_threshold_can_be_raised() -> None:
    """A repeat of four is none where five are allowed."""
    assert trip([EMPTY] * 4, detectors=[Repeat(times=5)]) is None
    assert trip([EMPTY] * 5, detectors=[Repeat(times=5)]) == (4, "repeat")


def test_a_window_left_alone_grows_with_the_count() -> None:
    """Eleven equal calls fit into no ten turns; no window is asked for."""
    assert Repeat(times=11).window >= 11
    assert trip([EMPTY] * 11, detectors=[Repeat(times=11)]) == (10, "repeat")
    assert RecurringError(times=13).window >= 13
    assert Repeat().window == Repeat(times=9).window == 10


def test_a_detector_leaves_out_a_tool_that_is_off_for_it() -> None:
    """`ToolPolicy.off` names the kinds that don't look at a tool."""
    off = {"search": ToolPolicy(off=tuple(d.kind for d in DEFAULTS))}

    assert trip([EMPTY] * 9, tools=off) is None


def test_a_role_in_the_policy_changes_what_a_repeat_means() -> None:
    """A poll is looked at from the fourth time on."""
    poll = {"search": ToolPolicy(role="poll")}

    assert trip([EMPTY] * 3, tools=poll) is None
    assert trip([EMPTY] * 4, tools=poll) == (3, "repeat")


def test_findings_go_on_with_fresh_evidence_only() -> None:
    """Every further repetition is reported, a turn of other work is not."""
    other = does("fetch", "a new page\nwith lines", url="a")
    found = verdicts([EMPTY] * 4 + [other] + [EMPTY])

    assert [bool(finding) for finding in found] == [False] * 2 + [True] * 2 + [
        False,
        True,
    ]


def test_a_repeat_holds_its_call() -> None:
    """The digest to hold is the one that `call_digest` gives."""
    finding = verdicts([EMPTY] * 3)[-1]

    assert finding is not None
    assert finding.holds == (call_digest("search", {"query": "x"}),)
    assert finding.detail == (
        "`search` was called 3 times with the same arguments and the same empty result"
    )


def test_a_cycle_holds_all_its_calls() -> None:
    """Both calls of an alternation are held."""
    other = does("list_teams", "red, green", org="x")
    finding = verdicts([EMPTY, other] * 3)[-1]

    assert finding is not None
    assert finding.kind == "oscillation"
    assert len(finding.holds) == 2


@pytest.mark.parametrize("kind", ["failing_edits", "tampering", "churn", "planner"])
def test_calls_are_not_held_where_they_may_be_right_next_time(kind: str) -> None:
    """A check is not held after failing edits, and a search not after churn."""
    for name, by, events in LOOPS.values():
        if name == kind:
            finding = next(f for f in verdicts(events[: by + 1]) if f)

            assert finding.holds == ()


@pytest.mark.parametrize(
    "name", ["the same empty search", "two lookups in turn", "one query in other words"]
)
def test_one_loop_keeps_its_key(name: str) -> None:
    """The key is the same in every finding of a loop."""
    _, _, events = LOOPS[name]
    found = [f for f in verdicts([*events, *events[-2:], *events[-2:]]) if f]

    assert len({f.key for f in found if f.kind == found[0].kind}) == 1


def test_a_blocked_repeat_is_evidence() -> None:
    """A call that the guard answered itself was asked for again all the same."""
    assert Repeat().observe(_with_held(EMPTY)) is not None


@pytest.mark.parametrize("result", ["no results", "Grüße", "7 of 9 parts"])
def test_a_held_call_is_no_error_of_the_tools(result: str) -> None:
    """The finding names how the tool itself ended, not the guard's refusal."""
    finding = Repeat().observe(_with_held(does("search", result, query="x")))

    assert finding is not None
    assert re.search(r"the same (empty )?result$", finding.detail)


def test_a_held_call_whose_tool_failed_ended_in_the_same_error() -> None:
    """What the guard answered changes nothing of it."""
    step = Step(tool="search", args={"query": "x"}, result="no such key", error=True)
    finding = Repeat().observe(_with_held(turn(step)))

    assert finding is not None
    assert finding.detail.endswith("the same error")


def _with_held(event: Turn) -> History:
    """A call twice, and once more where the guard holds it back."""
    text = "Not executed: the search comes again."
    args = {"query": "x"}
    held = Step(tool="search", args=args, result=text, error=True, blocked=True)
    history = History()
    for seen in [event, event, turn(held)]:
        history = history.push(seen)
    return history


def test_a_word_of_a_person_starts_afresh() -> None:
    """What happened before it is no evidence any more."""
    assert trip([EMPTY, EMPTY, asks("go on"), EMPTY, EMPTY]) is None


def test_a_batch_with_one_stale_call_is_work() -> None:
    """News beside a repeated call keeps the turn from being stale."""
    events = [
        turn(
            call("search", "no results", query="x"),
            call("fetch", f"chapter {n}\nof a book", url=f"b/{n}"),
        )
        for n in range(5)
    ]

    assert trip(events) is None


def _finding(kind: str, *steps: int) -> Finding:
    return Finding(kind=kind, steps=steps, count=3, threshold=3, detail=kind)


def test_the_most_specific_finding_counts() -> None:
    """An oscillation says more than a repeat, a repeat more than churn."""
    found = [_finding(kind, 1, 2, 3) for kind in ("churn", "repeat", "oscillation")]

    assert arbiter(found, History()) is found[2]
    assert arbiter(found[:2], History()) is found[1]
    assert arbiter([], History()) is None


def test_of_equal_findings_the_earliest_counts() -> None:
    """The loop that began first is the one to speak of."""
    late, early = _finding("repeat", 4, 5, 6), _finding("repeat", 1, 3, 6)

    assert arbiter([late, early], History()) is early
