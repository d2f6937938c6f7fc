"""`loopguard policy`, and `--policy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopguard_lg import Policy

from .conftest import Shell


@pytest.fixture
def file(loopguard: Shell) -> str:
    """A file with a section."""
    lines = ("preset = 'coding'", "[agents.a.budget]", "steps = 7")
    return loopguard.write("loopguard.toml", *lines)


def rows(out: str) -> dict[str, tuple[str, str]]:
    """What is shown, by key."""
    split = (line.split(maxsplit=2) for line in out.splitlines())
    return {key: (value, origin) for key, value, origin in split}


def test_every_setting_is_shown_with_its_origin(
    loopguard: Shell, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults, preset, section and environment, in columns."""
    monkeypatch.setenv("LOOPGUARD_DETECTORS__REPEAT__TIMES", "4")

    status, out, _ = loopguard("policy", "show", file, "--agent", "a")

    shown = rows(out)
    assert status == 0
    assert shown["budget.steps"] == ("7", f"{file} [agents.a]")
    assert shown["budget.seconds"] == ("3600.0", "preset coding")
    assert shown["detectors.repeat.times"] == (
        "4",
        "LOOPGUARD_DETECTORS__REPEAT__TIMES",
    )
    assert shown["ladder.most"] == ("8", "default")


def test_the_file_of_the_folder_is_shown(
    loopguard: Shell, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be named; a section is taken only if asked for."""
    monkeypatch.chdir(loopguard.folder)

    assert rows(loopguard("policy", "show")[1])["budget.steps"] == (
        "50",
        "preset coding",
    )


def test_what_is_shown_as_json_is_a_file(
    loopguard: Shell, file: str, tmp_path: Path
) -> None:
    """It makes the same policy, and says of each value where it came from."""
    status, out, _ = loopguard("policy", "show", file, "--agent", "a", "--json")

    shown = json.loads(out)
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(shown["policy"]))
    assert status == 0
    assert Policy.load(copy, env={}) == Policy.load(file, env={}, agent="a")
    assert shown["from"]["budget.steps"] == f"{file} [agents.a]"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("stpes = 1", "stpes=1 is no setting"),
        ("detectors.repeat.window = 2", "detectors.repeat: Repeat(window=2)"),
        ("detectors.repeat.times = 40", "detectors.repeat: Repeat(times=40)"),
        ("tools.x.off = ['y']", "tools['x'].off='y': give one of"),
    ],
)
def test_a_wrong_file_is_one_line(loopguard: Shell, line: str, problem: str) -> None:
    """Also where only values together are wrong."""
    path = loopguard.write("wrong.toml", line)

    status, out, err = loopguard("policy", "show", path)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"loopguard: {path}: {problem}")


def test_the_schema_is_printed_for_editors(loopguard: Shell) -> None:
    """It is JSON that knows every key."""
    status, out, _ = loopguard("policy", "schema")

    schema = json.loads(out)
    assert status == 0
    assert schema["properties"]["budget"]["anyOf"][0]["properties"]["steps"] == {
        "description": "Turns that called tools; a parallel batch is one.",
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }


@pytest.mark.parametrize("command", ["show", "schema"])
def test_both_have_help_with_an_example(loopguard: Shell, command: str) -> None:
    """As every command has."""
    assert (
        f"Example: loopguard policy {command}"
        in loopguard("policy", command, "--help")[1]
    )


def test_check_takes_a_policy_file(
    loopguard: Shell, loop: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--policy` reads a file, alone: the environment does not change a verdict."""
    runs = loopguard.write("r.jsonl", loop)
    file = loopguard.write("p.toml", "[detectors]", "repeat = {times = 5}")
    wrong = loopguard.write("w.toml", "detectors = 1")
    monkeypatch.setenv("LOOPGUARD_DETECTORS__NEAR_REPEAT", "false")

    assert "step 3, near_repeat" in loopguard("check", runs, "--policy", file)[1]
    status, _, err = loopguard("check", runs, "--policy", wrong)
    assert (status, err.count("\n")) == (2, 1)
