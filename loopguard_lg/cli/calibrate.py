"""`loopguard calibrate`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    InputError,
    Jobs,
    Paths,
    complain,
    extra,
    load_policy,
    looked,
    print_json,
    spare,
)
from loopguard_lg.wholefiles import write_whole

if TYPE_CHECKING:
    from loopguard_lg.analysis.facts import RunFacts
    from loopguard_lg.analysis.labels import Label, Labels
    from loopguard_lg.policy import Policy
    from loopguard_lg.traces.model import Trajectory

    Kept: TypeAlias = tuple[RunFacts, tuple[Trajectory, Label] | None]


Out: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Write the policy here.  [default: -]"
    ),
]
Share: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=1e-6, max=0.5, metavar="P", help="Guarantee: share of good runs stopped."
    ),
]
Labelled: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Labels: choose detectors' thresholds, too."),
]
Model: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only runs of this model.")
]


def calibrate(
    paths: Paths,
    out: Out = None,
    max_false_stop: Share = None,
    labels: Labelled = None,
    model: Model = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> int:
    """Make a policy file with budgets from what successful runs have used.

    A cap is the 99th percentile, or with --max-false-stop a line with a guarantee.
    Exit status: 0, or 2 when something can't be read or no run has succeeded.

    Example: loopguard calibrate runs.jsonl --out loopguard.toml
    """
    with extra("analysis"):
        from loopguard_lg.analysis import calibrate as calibrating
        from loopguard_lg.analysis.calibrate_text import policy_file
        from loopguard_lg.analysis.labels import read_labels
        from loopguard_lg.analysis.thresholds import choose

    spare(paths, out)
    known = read_labels(labels) if labels else {}
    policy = load_policy(None)
    runs = looked(partial(_kept, policy, known), paths, jobs)
    kept = [*runs]
    facts = calibrating.of_model((found for found, _ in kept), model)
    found = calibrating.calibrate(facts, max_false_stop)
    if not found.runs:
        runs.status(False)  # names what can't be read
        raise InputError(
            f"no run{_of(model)} has `success: true`: say so with "
            "`recorder.end(thread, success=True)`, or in the file"
        )
    chosen = choose(policy, list(filter(None, (pair for _, pair in kept))))
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    if as_json:
        more = {"date": date, "thresholds": [choice.as_dict() for choice in chosen]}
        print_json(found.as_dict() | more)
    else:
        _write(policy_file(found, chosen, date), out)
    for warning in found.warnings:
        complain(warning)
    return runs.status(False)


def _of(model: str | None) -> str:
    return "" if model is None else f" of {model}"


def _kept(policy: Policy, labels: Labels, run: Trajectory) -> Kept:
    """The facts of a run, and the run itself where it has a label."""
    from loopguard_lg.analysis.facts import outline

    label = labels.get(run.id)
    return outline(policy, run), None if label is None else (run, label)


def _write(text: str, out: str | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text)
    complain(f"wrote {out}")
