"""`loopguard compare`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    Jobs,
    PolicyName,
    Replayed,
    extra,
    load_policy,
    open_lines,
    print_json,
)

if TYPE_CHECKING:
    from loopguard_lg.analysis.facts import RunFacts

Recordings: TypeAlias = Annotated[
    str, typer.Argument(help="Recordings: .jsonl, .jsonl.gz or .json.")
]


def _margin(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name, min=0, metavar="SHARE", help=what
    )
    return option


def compare(
    base: Recordings,
    current: Recordings,
    policy: PolicyName = None,
    loops: Annotated[
        float, _margin("--max-loop-rise", "Rise of the loop rate that passes.")
    ] = 0.02,
    caps: Annotated[
        float, _margin("--max-cap-rise", "The same of runs that end on a budget.")
    ] = 0.02,
    success: Annotated[
        float, _margin("--max-success-drop", "Drop of the success rate that passes.")
    ] = 0.0,
    steps: Annotated[
        float, _margin("--max-steps-rise", "Rise of steps to success, of what it was.")
    ] = 0.1,
    cost: Annotated[
        float, _margin("--max-cost-rise", "Rise of the cost of a run, likewise.")
    ] = 0.1,
    chance: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="P", help="Fail only where chance is less than this."
        ),
    ] = 1.0,
    long: Annotated[
        int | None,
        typer.Option(min=1, metavar="STEPS", help="Steps that make a task long."),
    ] = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> int:
    """Say whether the runs got worse, in Markdown for a pull request.

    Tasks that are in both are compared with themselves. Exit status: 0, 1 when a
    figure is worse by more than its margin, 2 when something can't be read.

    Example: loopguard compare base.jsonl current.jsonl --max-loop-rise 0.05
    """
    with extra("analysis"):
        from loopguard_lg.analysis import compare as comparing, facts
        from loopguard_lg.analysis.compare_text import markdown
        from loopguard_lg.analysis.replay import map_runs

    look = partial(facts.facts, load_policy(policy))
    count = jobs or os.cpu_count() or 1
    sides: list[Replayed[RunFacts]] = [
        Replayed(map_runs(look, open_lines([path]), count)) for path in (base, current)
    ]
    margins = comparing.Margins(
        loops=loops, caps=caps, success=success, steps=steps, cost=cost, chance=chance
    )
    before, after = [*sides[0]], [*sides[1]]
    found = comparing.compare(before, after, margins, long=long)
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(markdown(found), nl=False)
    return max(side.status(found.regressed) for side in sides)
