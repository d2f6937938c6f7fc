from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.middleware.test_resume import by_turn


@pytest.fixture(scope="module", params=[None, "postgres", "redis_stack_server"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """A run, uninterrupted first, then killed at twenty random moments."""
    folder = str(tmp_path_factory.mktemp("killed"))
    command = [sys.executable, "-m", "tests.middleware.killed", folder]
    if request.param:
        command += ["--server", request.getfixturevalue(request.param)]
    command += ["--points", "20"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_run_killed_at_any_moment_decides_as_the_whole_one(
    runs: list[dict[str, Any]],
) -> None:
    """On an event loop or not, before or after a write, with each durability."""
    whole = by_turn(runs[0])

    assert [run["whole"] for run in runs] == [True] + [False] * 20
    assert [by_turn(run) for run in runs] == [whole] * 21


def test_a_run_killed_at_any_moment_loses_no_count(runs: list[dict[str, Any]]) -> None:
    """Calls and tokens are counted once, and the run ends for the same reason."""
    ends = [(run["exit"], run["used"]) for run in runs]

    assert ends == [ends[0]] * 21
