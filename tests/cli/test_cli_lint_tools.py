from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell

TOOLS = '''
def search(q: str) -> str:
    """Finds pages of the manual; `q` is what to look for."""

def give_up(reason: str) -> str:
    """Ends the run; `reason` is told to a person."""

def lookup(q: str) -> str:
    ...

GOOD = [search, give_up]
BAD = [search, lookup]
'''


@pytest.fixture
def module(loopguard: Shell, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with tools in the current folder; each test's has its own name."""
    monkeypatch.chdir(loopguard.folder)
    name = f"tools_{loopguard.folder.name}".replace("-", "_")
    Path(loopguard.folder, f"{name}.py").write_text(TOOLS)
    return name


def test_good_tools_are_status_zero(loopguard: Shell, module: str) -> None:
    """Nothing to say is said."""
    result = loopguard("lint-tools", f"{module}:GOOD")

    assert result == (0, "nothing is wrong with the tools\n", "")


def test_a_problem_is_a_line_with_its_place(loopguard: Shell, module: str) -> None:
    """File, line, level, rule, what is wrong and what helps; then the count."""
    status, out, _ = loopguard("lint-tools", f"{module}:BAD")

    assert status == 1
    assert f"{module}.py:8: error no-description: `lookup` has no description." in out
    assert out.splitlines()[-1] == "1 error, 1 warning, 1 note"


@pytest.mark.parametrize(("level", "status"), [("error", 0), ("warning", 1)])
def test_the_level_that_fails_can_be_set(
    loopguard: Shell, module: str, level: str, status: int
) -> None:
    """Warnings fail by default."""
    found = loopguard("lint-tools", f"{module}:search", "--fail-on", level)

    assert found[0] == status
    assert "no-exit" in found[1]


def test_recordings_are_evidence(
    loopguard: Shell, module: str, trajectory: Any
) -> None:
    """Under a problem stand the run, the step and the call."""
    runs = loopguard.write("r.jsonl", trajectory("run", *[""] * 3))

    _, out, _ = loopguard("lint-tools", f"{module}:GOOD", "--traces", runs)

    assert "empty-result: `search` returns nothing at all in 3 of 3 calls" in out
    assert '    run step 0: search(q="x") -> nothing' in out


def test_recordings_alone_will_do(loopguard: Shell, trajectory: Any) -> None:
    """Then only what they show is looked at; what can't be read is status 2."""
    runs = loopguard.write("r.jsonl", trajectory("run", *[""] * 3), "{")

    status, out, err = loopguard("lint-tools", "--traces", runs, "--format", "json")

    assert status == 2
    assert "r.jsonl:2: " in err
    problem = json.loads(out)
    assert (problem["rule"], problem["calls"]) == ("empty-result", 3)
    assert problem["evidence"][0]["run"] == "run"


def test_sarif_is_one_log(loopguard: Shell, module: str) -> None:
    """A code host shows the problems beside the code."""
    _, out, _ = loopguard("lint-tools", f"{module}:BAD", "--format", "sarif")

    log = json.loads(out)
    results = log["runs"][0]["results"]
    assert log["version"] == "2.1.0"
    assert [result["level"] for result in results] == ["error", "warning", "note"]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "give MODULE:TOOLS, --mcp, --traces"),
        (["nowhere"], "not of the form MODULE:NAME"),
        (["no_such_module_here:x"], "can't be had"),
        (["--traces", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--mcp", "no-such-program-here"], "no MCP server answers"),
    ],
)
def test_bad_input_is_status_two(
    loopguard: Shell, args: list[str], problem: str
) -> None:
    """One clear line, no traceback."""
    status, out, err = loopguard("lint-tools", *args)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert problem in err
