"""Inputs that are made to be expensive: what is looked at is bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from loopguard_lg import Policy, redaction, scratchpad
from loopguard_lg.analysis.replay import check
from loopguard_lg.digests import args_hash, result_hash, step_digests
from loopguard_lg.engine import decide
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import TEXT_LIMIT, Step, Turn, clip
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from loopguard_lg.traces.recorder import Recorder

MANY = 10_000


def _nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


def _cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    return cycle


WILD: dict[str, Any] = {
    "nested": _nested(100_000),
    "cycle": _cycle(),
    "huge": 10**10_000,
    "surrogates": "\ud800" * 999,
    "nan": [float("nan"), float("inf"), -0.0],
    "wide": dict.fromkeys(map(str, range(MANY)), 1),
    "keys": {None: 1, 7: 2, (1, 2): 3},
    "bytes": b"\xff" * 99,
}


@pytest.mark.parametrize("kind", WILD)
def test_any_argument_has_digests_and_a_line(kind: str) -> None:
    """Endless, huge or broken values are cut off where they are looked at."""
    step = Step(tool="act", args={"x": WILD[kind]}, result="ok")

    assert len(args_hash(step.args)) == 16
    assert step_digests(step) == step_digests(step)
    assert len(scratchpad.describe(step.tool, step.args)) <= 90


@pytest.mark.parametrize("kind", WILD)
def test_any_argument_can_be_recorded_and_read_again(kind: str, tmp_path: Path) -> None:
    """A line is written, whatever was called, and it is a recording."""
    turn = Turn(steps=(Step(tool="act", args={"x": WILD[kind]}, result="\ud800"),))
    verdict, _ = decide(Policy(), {}, turn)
    with Recorder(tmp_path / "r.jsonl") as recorder:
        recorder(
            GuardEvent(name="seen", thread="t", agent="a", event=turn, verdict=verdict)
        )
    (run,) = read(recorder.path)

    assert isinstance(run, Trajectory)
    assert not check(Policy(), run).tripped


def _memory_of(act: Callable[[], Any]) -> int:
    """Bytes that were held at most while `act` ran."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_result_of_100_megabytes_is_not_copied_about() -> None:
    """Only its exact digest looks at all of it, and encodes it once."""
    text = "all the same line of text\n" * 4_000_000
    step = Step(tool="read", args={"path": "x"}, result=text)

    def seen() -> None:
        result_hash(text)
        decide(Policy(), {}, Turn(steps=(step,)))
        scratchpad.noted({}, step, 1, wrote=False)

    assert _memory_of(seen) < 1.2 * len(text)
    assert len(clip(text)) == TEXT_LIMIT


def test_10_000_calls_at_once_are_one_bounded_turn() -> None:
    """The memory afterwards is as small as after a few."""
    steps = tuple(Step(tool="act", args={"n": n}, result=f"r{n}") for n in range(MANY))
    memory: Any = {}
    for _ in range(2):
        _, memory = decide(Policy(budget=()), memory, Turn(steps=steps))

    assert len(orjson.dumps(memory)) < 64_000


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"id":"r","steps":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"id":"r","steps":[{"i":1e400}]}',
        b'{"id":"r","steps":[{"i":' + b"9" * 5_000 + b"}]}",
        b'{"id":"\\ud800","steps":[]}',
        b'{"id":"r","steps":[NaN]}',
        b"\xff\xfe\x00{",
        b'{"id":"r","id":{},"steps":7}',
    ],
)
def test_a_hostile_line_is_an_error_in_its_place(line: bytes, tmp_path: Path) -> None:
    """With its number; the run that follows is read."""
    path = tmp_path / "runs.jsonl"
    good = b'{"id":"good","steps":[{"i":0,"agent":"user","text":"hi"}]}'
    path.write_bytes(good + b"\n" + line + b"\n" + good + b"\n")

    first, broken, last = read(path)

    assert isinstance(broken, TraceFormatError)
    assert broken.line == 2
    assert isinstance(first, Trajectory)
    assert isinstance(last, Trajectory)


@pytest.mark.parametrize("kind", ["nested", "cycle", "huge", "surrogates", "wide"])
def test_any_value_can_be_redacted(kind: str) -> None:
    """What is too deep becomes a text."""
    assert redaction.data({"x": WILD[kind]}) is not None


@pytest.mark.parametrize(
    "text", ["://" * 9_999, "token=" * 9_999, "-----BEGIN " * 9_999, "sk-" * 9_999,
             "eyJ" * 9_999, "a" * 99_999, '"' * 99_999, "\x1b]" * 9_999, "--x" * 9_999]
)  # fmt: skip
def test_a_text_made_for_the_rules_takes_linear_work(text: str) -> None:
    """It ends, twice the text as well, and a third time changes nothing."""
    assert redaction.masked(redaction.masked(text + text)) is not None
    assert len(scratchpad.quote(text, 90)) <= 90
