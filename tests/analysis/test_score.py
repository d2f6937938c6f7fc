from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.replay import Outcome
from loopguard_lg.analysis.score import Confusion, score


def outcome(name: str, step: int | None = None, **more: Any) -> Outcome:
    """An outcome that trips at `step`."""
    kind = None if step is None else "repeat"
    return Outcome(id=name, step=step, **{"kind": kind, "source": "here", **more})


LOOP = Label(loop=True, kind="churn", onset=4, reason="asks again")
FINE = Label(loop=False, reason="works")


def test_figures_compare_outcomes_with_labels() -> None:
    """Precision, recall and F1 are over the runs that are labelled clearly."""
    labels = {"a": LOOP, "b": LOOP, "c": LOOP, "d": FINE, "e": Label(loop="unclear")}
    outcomes = [outcome("a", 5), outcome("b", 9), outcome("c")]
    outcomes += [outcome("d", 3), outcome("e", 1), outcome("f", 1)]

    figures = score(outcomes, labels)

    assert (figures["n_loop"], figures["n_ok"]) == (3, 1)
    assert figures["precision"] == figures["recall"] == pytest.approx(2 / 3)
    assert figures["f1"] == pytest.approx(2 / 3)


def test_the_false_trip_rate_is_over_all_successes() -> None:
    """Runs that succeeded count with and without a label."""
    outcomes = [outcome("a", 2, success=True), outcome("b", success=True)]
    outcomes += [outcome("c", success=True), outcome("d", 1, success=False)]

    figures = score(outcomes, {"b": FINE})

    assert figures["false_trip_rate"] == pytest.approx(1 / 3)
    assert figures["n_success"] == 3


def test_delay_is_counted_from_the_onset() -> None:
    """Median and 90th percentile; an early trip is negative."""
    steps = [3, 4, 5, 6, 7, 8, 9, 10, 11, 30]
    labels = {str(step): LOOP for step in steps}

    figures = score([outcome(str(step), step) for step in steps], labels)

    assert (figures["delay_p50"], figures["delay_p90"]) == (3.5, 7)


def test_a_missed_loop_belongs_to_its_label_and_a_false_trip_to_its_kind() -> None:
    """Per kind, the label says what a loop is; the guard what an honest run is not."""
    labels = {"a": LOOP, "b": LOOP, "c": FINE, "d": FINE}
    outcomes = [outcome("a", 4), outcome("b"), outcome("c", 2), outcome("d")]

    kinds = score(outcomes, labels)["by_kind"]

    assert {k: (v["tp"], v["fn"], v["fp"]) for k, v in kinds.items()} == {
        "churn": (1, 1, 0),
        "repeat": (0, 0, 1),
    }


def test_sources_have_figures_of_their_own() -> None:
    """A source that goes well does not hide one that does not."""
    labels = {"a": LOOP, "b": LOOP}

    figures = score([outcome("a", 4), outcome("b", source="there")], labels)

    recalls = {name: group["recall"] for name, group in figures["by_source"].items()}
    assert recalls == {"here": 1.0, "there": 0.0}


def test_errors_say_what_is_wrong_and_why() -> None:
    """A wrong verdict comes with the words of the guard and of the label."""
    labels = {"a": LOOP, "b": FINE, "c": FINE}
    outcomes = [outcome("a"), outcome("b", 2, detail="3 times"), outcome("c")]

    missed, false = score(outcomes, labels)["errors"]

    assert (missed["id"], missed["error"], missed["reason"]) == (
        "a",
        "missed",
        "asks again",
    )
    assert (false["id"], false["error"], false["detail"]) == (
        "b",
        "false_trip",
        "3 times",
    )


def test_a_label_without_a_run_is_listed() -> None:
    """Labels that match nothing are no silent gap."""
    assert score([outcome("a")], {"a": FINE, "z": LOOP})["unmatched"] == ["z"]


def test_no_runs_have_no_figures() -> None:
    """What can't be computed is null, not zero."""
    figures = score([], {})

    for key in (
        "precision",
        "recall",
        "f1",
        "false_trip_rate",
        "delay_p50",
        "delay_p90",
    ):
        assert figures[key] is None


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_f1_is_the_harmonic_mean(pairs: list[tuple[bool, bool]]) -> None:
    """F1 agrees with precision and recall wherever both are there."""
    counts = Confusion()
    for loop, tripped in pairs:
        counts.add(loop, tripped)

    assert counts.tp + counts.fp + counts.fn + counts.tn == len(pairs)
    if counts.precision and counts.recall and counts.f1:
        mean = 2 / (1 / counts.precision + 1 / counts.recall)
        assert counts.f1 == pytest.approx(mean)
