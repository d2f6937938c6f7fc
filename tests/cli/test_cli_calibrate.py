from __future__ import annotations

import json
from typing import Any

import pytest

from loopguard_lg import Policy

from .conftest import Shell


@pytest.fixture
def runs(loopguard: Shell, trajectory: Any) -> str:
    """A hundred and twenty successes of one model."""
    made = [
        trajectory(f"r{n}", *[f"{n} found {i * i}" for i in range(2 + n % 5)],
                   success=True, model="gpt-x")
        for n in range(120)
    ]  # fmt: skip
    return loopguard.write("runs.jsonl", *made)


def test_a_policy_is_written(loopguard: Shell, runs: str) -> None:
    """The file loads, and carries model, date and number of runs."""
    out = loopguard.folder / "loopguard.toml"

    status, said, err = loopguard("calibrate", runs, "--out", str(out))

    assert (status, said, err) == (0, "", f"loopguard: wrote {out}\n")
    assert Policy.load(out, env={}).budgets[0].steps == 7
    head = out.read_text("utf-8").splitlines()[0]
    assert head.startswith(
        "# Calibrated from 120 successful runs (of 120) of gpt-x, 20"
    )


def test_the_policy_is_printed_where_no_file_is_named(
    loopguard: Shell, runs: str
) -> None:
    """What is to be known comes on standard error as well."""
    status, out, err = loopguard("calibrate", runs, "--max-false-stop", "0.001")

    assert status == 0
    assert "WARNING: no line for steps" in out
    assert "takes at least 2999 good runs" in err


def test_json_has_the_evidence(loopguard: Shell, runs: str) -> None:
    """Caps with their lines and cuts, the date, and the thresholds."""
    labels = loopguard.write("l.jsonl", {"id": "r1", "loop": False})

    _, out, _ = loopguard("calibrate", runs, "--labels", labels, "--json")

    data = json.loads(out)
    assert data["caps"][0]["cuts"]["all"] == {"cut": 0, "of": 120}
    assert (data["model"], data["thresholds"]) == ("gpt-x", [])
    assert len(data["date"]) == 10


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--model", "other"], "no run of other has `success: true`"),
        (["--max-false-stop", "2"], "Invalid value for '--max-false-stop'"),
        (["--labels", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_what_is_wrong_is_one_line(
    loopguard: Shell, runs: str, args: list[str], problem: str
) -> None:
    """Bad input is named, with status two."""
    status, out, err = loopguard("calibrate", runs, *args)

    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_what_is_no_recording_is_named_first(loopguard: Shell) -> None:
    """That nothing succeeded is not all there is to say of a wrong file."""
    status, _, err = loopguard("calibrate", loopguard.write("x.jsonl", {"a": 1}))

    assert status == 2
    assert "x.jsonl:1: a trajectory needs the keys" in err
    assert "`recorder.end(thread, success=True)`" in err
