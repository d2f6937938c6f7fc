"""What holds for the recordings, whatever was recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg.adapters.middleware import LoopGuardMiddleware
from loopguard_lg.policy import Policy
from loopguard_lg.testing import bodies
from loopguard_lg.testing.cassettes import recording
from loopguard_lg.testing.histories import validate_history
from tests.testing.scripted_server import calls, says, serving

from .conftest import chat_model
from .repository import WITH_FILES, agent, ask
from .test_scenarios import WORKERS

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted((ROOT / "cassettes").glob("*/*.yaml"))


def requests(path: Path) -> Iterator[dict[str, Any]]:
    """The bodies of a recording's requests."""
    for each in bodies.deserialize(path.read_text("utf-8"))["interactions"]:
        yield json.loads(each["request"]["body"])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_request_is_one_that_a_strict_provider_takes(path: Path) -> None:
    """Notes, blocks and rollbacks leave each call answered and in order."""
    for request in requests(path):
        validate_history(request["messages"])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_settings_that_make_a_replay_stable_are_sent(path: Path) -> None:
    """Model and temperature are in each request, not left to a default."""
    assert {request["temperature"] for request in requests(path)} == {0.0}
    assert all(request["model"] for request in requests(path))


def test_a_silent_guard_changes_nothing_that_is_sent() -> None:
    """A run recorded without a guard replays with one, byte for byte."""
    path = ROOT / "cassettes/test_scenarios/test_a_strong_model_finds_the_workers.yaml"
    guard = LoopGuardMiddleware(Policy(leave_tools=()))
    with recording(path) as opened:
        strong = chat_model("strong", opened)
        result = agent(strong, guard, prompt=WITH_FILES).invoke(ask(WORKERS))

    assert "4" in result["messages"][-1].text


def test_the_command_records_a_scenario(tmp_path: Path) -> None:
    """`python -m tests.recording` makes the file, with any server of that format."""
    options = ["--weak", "small", "--strong", "large", "--folder", str(tmp_path)]
    with serving(calls("search_docs", query="workers"), says("It is 4.")) as server:
        done = subprocess.run(
            [sys.executable, "-m", "tests.recording", "--base-url", server.base_url]
            + [*options, "--only", "finds_the_workers"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    (made,) = tmp_path.rglob("*.yaml")

    assert done.returncode == 0, done.stdout
    assert made.name == "test_a_strong_model_finds_the_workers.yaml"
    assert {request["model"] for request in requests(made)} == {"large"}
