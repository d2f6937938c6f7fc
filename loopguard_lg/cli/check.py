"""`loopguard check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from loopguard_lg.cli.common import (
    AsJson,
    Jobs,
    Paths,
    PolicyName,
    complain,
    find,
    load_policy,
    print_json,
    printable,
    replayed,
)

if TYPE_CHECKING:
    from loopguard_lg.analysis.replay import Outcome
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
    if explain is not None or emit_test is not None:
        return _explain(find(paths, explain, "--explain"), policy, as_json, emit_test)
    runs = replayed(paths, policy, jobs)
    return runs.status(_report(runs, as_json))


def _report(outcomes: Iterable[Outcome], as_json: bool) -> bool:
    """Print every outcome that counts; did one trip?"""
    kinds: Counter[str | None] = Counter()
    for outcome in outcomes:
        kinds[outcome.kind] += 1
        if as_json:
            print_json(outcome.as_dict())
        elif outcome.tripped:
            typer.echo(_line(outcome))
    total, fine = kinds.total(), kinds.pop(None, 0)
    if not as_json:
        typer.echo(_summary(total, kinds))
    return total > fine


def _line(outcome: Outcome) -> str:
    return printable(
        f"{outcome.id}: step {outcome.step}, {outcome.kind}: {outcome.detail}"
    )


def _summary(total: int, kinds: Counter[str | None]) -> str:
    if not total:
        return "there is no run to check"
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    tripped = f"{kinds.total()} of {total} runs trip"
    return f"{tripped} ({parts})" if parts else tripped


def _explain(
    run: Trajectory, policy: str | None, as_json: bool, emit_test: str | None
) -> int:
    from loopguard_lg.analysis import explain, replay

    settings = load_policy(policy)
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
