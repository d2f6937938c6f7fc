from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Shell


@pytest.fixture
def sides(loopguard: Shell, trajectory: Any) -> tuple[str, str]:
    """A set of runs, and the same tasks with a loop in them."""
    good = [
        trajectory(f"r{n}", "one thing found", "another one", success=True)
        for n in range(6)
    ]
    bad = [trajectory(f"r{n}", *["no results"] * 6, success=False) for n in range(2)]
    base = loopguard.write("base.jsonl", *good)
    return base, loopguard.write("current.jsonl", *bad, *good[2:])


def test_what_got_worse_is_status_one(loopguard: Shell, sides: tuple[str, str]) -> None:
    """The table says what, by how much, and how likely by chance."""
    status, out, err = loopguard("compare", *sides)

    assert (status, err) == (1, "")
    assert out.startswith("## Agent runs: worse\n")
    assert "| loop rate | 0.0% | 33.3% | +33.3% [-12.3%, +70.0%]" in out


def test_what_is_no_worse_is_status_zero(
    loopguard: Shell, sides: tuple[str, str]
) -> None:
    """The same again, or within the margins that were given."""
    roomy = ["--max-loop-rise", "0.5", "--max-success-drop", "0.5"]

    assert loopguard("compare", sides[0], sides[0])[0] == 0
    assert loopguard("compare", *sides, *roomy, "--max-steps-rise", "9")[0] == 0
    assert loopguard("compare", *sides, "--chance", "0.05")[0] == 0


def test_json_is_for_a_machine(loopguard: Shell, sides: tuple[str, str]) -> None:
    """One object with every figure of every slice, and the causes."""
    status, out, _ = loopguard("compare", *sides, "--json", "--long", "2")

    data = json.loads(out)
    assert (status, data["regressed"], data["long"]) == (1, True, 2)
    assert [part["name"] for part in data["slices"]] == ["all", "long"]
    assert data["slices"][0]["changes"][0]["figure"] == "loop rate"


def test_a_policy_decides_what_is_a_cap(loopguard: Shell, trajectory: Any) -> None:
    """With a preset's budget, long runs of the second set end on it."""
    results = [f"page {n} of {n * n + 3}" for n in range(14)]
    short = [{**trajectory(f"r{n}", *results[:5]), "success": True} for n in range(4)]
    long = [{**trajectory(f"r{n}", *results), "success": True} for n in range(4)]
    files = loopguard.write("a.jsonl", *short), loopguard.write("b.jsonl", *long)

    _, out, _ = loopguard("compare", *files, "--policy", "support", "--json")

    caps = json.loads(out)["slices"][0]["changes"][1]
    assert (caps["figure"], caps["after"], caps["worse"]) == ("hard caps", 1.0, True)


def test_what_cannot_be_read_is_status_two(
    loopguard: Shell, sides: tuple[str, str]
) -> None:
    """The rest is compared; a file that is not there is one line."""
    broken = loopguard.write("broken.jsonl", "{")

    status, out, err = loopguard("compare", sides[0], broken)
    assert (status, err.count("\n")) == (2, 1)
    assert "Agent runs" in out
    assert loopguard("compare", sides[0], "gone.jsonl")[0] == 2
    assert loopguard("compare", *sides, "--max-loop-rise", "-1")[0] == 2


@pytest.mark.parametrize("empty", [0, 1])
def test_a_side_without_runs_is_no_pass(
    loopguard: Shell, sides: tuple[str, str], empty: int
) -> None:
    """A gate for which nothing was recorded says so, with status two."""
    files = [sides[0], sides[0]]
    files[empty] = loopguard.write("none.jsonl")

    status, out, err = loopguard("compare", *files)

    assert (status, out) == (2, "")
    assert err == f"loopguard: {files[empty]}: there is no run to compare\n"
