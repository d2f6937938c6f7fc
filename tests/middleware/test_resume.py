from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same run, uninterrupted first, then killed after each of its writes."""
    folder = str(tmp_path_factory.mktemp("killed"))
    command = [sys.executable, "-m", "tests.middleware.killed", folder]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def by_turn(run: dict[str, Any]) -> dict[int, list[Any]]:
    """What was decided on each turn; deciding again has to give the same."""
    decided: dict[int, list[Any]] = {}
    for i, *verdict in run["seen"]:
        assert decided.setdefault(i, verdict) == verdict
    return decided


def test_the_run_climbs_the_whole_ladder(runs: list[dict[str, Any]]) -> None:
    """The run that is killed has every rung in it, so that each one is resumed."""
    actions = [verdict[0] for verdict in by_turn(runs[0]).values()]

    assert {"reflect", "escalate", "exit"} <= set(actions)
    assert len(runs) > 20


def test_a_killed_run_resumes_with_the_same_verdicts(
    runs: list[dict[str, Any]],
) -> None:
    """Wherever the process dies, the resumed run decides as the whole one did."""
    whole = by_turn(runs[0])

    assert [by_turn(run) for run in runs] == [whole] * len(runs)


def test_a_killed_run_loses_no_count(runs: list[dict[str, Any]]) -> None:
    """Calls and tokens are counted once, wherever the process dies."""
    ends = [(run["exit"], run["used"]) for run in runs]

    assert ends == [ends[0]] * len(runs)
