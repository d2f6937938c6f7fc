from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from loopguard_lg import Step, Turn, Verdict
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent, Name, notify
from loopguard_lg.steps import Tokens
from loopguard_lg.telemetry.jsonl import StepLog
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.telemetry.conftest import SECRET, Climb, replayed

Logs = Callable[..., StepLog]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logs]:
    """Makes a log, and closes it."""
    with ExitStack() as stack:

        def made(**settings: Any) -> StepLog:
            return stack.enter_context(StepLog(tmp_path / "steps.jsonl", **settings))

        yield made


def seen(event: Any = None, i: int = 0, name: Name = "seen") -> GuardEvent:
    """What an observer is told."""
    step = Step(tool="search", args={"q": "needle"}, result="hay", error=False)
    turn = Turn(agent="main", steps=(step,), tokens=Tokens(input=7, output=2))
    verdict = Verdict(i=i)
    return GuardEvent(
        name=name, thread="t", agent="main", event=event or turn, verdict=verdict
    )


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def only(path: Path) -> Trajectory:
    """The one run of a file."""
    (run,) = read(path)
    assert isinstance(run, Trajectory), run
    return run


def test_a_log_with_content_replays_to_the_verdicts_of_the_live_run(
    climb: Climb, tmp_path: Path, logged: Logs
) -> None:
    """Step by step, through reflection, block, escalation, question and exit."""
    climb.run([logged(content=True)])

    assert replayed(only(tmp_path / "steps.jsonl"), climb.policy) == climb.live
    assert {"reflect", "escalate", "exit"} <= {verdict[1] for verdict in climb.live}


def test_a_log_without_content_replays_exact_repeats(
    climb: Climb, tmp_path: Path, logged: Logs
) -> None:
    """Digests tell the same calls from others; where it loops is the same."""
    climb.run([logged()])
    found = replayed(only(tmp_path / "steps.jsonl"), climb.policy)

    assert [verdict[:4] for verdict in found if verdict[1] != "continue"] == [
        verdict[:4] for verdict in climb.live if verdict[1] != "continue"
    ]


def test_without_content_nothing_that_was_said_is_written(
    climb: Climb, tmp_path: Path, logged: Logs
) -> None:
    """Neither arguments nor results nor words nor what the guard made of them."""
    climb.run([logged()])
    text = (tmp_path / "steps.jsonl").read_text()

    for said in ("find it", "no results", "ppp", SECRET, "query", "try again"):
        assert said not in text


def test_secrets_are_masked_in_content(
    climb: Climb, tmp_path: Path, logged: Logs
) -> None:
    """A key in an argument is written as stars."""
    climb.run([logged(content=True)])
    text = (tmp_path / "steps.jsonl").read_text()

    assert SECRET not in text
    assert "***" in text


def test_a_row_says_of_a_call_what_a_step_log_has_to(
    tmp_path: Path, logged: Logs
) -> None:
    """The columns are there, whether known or not."""
    logged(clock=lambda: 5)(seen())
    (row,) = rows(tmp_path / "steps.jsonl")

    assert (row["step"], row["agent"], row["tool"]) == (0, "main", "search")
    assert row["tokens"] == {"input": 7, "output": 2, "cached": 0}
    assert len(row["args_hash"]) == len(row["result_hash"]) == 16
    assert {"latency", "state_digest", "error"} <= row.keys()
    assert row["at"] == 5


def test_files_rotate_and_the_oldest_goes(tmp_path: Path, logged: Logs) -> None:
    """There is never more than `keep` files beside the newest, none much too large."""
    log = logged(max_bytes=2_000, keep=2)
    for i in range(40):
        log(seen(i=i))
    log.close()

    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        "steps.jsonl", "steps.jsonl.1", "steps.jsonl.2",
    ]  # fmt: skip
    assert max(file.stat().st_size for file in files) <= 2_000


def test_a_step_that_is_taken_again_takes_the_place_of_what_came_after(
    tmp_path: Path, logged: Logs
) -> None:
    """As a retry, or a run from an older checkpoint, leaves it."""
    log = logged(content=True)
    for i in (0, 1, 2, 1):
        log(seen(i=i))

    assert [step["i"] for step in only(log.path).steps] == [0, 1]


def test_a_disk_that_is_full_costs_rows_and_no_run(
    climb: Climb, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and what is lost is counted."""
    log = StepLog("/dev/full")
    climb.run([log])

    assert climb.live[-1]
    assert log.lost > 5
    assert [r.message for r in caplog.records if "are lost" in r.message] == [
        "loopguard: rows of /dev/full are lost: [Errno 28] No space left on device"
    ]
    with suppress(OSError):
        log.close()


@pytest.mark.parametrize("path", [".", "nowhere/steps.jsonl"])
def test_a_path_that_cannot_be_is_refused(path: str) -> None:
    """At once, and not with the first step."""
    with pytest.raises(PolicyError, match="give a file in a folder that is there"):
        StepLog(path)


def test_whatever_a_tool_was_given_is_a_row(tmp_path: Path, logged: Logs) -> None:
    """Objects, cycles and lone surrogates become the nearest that JSON has."""
    cycle: dict[str, Any] = {"self": None, "s": "\ud800", "o": object()}
    cycle["self"] = cycle
    log = logged(content=True)
    turn = Turn(steps=(Step(tool="t", args=cycle, result="\ud800"),))
    notify([log], seen(turn))

    assert only(log.path).events
