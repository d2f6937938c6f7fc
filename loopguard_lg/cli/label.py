"""`loopguard label`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    InputError,
    Jobs,
    PolicyName,
    Replayed,
    complain,
    extra,
    kinds_of,
    load_policy,
    open_lines,
    print_json,
    printable,
    replayed,
)

if TYPE_CHECKING:
    from loopguard_lg.analysis.agreement import Agreement, Compared
    from loopguard_lg.analysis.labelling import Session, Sheet
    from loopguard_lg.analysis.labels import Label
    from loopguard_lg.analysis.replay import Outcome

Some: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH", help="Recordings: .jsonl, .jsonl.gz or .json."),
]
File: TypeAlias = Annotated[
    str, typer.Option(metavar="FILE", help="Your labels; they go on where they ended.")
]
Other: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Another one's labels: say how far you agree, and end."
    ),
]
Sample: TypeAlias = Annotated[
    int, typer.Option(min=1, help="How many runs that trip are drawn.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Another one draws other runs.")]


def label(
    paths: Some = None,
    labels: File = "labels.jsonl",
    agreement: Other = None,
    sample: Sample = 60,
    seed: Seed = 0,
    policy: PolicyName = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> int:
    """Read runs that trip, one by one, and say whether, how and why they loop.

    A sample is drawn over sources and kinds, the same one for everybody. Keys do it
    all, and each is on disk at once. Exit status: 0, or 2 for bad input.

    Example: loopguard label runs.jsonl --labels mine.jsonl
    """
    if agreement is not None:
        return _agree(labels, agreement, policy, as_json)
    if not paths:
        raise InputError("Missing argument 'PATH'.")
    if "-" in paths:
        raise InputError("standard input is for the keys: give a file")
    with extra("cli"):
        from loopguard_lg.analysis.labelling import begin
    runs = replayed(paths, policy, jobs)
    sheets = _drawn(paths, runs, sample, seed)
    known = _known(labels, policy)
    show(begin(sheets, known), Path(labels))
    return runs.status(False)


def _drawn(
    paths: list[str], runs: Replayed[Outcome], most: int, seed: int
) -> list[Sheet]:
    """The runs of the sample, in its order."""
    from loopguard_lg.analysis.labelling import sheet
    from loopguard_lg.analysis.labels import sample
    from loopguard_lg.errors import TraceFormatError
    from loopguard_lg.traces.readers import parse

    tripped = ((run.id, (run.source, run.kind)) for run in runs if run.tripped)
    names = sample(tripped, most, seed)
    if not names:
        raise InputError("no run trips: there is nothing to label")
    wanted, found = set(names), {}
    for run in map(parse, open_lines(paths)):
        if not isinstance(run, TraceFormatError) and run.id in wanted:
            found[run.id] = sheet(run)
    if lost := wanted - found.keys():
        raise InputError(f"{min(lost)}: the run is not there at the second reading")
    return [found[name] for name in dict.fromkeys(names)]


def _known(path: str, policy: str | None) -> dict[str, Label]:
    """What the file says already; nothing where there is none, or an empty one."""
    from loopguard_lg.analysis.labels import read_labels

    if not os.path.exists(path) or not os.path.getsize(path):
        return {}
    return read_labels(path, kinds_of(load_policy(policy)))


def show(session: Session, path: Path) -> None:
    """Show the session on the terminal until it is left.

    Raises:
        InputError: There is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("labelling needs a terminal")
    with extra("cli"):
        from loopguard_lg.cli.label_app import LabelApp
    app = LabelApp(session, path)
    app.run()
    complain(f"{app.session.done} of {len(session.sheets)} runs are labelled in {path}")


def _agree(mine: str, other: str, policy: str | None, as_json: bool) -> int:
    from loopguard_lg.analysis.agreement import compare
    from loopguard_lg.analysis.labels import read_labels

    kinds = kinds_of(load_policy(policy))
    found = compare(read_labels(mine, kinds), read_labels(other, kinds))
    if not found.loop.n:
        raise InputError(f"no run is labelled in both {mine} and {other}")
    if as_json:
        print_json(found.as_dict())
    else:
        for line in _told(found):
            typer.echo(printable(line))
    return 0


def _told(found: Compared) -> Iterator[str]:
    yield from (f"{'loop':<6}{agreed(found.loop)}", f"{'kind':<6}{agreed(found.kind)}")
    yield f"{'cause':<6}{agreed(found.cause)}"
    near = sum(apart <= 1 for apart in found.onsets)
    yield f"onset within one step in {near} of {len(found.onsets)}"
    for name, (a, b) in found.apart.items():
        yield f"{name}: {_said(a)} / {_said(b)}"


def agreed(found: Agreement) -> str:
    """An agreement as a person reads it."""
    from loopguard_lg.analysis.agreement import strength

    if found.kappa is None:
        same = "-" if found.same is None else f"{found.same:.1%}"
        return f"same in {same} of {found.n}; kappa is not known"
    return (
        f"same in {found.same:.1%} of {found.n}; kappa {found.kappa:.2f} "
        f"({found.low:.2f} to {found.high:.2f}), {strength(found.kappa)}"
    )


def _said(label: Label) -> str:
    parts = (str(label.loop).lower(), label.kind, label.cause)
    return ", ".join(part for part in parts if part)
