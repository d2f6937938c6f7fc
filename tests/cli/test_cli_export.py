from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell


@pytest.fixture
def runs(loopguard: Shell, trajectory: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that gets out of a loop, and one that does not."""
    monkeypatch.chdir(loopguard.folder)
    back = trajectory("back", *["no results"] * 4, "Bergen has 289,330 people")
    return loopguard.write("r.jsonl", back, trajectory("loop", *["no results"] * 6))


def lines(name: str) -> list[Any]:
    """The objects of a file."""
    return [*map(json.loads, Path(name).read_text().splitlines())]


def test_recoveries_are_written_in_both_forms(loopguard: Shell, runs: str) -> None:
    """One line each; the loop without a way out gives none."""
    status, _, err = loopguard("export", runs, "--out", "c.jsonl", "--pairs", "p.jsonl")

    assert status == 0
    assert err == "loopguard: 1 recoveries of 2 runs are in c.jsonl and p.jsonl\n"
    assert [line["loopguard"]["run"] for line in lines("c.jsonl")] == ["back"]
    assert set(lines("p.jsonl")[0]) == {"prompt", "chosen", "rejected", "loopguard"}


def test_one_form_will_do(loopguard: Shell, runs: str) -> None:
    """Only the file that is asked for is made."""
    assert loopguard("export", runs, "--pairs", "p.jsonl")[0] == 0
    assert not Path("c.jsonl").exists()


def test_what_cannot_be_read_is_status_two(loopguard: Shell, runs: str) -> None:
    """The rest is written; without a file to write there is nothing to do."""
    broken = loopguard.write("broken.jsonl", "{")

    status, _, err = loopguard("export", broken, runs, "--out", "c.jsonl")

    assert status == 2
    assert "broken.jsonl:1: " in err
    assert len(lines("c.jsonl")) == 1
    assert "give --out, --pairs" in loopguard("export", runs)[2]
