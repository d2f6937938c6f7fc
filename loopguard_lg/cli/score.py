"""`loopguard score`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import typer

from loopguard_lg.analysis.shares import wilson
from loopguard_lg.cli.common import (
    AsJson,
    Jobs,
    Paths,
    PolicyName,
    complain,
    kinds_of,
    load_policy,
    print_json,
    printable,
    replayed,
)

Share: TypeAlias = Annotated[float | None, typer.Option(min=0, max=1, metavar="SHARE")]


def score(
    paths: Paths,
    labels: Annotated[
        str, typer.Option(metavar="FILE", help="Labels, one JSON object a line.")
    ],
    policy: PolicyName = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    min_precision: Share = None,
    min_recall: Share = None,
    max_false_trips: Share = None,
) -> int:
    """Compare the verdicts with labels given by hand.

    Exit status: 0, 1 when --min-precision, --min-recall or --max-false-trips is
    missed, 2 when something can't be read.

    Example: loopguard score runs.jsonl --labels labels.jsonl --min-precision 0.9
    """
    from loopguard_lg.analysis import score as scoring
    from loopguard_lg.analysis.labels import read_labels

    known = read_labels(labels, kinds_of(load_policy(policy)))
    runs = replayed(paths, policy, jobs)
    figures = scoring.score(runs, known)
    if as_json:
        print_json(figures)
    else:
        for line in _report(figures):
            typer.echo(printable(line))
    missed = _missed(figures, min_precision, min_recall, max_false_trips)
    for line in missed:
        complain(line)
    runs.warn_if_none()
    return runs.status(bool(missed))


def _missed(
    figures: Mapping[str, Any],
    min_precision: float | None,
    min_recall: float | None,
    max_false_trips: float | None,
) -> list[str]:
    """The demands that do not hold; a figure that can't be had misses its demand."""
    lines = []
    for key, least in (("precision", min_precision), ("recall", min_recall)):
        if least is not None and (figures[key] is None or figures[key] < least):
            lines.append(f"{key} is {_percent(figures[key])}, below {_percent(least)}")
    rate = figures["false_trip_rate"]
    if max_false_trips is not None and (rate is None or rate > max_false_trips):
        most = _percent(max_false_trips)
        lines.append(f"false trips are {_percent(rate)}, above {most}")
    return lines


_HEAD = (
    f"{'':<24}{'loops':>6}{'ok':>6}{'prec.':>8}{'recall':>8}{'F1':>8}"
    f"{'false trips':>20}{'delay p50':>11}{'p90':>5}"
)


def _report(figures: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD
    yield _row("all", figures)
    for name, group in figures["by_source"].items():
        yield _row(name or "(no source)", group)
    yield ""
    for kind, counts in figures["by_kind"].items():
        yield f"{kind:<24}{_found(counts)}{counts['fp']:>4} false"
    if figures["unmeasured"]:
        kinds = ", ".join(figures["unmeasured"])
        yield f"unmeasured, as no label has such a loop: {kinds}"
    if figures["errors"]:
        yield ""
    for error in figures["errors"]:
        yield _wrong(error)
    if figures["unmatched"]:
        yield f"{len(figures['unmatched'])} labels have no run"


def _found(counts: Mapping[str, Any]) -> str:
    """How many loops of a kind were found, and the interval of that share."""
    loops = counts["tp"] + counts["fn"]
    if not loops:
        return f"{'unmeasured':>32}"
    low, high = wilson(counts["tp"], loops)
    sure = f"[{_percent(low)}, {_percent(high)}]"
    return f"{counts['tp']:>6} of {loops:>3} found {sure:>18}"


def _row(name: str, group: Mapping[str, Any]) -> str:
    shares = "".join(
        f"{_percent(group[key]):>8}" for key in ("precision", "recall", "f1")
    )
    trips = f"{_percent(group['false_trip_rate'])} of {group['n_success']}"
    delays = f"{_number(group['delay_p50']):>11}{_number(group['delay_p90']):>5}"
    return (
        f"{name:<24}{group['n_loop']:>6}{group['n_ok']:>6}{shares}{trips:>20}{delays}"
    )


def _wrong(error: Mapping[str, Any]) -> str:
    if error["error"] == "missed":
        why = f"from step {error['onset_step']}: {error['reason']}"
        return f"missed {error['id']}, {error['kind']} {why}"
    tripped = f"{error['kind']} at step {error['step']}: {error['detail']}"
    return f"false trip {error['id']}, {tripped} (label: {error['reason']})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
