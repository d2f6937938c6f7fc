"""`loopguard check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from loopguard_lg.cli.common import (
    AsJson,
    InputError,
    Jobs,
    Paths,
    PolicyName,
    complain,
    counted,
    jobs_or_cores,
    load_policy,
    open_lines,
    print_json,
    printable,
)
from loopguard_lg.errors import TraceFormatError

if TYPE_CHECKING:
    from loopguard_lg.analysis.replay import Outcome
    from loopguard_lg.policy import Policy
    from loopguard_lg.traces.model import Trajectory


def check(
    paths: Paths,
    policy: PolicyName = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show this run as the detectors saw it."),
    ] = None,
    emit_test: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write a test of the explained run, or the only one."
        ),
    ] = None,
) -> int:
    """Say which recorded runs go in circles.

    Runs are replayed through the guard, which only watches. Exit status: 0 no run
    trips, 1 some do, 2 something can't be read.

    Example: loopguard check runs.jsonl.gz --policy coding
    """
    settings = load_policy(policy)
    if explain is not None or emit_test is not None:
        run = _find(paths, explain)
        return _explain(run, settings, policy, as_json, emit_test)
    from loopguard_lg.analysis.replay import check_all

    lines = open_lines(paths)
    outcomes = check_all(settings, lines, jobs_or_cores(jobs))
    return _report(counted(outcomes, "runs checked"), as_json)


def _report(outcomes: Iterable[Outcome | TraceFormatError], as_json: bool) -> int:
    kinds: Counter[str | None] = Counter()
    total, unreadable = 0, []
    for outcome in outcomes:
        if isinstance(outcome, TraceFormatError):
            unreadable.append(outcome)
            continue
        total += 1
        if outcome.tripped:
            kinds[outcome.kind] += 1
        if as_json:
            print_json(outcome.as_dict())
        elif outcome.tripped:
            typer.echo(_line(outcome))
    if not as_json:
        typer.echo(_summary(total, kinds))
    for error in unreadable:
        complain(str(error))
    return 2 if unreadable else int(bool(kinds))


def _line(outcome: Outcome) -> str:
    return printable(
        f"{outcome.id}: step {outcome.step}, {outcome.kind}: {outcome.detail}"
    )


def _summary(total: int, kinds: Counter[str | None]) -> str:
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    tripped = f"{kinds.total()} of {total} runs trip"
    return f"{tripped} ({parts})" if parts else tripped


def _find(paths: list[str], name: str | None) -> Trajectory:
    """The run of that name, or the only one there is."""
    from loopguard_lg.traces.readers import parse

    found = None
    for line in open_lines(paths):
        run = parse(line)
        if isinstance(run, TraceFormatError):
            if name is None:
                raise run
        elif name is None and found is not None:
            raise InputError("there are several runs: say which with --explain ID")
        elif name in (None, run.id):
            found = run
    if found is None:
        raise InputError(f"no run has the id {name}" if name else "there is no run")
    return found


def _explain(
    run: Trajectory,
    settings: Policy,
    policy: str | None,
    as_json: bool,
    emit_test: str | None,
) -> int:
    from loopguard_lg.analysis import explain, replay

    outcome = replay.check(settings, run)
    if as_json:
        print_json(outcome.as_dict())
    else:
        for line in explain.timeline(settings, run):
            typer.echo(printable(line))
        typer.echo(_line(outcome) if outcome.tripped else f"{run.id}: does not trip")
    if emit_test is not None:
        written = explain.write_test(run, outcome, policy, emit_test)
        complain(f"wrote {' and '.join(map(str, written))}")
    return int(outcome.tripped)
