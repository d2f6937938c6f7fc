"""What a recorder keeps to itself: secrets, and the file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from loopguard_lg import Human, Recorder, Step, Turn
from loopguard_lg.steps import Event
from loopguard_lg.traces.model import from_event
from loopguard_lg.traces.recorder import redacted
from tests.core import wild
from tests.traces.test_recorder import lines, search, seen

KITTEN = {
    "text": "the password: kitten",
    "deep": {"list": [{"api_key": "kitten"}]},
    "token": 5,
    "object": SimpleNamespace(password="kitten"),
    ("password=kitten",): None,
}


@pytest.mark.parametrize("key", KITTEN)
def test_secrets_are_masked_unless_it_is_switched_off(tmp_path: Path, key: Any) -> None:
    """By their look or the name in front, in arguments, results and texts."""
    args = {key: KITTEN[key]}
    turn = Turn(steps=(Step(tool="x", args=args, result="Cookie: kitten"),))
    for name, options in [("safe", {}), ("whole", {"redact": None})]:
        with Recorder(tmp_path / name, **options) as recorder:
            recorder(seen(Human(text="my token=kitten")))
            recorder(seen(turn, i=1))
    (safe,), (whole,) = lines(tmp_path / "safe"), lines(tmp_path / "whole")

    assert "kitten" not in str(safe)
    assert "token': 5" not in str(safe)
    assert str(whole).count("kitten") >= 2
    digests = [run["steps"][1]["calls"][0]["args_hash"] for run in (safe, whole)]
    assert digests[0] == digests[1]


@given(wild.events)
def test_what_holds_no_secret_is_written_byte_for_byte(event: Event) -> None:
    """Masking twice changes nothing, and a step without secrets not at all."""
    step = from_event(event, 0)
    safe = redacted(step)
    secret = "***" in str(safe)

    assert str(redacted(safe)) == str(safe)
    assert secret or str(safe) == str(step)


def test_endless_arguments_are_masked_all_the_same(tmp_path: Path) -> None:
    """A cycle is cut, and what it holds is not told."""
    cycle: dict[str, Any] = {"password": "kitten"}
    cycle["self"] = [cycle]
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        recorder(seen(search(odd=cycle)))

    assert b"kitten" not in recorder.path.read_bytes()


def test_redact_sees_every_step_before_it_is_kept(tmp_path: Path) -> None:
    """What `redact` takes out is nowhere in the file."""

    def redact(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "text": step["text"].replace("hunter2", "***")}

    with Recorder(tmp_path / "runs.jsonl", redact=redact) as recorder:
        recorder(seen(Human(text="my password is hunter2")))

    assert b"hunter2" not in recorder.path.read_bytes()
    assert b"my password is ***" in recorder.path.read_bytes()


def test_a_recording_is_for_its_owner(tmp_path: Path) -> None:
    """Recordings hold what people said, so nobody else may read the new file."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        recorder(seen(Human(text="hi")))

    assert recorder.path.stat().st_mode & 0o077 == 0
