from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Shell


@pytest.fixture
def files(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> tuple[str, ...]:
    """Three runs, of which one loop is found, and one missed."""
    hidden = {**fine, "id": "hidden", "success": False}
    labels = [
        {"id": "loop", "loop": True, "kind": "repeat", "onset_step": 1},
        {
            "id": "hidden",
            "loop": True,
            "kind": "churn",
            "onset_step": 1,
            "reason": "why",
        },
        {"id": "fine", "loop": False},
    ]
    runs = loopguard.write("r.jsonl", loop, hidden, fine)
    return (runs, "--labels", loopguard.write("labels.jsonl", *labels))


def test_json_has_the_keys_of_the_contract(
    loopguard: Shell, files: tuple[str, ...]
) -> None:
    """One object holds every figure."""
    status, out, err = loopguard("score", *files, "--json")

    figures = json.loads(out)
    keys = "precision recall f1 false_trip_rate delay_p50 delay_p90 n_loop n_ok by_kind"
    assert {*keys.split(), "by_source", "errors"} <= set(figures)
    assert (figures["precision"], figures["recall"]) == (1.0, 0.5)
    assert (figures["delay_p50"], figures["n_loop"], figures["n_ok"]) == (1, 2, 1)
    assert [error["id"] for error in figures["errors"]] == ["hidden"]
    assert (status, err) == (0, "")


def test_the_table_is_for_a_person(loopguard: Shell, files: tuple[str, ...]) -> None:
    """A row for all and one per source, then kinds, then what is wrong and why."""
    _, out, _ = loopguard("score", *files)

    head, total, *_ = out.splitlines()
    assert head.split()[:3] == ["loops", "ok", "prec."]
    assert total.split()[:6] == ["all", "2", "1", "100.0%", "50.0%", "66.7%"]
    assert "missed hidden, churn from step 1: why" in out


def test_kinds_come_with_intervals_and_those_without_a_label_are_unmeasured(
    loopguard: Shell, files: tuple[str, ...]
) -> None:
    """One loop that was found says little of how many are found."""
    _, out, _ = loopguard("score", *files)

    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "repeat 1 of 1 found [20.7%, 100.0%] 0 false" in rows
    assert "churn 0 of 1 found [0.0%, 79.3%] 0 false" in rows
    (unmeasured,) = (row for row in rows if row.startswith("unmeasured"))
    assert "tampering" in unmeasured
    assert "churn" not in unmeasured


@pytest.mark.parametrize(
    ("demand", "status", "problem"),
    [
        (["--min-recall", "0.5"], 0, ""),
        (["--min-recall", "0.6"], 1, "recall is 50.0%, below 60.0%"),
        (["--min-precision", "1"], 0, ""),
        (["--max-false-trips", "0"], 0, ""),
        (["--min-precision", "1.5"], 2, "Invalid value for '--min-precision'"),
    ],
)
def test_a_demand_that_is_missed_is_status_one(
    loopguard: Shell,
    files: tuple[str, ...],
    demand: list[str],
    status: int,
    problem: str,
) -> None:
    """Thresholds make the command a gate."""
    got, _, err = loopguard("score", *files, *demand)

    assert got == status
    assert problem in err


def test_a_figure_that_cannot_be_had_misses_its_demand(
    loopguard: Shell, fine: dict[str, Any]
) -> None:
    """Where nothing trips there is no precision to rely on."""
    runs = loopguard.write("r.jsonl", fine)
    labels = loopguard.write("labels.jsonl", {"id": "fine", "loop": False})

    status, _, err = loopguard(
        "score", runs, "--labels", labels, "--min-precision", "0"
    )

    assert status == 1
    assert "precision is -" in err


def test_what_is_wrong_is_said_in_words(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> None:
    """A false trip has the guard's words and the label's; lost labels are counted."""
    runs = loopguard.write("r.jsonl", {**loop, "success": True}, fine)
    polls = {"id": "loop", "loop": False, "reason": "polls"}
    labels = loopguard.write("l.jsonl", polls, {"id": "gone", "loop": True})

    status, out, err = loopguard(
        "score", runs, "--labels", labels, "--max-false-trips", "0.1"
    )

    assert "false trip loop, repeat at step 2: `search`" in out
    assert "(label: polls)" in out
    assert "1 labels have no run" in out
    assert (status, err) == (1, "loopguard: false trips are 50.0%, above 10.0%\n")


def test_a_broken_line_is_status_two(loopguard: Shell, files: tuple[str, ...]) -> None:
    """The figures of what could be read are printed all the same."""
    broken = loopguard.write("broken.jsonl", "{")

    status, out, err = loopguard("score", broken, *files)

    assert status == 2
    assert "broken.jsonl:1: " in err
    assert "all" in out


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "labels.jsonl:1: "),
        ('{"id": "x", "loop": 3}', "labels.jsonl:1: `loop` is"),
        ('{"id": "x", "loop": true, "kind": "lop"}', "labels.jsonl:1: `kind` is"),
        ("", "labels.jsonl: there is no label in it"),
    ],
)
def test_a_broken_label_is_named(
    loopguard: Shell, fine: dict[str, Any], line: str, problem: str
) -> None:
    """Labels that can't be read end the command with file and line."""
    runs = loopguard.write("r.jsonl", fine)

    status, out, err = loopguard(
        "score", runs, "--labels", loopguard.write("labels.jsonl", line)
    )

    assert (status, out) == (2, "")
    assert problem in err


def test_labels_that_are_not_there_are_named(
    loopguard: Shell, fine: dict[str, Any]
) -> None:
    """A missing file is one line."""
    runs = loopguard.write("r.jsonl", fine)

    status, _, err = loopguard("score", runs, "--labels", "nowhere.jsonl")

    assert status == 2
    assert "nowhere.jsonl" in err
    assert err.count("\n") == 1
