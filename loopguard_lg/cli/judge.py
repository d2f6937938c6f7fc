"""`loopguard judge`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    Jobs,
    Paths,
    PolicyName,
    complain,
    counted,
    extra,
    kinds_of,
    load_policy,
    looked,
    print_json,
    printable,
    spare,
)

if TYPE_CHECKING:
    from loopguard_lg.analysis.judge import Calibrated
    from loopguard_lg.analysis.labels import Label, Labels

Model: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="PROVIDER:NAME|MODULE:NAME", help="The judge: any LangChain chat model."
    ),
]
People: TypeAlias = Annotated[
    str, typer.Option(metavar="FILE", help="Labels by people, to hold the judge to.")
]
Judged: TypeAlias = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help="What the judge says.")
]
Sample: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Exits that are drawn, beside those with a label.")
]
Kappa: TypeAlias = Annotated[
    float, typer.Option(min=0, max=1, help="Agreement that a rate needs (kappa).")
]
Least: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Labelled exits that a rate needs.")
]
Seconds: TypeAlias = Annotated[
    float, typer.Option(min=0.001, help="Seconds that an answer may take.")
]


def judge(
    paths: Paths,
    model: Model,
    labels: People,
    out: Judged = "judged.jsonl",
    sample: Sample = 200,
    min_kappa: Kappa = 0.6,
    min_labels: Least = 20,
    timeout: Seconds = 300.0,
    policy: PolicyName = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> int:
    """Have a model say whether the guard's exits were right, and how far to believe it.

    What it says is kept; a second start asks only what is new. Exit status: 0, 1 when
    it agrees with people too little for a rate, 2 for bad input.

    Example: loopguard judge runs.jsonl --model my_models:JUDGE --labels labels.jsonl
    """
    with extra("analysis"):
        from loopguard_lg.analysis import judge as judging
    from loopguard_lg.analysis.labels import read_labels

    spare([*paths, labels], out)
    settings = load_policy(policy)
    kinds = kinds_of(settings)
    people = read_labels(labels, kinds)
    there = os.path.exists(out) and os.path.getsize(out)
    known = read_labels(out, kinds) if there else {}
    runs = looked(partial(judging.exit_of, settings), paths, jobs)
    exits = [found for found in runs if found is not None]
    with extra("agents"):
        from loopguard_lg.adapters.judging import asking

        ask = asking(_model(model), timeout)
    asked = judging.drawn(exits, people, sample)
    judged = _judged(judging.judge(asked, known, ask, model), known, out)
    found = judging.calibrate(judged, people, min_labels, min_kappa)
    if as_json:
        print_json(found.as_dict())
    else:
        for line in _told(found):
            typer.echo(printable(line))
    if found.refusal:
        complain(f"no rate is reported: {found.refusal}")
    return runs.status(bool(found.refusal))


def _judged(
    said: Iterator[tuple[str, Label]], known: Labels, out: str
) -> dict[str, Label]:
    """What the judge says of each exit; on disk as soon as it is said."""
    from loopguard_lg.analysis.labels import add_label

    judged: dict[str, Label] = {}
    for name, label in counted(said, "exits judged"):
        judged[name] = label
        if known.get(name) != label:
            add_label(out, name, label)
    return judged


def _model(name: str) -> Any:
    """The object that is named, if it is one of Python's; else the name as it is."""
    module, _, attribute = name.partition(":")
    if not attribute.replace(".", "").isidentifier() or not _is_module(module):
        return name
    from loopguard_lg.analysis.toolsource import load
    from loopguard_lg.errors import LoopGuardError

    try:
        return load(name)
    except LoopGuardError as error:
        # `openai:o3` is a provider's model, though there is a module of that name.
        if isinstance(error.__cause__, AttributeError):
            return name
        raise


def _is_module(name: str) -> bool:
    import sys

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _told(found: Calibrated) -> Iterator[str]:
    from loopguard_lg.cli.label import agreed

    yield f"{found.exits} exits judged, {found.unclear} of them unclear"
    yield f"judge and people: {agreed(found.agreement)}"
    for (person, judge), runs in found.agreement.confusion.items():
        yield f"{runs:>6}  people say {person}, the judge {judge}"
    if found.rate is not None and found.rate.value is not None:
        low, high = found.rate.low or 0, found.rate.high or 0
        yield f"correct exits: {found.rate.value:.1%} ({low:.1%} to {high:.1%})"
