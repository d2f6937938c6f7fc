"""One recorded run for a person: its timeline, and a regression test of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from loopguard_lg import redaction
from loopguard_lg.analysis.replay import Outcome, verdicts
from loopguard_lg.engine import Verdict
from loopguard_lg.errors import LoopGuardError
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Compaction, Event, Progress, Step, Turn
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.wholefiles import write_whole

WIDTH = 60
"""Characters of a text or result that a line of the timeline shows."""


def timeline(policy: Policy, run: Trajectory) -> Iterator[str]:
    """What happened, line by line, with what the detectors and the guard made of it."""
    about = (run.source, run.model, run.task)
    yield ", ".join([run.id, *(_short(part) for part in about if part)])
    for event, verdict in verdicts(policy, run):
        head, *more = _told(event)
        yield f"{verdict.i:>5}  {head}"
        for line in (*more, *_seen(verdict)):
            yield f"{'':>7}{line}"


def _told(event: Event) -> Iterator[str]:
    if isinstance(event, Compaction):
        yield "compaction"
    elif isinstance(event, Progress):
        yield f"progress: {_short(event.note)}"
    elif not isinstance(event, Turn):
        yield f"user: {_short(event.text)}"
    else:
        yield f"{event.agent}: {_short(event.text)}"
        yield from map(_call, event.steps)


def _call(step: Step) -> str:
    args = orjson.dumps(dict(step.args), default=str).decode()
    marks = {"blocked": step.blocked, "cached": step.cached, "failed": step.error}
    notes = "".join(f" [{name}]" for name, holds in marks.items() if holds)
    return f"{step.tool}({_short(args)}) -> {_short(step.result)}{notes}"


def _seen(verdict: Verdict) -> Iterator[str]:
    for f in verdict.findings:
        steps = ", ".join(map(str, f.steps))
        yield f"* {f.kind} {f.count}/{f.threshold}: {f.detail} (steps {steps})"
    if verdict.progress:
        yield "+ progress"
    for where, problem in verdict.faults:
        yield f"! {where} failed: {problem}"
    if verdict.action != "continue":
        why = verdict.exceeded or (verdict.finding and verdict.finding.kind)
        yield f"=> {verdict.action} (rung {verdict.rung}): {why}"


def _short(text: str) -> str:
    line = " ".join(redaction.masked(text).split())
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


_TEST = '''\
"""A recorded run, and what the guard makes of it."""

from pathlib import Path

from loopguard_lg import Policy
from loopguard_lg.analysis.replay import check
from loopguard_lg.traces.readers import read


def test_{name}() -> None:
    """{fact}"""
    (run,) = read(Path(__file__).with_suffix(".json"))

    outcome = check({policy}, run)

    assert (outcome.kind, outcome.step) == ({kind!r}, {step!r})
'''


def write_test(
    run: Trajectory, outcome: Outcome, policy: str | None, path: str | Path
) -> tuple[Path, Path]:
    """Write a test of `outcome`, with the recording beside it; gives both paths.

    Secrets in the recording are masked. The folder is made where there is none.

    Args:
        run: The recorded run.
        outcome: What the test is to hold on to.
        policy: A preset or a file, as on the command line; `None`: the defaults.
        path: Where the test goes; a name that ends in `.py`, and is not taken.

    Raises:
        LoopGuardError: The path is no such name.
        OSError: It can't be written.
    """
    test = Path(path)
    data = test.with_suffix(".json")
    if test.suffix != ".py":
        raise LoopGuardError(f"{test}: a test's name ends in .py")
    if test.exists() or data.exists():
        raise LoopGuardError(f"{test}: there is such a test already")
    kept = redaction.data(run.as_dict())
    test.parent.mkdir(parents=True, exist_ok=True)
    write_whole(data, orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n")
    kind = f"trips as `{outcome.kind}`" if outcome.tripped else "does not trip"
    at = f" at step {outcome.step}" if outcome.tripped else ""
    text = _TEST.format(
        name=_identifier(f"{run.id} {kind}{at}"),
        fact=f"The recorded run {kind}{at}.",
        policy=_policy_code(policy),
        kind=outcome.kind,
        step=outcome.step,
    )
    write_whole(test, text)
    return test, data


def _policy_code(policy: str | None) -> str:
    """How a test comes by its policy."""
    if policy is None:
        return "Policy(budget=())"
    return f"Policy.load({policy!r}, env={{}})"


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
