from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell


def test_a_loop_is_one_line_and_status_one(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> None:
    """A run that trips is named with step, kind and evidence; then comes a summary."""
    status, out, err = loopguard("check", loopguard.write("r.jsonl", fine, loop))

    first, summary = out.splitlines()
    assert first.startswith("loop: step 2, repeat: ")
    assert summary == "1 of 2 runs trip (1 repeat)"
    assert (status, err) == (1, "")


def test_no_loop_is_status_zero(loopguard: Shell, fine: dict[str, Any]) -> None:
    """A summary is all there is to say."""
    result = loopguard("check", loopguard.write("r.jsonl", fine))

    assert result == (0, "0 of 1 runs trip\n", "")


def test_a_file_without_runs_is_said_to_have_none(loopguard: Shell) -> None:
    """Nothing is wrong with it, but nobody takes it for a run that is fine."""
    result = loopguard("check", loopguard.write("r.jsonl"))

    assert result == (0, "there is no run to check\n", "")


@pytest.mark.parametrize("more", [("report", "--json"), ("score", "--labels")])
def test_figures_of_no_run_are_warned_about(
    loopguard: Shell, more: tuple[str, str]
) -> None:
    """A report or a score of an empty file is none."""
    labels = loopguard.write("labels.jsonl", {"id": "a", "loop": True})
    command, option = more
    labelled = [labels] if option == "--labels" else []

    status, _, err = loopguard(command, loopguard.write("r.jsonl"), option, *labelled)

    assert (status, err) == (0, "loopguard: there is no run to check\n")


def test_json_is_one_object_a_run_in_order(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> None:
    """`--json` prints every run, with the keys of the contract, and nothing else."""
    files = [loopguard.write("a.jsonl", fine), loopguard.write("b.jsonl", loop)]

    status, out, _ = loopguard("check", *files, "--json")

    first, second = map(json.loads, out.splitlines())
    assert list(first) == [
        "id",
        "tripped",
        "kind",
        "step",
        "count",
        "detail",
        "findings",
    ]
    assert (first["id"], first["tripped"], first["step"]) == ("fine", False, None)
    assert (second["id"], second["kind"], second["step"]) == ("loop", "repeat", 2)
    finding = second["findings"][0]
    assert list(finding) == ["kind", "step", "count", "threshold", "detail", "steps"]
    assert status == 1


def test_what_cannot_be_read_comes_last_and_is_status_two(
    loopguard: Shell, loop: dict[str, Any]
) -> None:
    """The readable runs are reported; the broken line is named with its number."""
    path = loopguard.write("r.jsonl", "{", loop)

    status, out, err = loopguard("check", path)

    assert "1 of 1 runs trip" in out
    assert err.startswith(f"loopguard: {path}:1: ")
    assert err.count("\n") == 1
    assert status == 2


def test_what_is_no_recording_is_not_named_line_by_line(loopguard: Shell) -> None:
    """A few lines show what is wrong; beside a run that is read each one counts."""
    path = loopguard.write("rec.py", *["import os"] * 21)

    status, _, err = loopguard("check", path)

    assert status == 2
    assert err.count("\n") == 4
    assert err.endswith("loopguard: and 18 more lines: this is no recording\n")


def test_each_broken_line_beside_a_run_is_named(
    loopguard: Shell, fine: dict[str, Any]
) -> None:
    """The others may be needed, and who wrote them wants to know which."""
    path = loopguard.write("r.jsonl", fine, *["{"] * 7)

    status, _, err = loopguard("check", path)

    assert (status, err.count("\n")) == (2, 7)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            ["score", "-", "--labels", "none.jsonl"],
            "none.jsonl: no such file or folder",
        ),
        (["check"], "Missing argument 'PATH'."),
        (["check", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["check", "-", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["check", "-", "--polcy", "x"], "No such option: --polcy"),
        (["check", "-", "--policy", "brisk"], "'brisk' is neither a file nor a preset"),
        (["check", "-", "--explain", "x"], "no run has the id x"),
        (["check", "-", "--emit-test", "t.py"], "there is no run"),
        (["chekc"], "No such command 'chekc'"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    loopguard: Shell, monkeypatch: pytest.MonkeyPatch, args: list[str], problem: str
) -> None:
    """A wrong argument is named; there is no usage text and no traceback."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))

    status, out, err = loopguard(*args)

    assert (status, out) == (2, "")
    assert err.startswith("loopguard: ")
    assert problem in err
    assert err.count("\n") == 1


def test_a_policy_changes_the_verdict(loopguard: Shell, loop: dict[str, Any]) -> None:
    """A preset's budget counts; without a policy there is none."""
    loop["steps"] = [
        {**loop["steps"][0], "i": i, "calls": [{"tool": "say", "result": f"{i} " * 9}]}
        for i in range(13)
    ]
    path = loopguard.write("r.jsonl", loop)

    assert loopguard("check", path)[0] == 0
    status, out, _ = loopguard("check", path, "--policy", "support")
    assert (status, out.split(":")[1]) == (1, " step 11, budget")


def test_a_recording_cannot_steer_the_terminal(
    loopguard: Shell, loop: dict[str, Any]
) -> None:
    """Escape sequences of a recording are not printed."""
    path = loopguard.write("r.jsonl", {**loop, "id": "a\x1b[2Jb"})

    out = (
        loopguard("check", path)[1]
        + loopguard("check", path, "--explain", "a\x1b[2Jb")[1]
    )

    assert "\x1b" not in out
    assert "a?[2Jb" in out


def test_explain_shows_a_run_as_the_detectors_saw_it(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> None:
    """Every call with its result, every finding with its steps, every verdict."""
    path = loopguard.write("r.jsonl", fine, loop)

    status, out, _ = loopguard("check", path, "--explain", "loop")

    assert status == 1
    assert 'search({"q":"x"}) -> no results' in out
    assert "* repeat 3/3: " in out
    assert "(steps 0, 1, 2)" in out
    assert "=> reflect (rung 1): repeat" in out


def test_an_emitted_test_passes(loopguard: Shell, loop: dict[str, Any]) -> None:
    """`--emit-test` writes a recording and a test that holds on to the verdict."""
    path = loopguard.write("r.jsonl", loop)
    test = loopguard.folder / "test_loop.py"

    status, _, err = loopguard("check", path, "--emit-test", str(test))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=loopguard.folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert status == 1
    assert "wrote" in err
    assert "1 passed" in ran.stdout, ran.stdout
    assert (loopguard.folder / "test_loop.json").exists()


def test_an_emitted_test_brings_its_folder(
    loopguard: Shell, loop: dict[str, Any]
) -> None:
    """Whoever has no `tests` yet is not refused after all was printed."""
    path = loopguard.write("r.jsonl", loop)
    test = loopguard.folder / "tests" / "new" / "test_loop.py"

    assert loopguard("check", path, "--emit-test", str(test))[0] == 1
    assert test.exists()
    assert test.with_suffix(".json").exists()


@pytest.mark.parametrize("name", ["test_x.txt", "test_taken.py"])
def test_an_emitted_test_overwrites_nothing(
    loopguard: Shell, loop: dict[str, Any], name: str
) -> None:
    """A name that is taken, or no test's, is refused."""
    path = loopguard.write("r.jsonl", loop)
    (loopguard.folder / "test_taken.py").write_text("mine")

    status, _, err = loopguard(
        "check", path, "--emit-test", str(loopguard.folder / name)
    )

    assert status == 2
    assert name in err
    assert (loopguard.folder / "test_taken.py").read_text() == "mine"


def test_several_runs_need_a_name(
    loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]
) -> None:
    """A test of one run of many can only be written when it is said which."""
    path = loopguard.write("r.jsonl", loop, fine)

    status, _, err = loopguard("check", path, "--emit-test", "test_x.py")

    assert status == 2
    assert "--explain ID" in err


@pytest.mark.parametrize(
    ("count", "told"), [(2, "a0, a1"), (5, "a0, a1, a2, a3, a4"), (6, "a3, a4, ...")]
)
def test_an_id_that_is_not_there_is_answered_by_those_that_are(
    loopguard: Shell, fine: dict[str, Any], count: int, told: str
) -> None:
    """Five at most."""
    runs = [{**fine, "id": f"a{n}"} for n in range(count)]
    path = loopguard.write("r.jsonl", *runs)

    status, _, err = loopguard("check", path, "--explain", "b")

    assert status == 2
    assert err.startswith("loopguard: no run has the id b: there are a0, ")
    assert err.endswith(f"{told}\n")


def test_the_only_run_has_to_be_readable(
    loopguard: Shell, loop: dict[str, Any]
) -> None:
    """A broken line beside it may have been the other run."""
    path = loopguard.write("r.jsonl", loop, "{")

    assert loopguard("check", path, "--emit-test", "test_x.py")[0] == 2
    assert loopguard("check", path, "--explain", "loop")[0] == 1


def test_one_run_can_be_had_as_json(loopguard: Shell, loop: dict[str, Any]) -> None:
    """`--explain` with `--json` is the object of that run alone."""
    path = loopguard.write("r.jsonl", loop, {**loop, "id": "other"})

    _, out, _ = loopguard("check", path, "--explain", "other", "--json")

    assert json.loads(out)["id"] == "other"


def test_standard_input_is_checked(
    loopguard: Shell, loop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` reads runs from a pipe."""
    data = json.dumps(loop).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert loopguard("check", "-")[0] == 1


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    """A closed pipe ends the command without a traceback."""
    line = json.dumps({"id": "x" * 50, "steps": []})
    (tmp_path / "r.jsonl").write_text(f"{line}\n" * 5_000)
    command = (
        f"{sys.executable} -m loopguard_lg check r.jsonl --json --jobs 1 | head -1"
    )

    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
