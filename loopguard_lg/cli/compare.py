"""`loopguard compare`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    InputError,
    Jobs,
    PolicyName,
    Replayed,
    extra,
    load_policy,
    looked,
    print_json,
)

Recordings: TypeAlias = Annotated[
    str, typer.Argument(help="Recordings: .jsonl, .jsonl.gz or .json.")
]


Loops: TypeAlias = Annotated[
    float,
    typer.Option(
        "--max-loop-rise", min=0, metavar="SHARE", help="Rise of the loop rate."
    ),
]
Caps: TypeAlias = Annotated[
    float,
    typer.Option(
        "--max-cap-rise", min=0, metavar="SHARE", help="Rise of runs that hit a budget."
    ),
]
Success: TypeAlias = Annotated[
    float,
    typer.Option(
        "--max-success-drop", min=0, metavar="SHARE", help="Drop of the success rate."
    ),
]
Steps: TypeAlias = Annotated[
    float,
    typer.Option(
        "--max-steps-rise", min=0, metavar="SHARE", help="Rise of steps to success."
    ),
]
Cost: TypeAlias = Annotated[
    float,
    typer.Option(
        "--max-cost-rise", min=0, metavar="SHARE", help="Rise of the cost of a run."
    ),
]
Chance: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0, max=1, metavar="P", help="Fail only where chance is less than this."
    ),
]
Long: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, metavar="STEPS", help="Steps that make a task long."),
]


def compare(
    base: Recordings,
    current: Recordings,
    policy: PolicyName = None,
    loops: Loops = 0.02,
    caps: Caps = 0.02,
    success: Success = 0.0,
    steps: Steps = 0.1,
    cost: Cost = 0.1,
    chance: Chance = 1.0,
    long: Long = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> int:
    """Say whether the runs got worse, in Markdown for a pull request.

    Tasks that are in both are compared with themselves. The margins say how much
    worse a figure may be: steps and cost as a share of what they were, the others
    in shares of all runs. Exit status: 0, 1 beyond a margin, 2 when something
    can't be read or a file has no run.

    Example: loopguard compare base.jsonl current.jsonl --max-loop-rise 0.05
    """
    with extra("analysis"):
        from loopguard_lg.analysis import compare as comparing, facts
        from loopguard_lg.analysis.compare_text import markdown

    look = partial(facts.outline, load_policy(policy))
    sides = [looked(look, [path], jobs) for path in (base, current)]
    margins = comparing.Margins(
        loops=loops, caps=caps, success=success, steps=steps, cost=cost, chance=chance
    )
    before, after = [*sides[0]], [*sides[1]]
    _refuse_none(base, sides[0])
    _refuse_none(current, sides[1])
    found = comparing.compare(before, after, margins, long=long)
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(markdown(found), nl=False)
    return max(side.status(found.regressed) for side in sides)


def _refuse_none(path: str, side: Replayed[Any]) -> None:
    """Refuse a file without runs: a gate must not pass where nothing was recorded."""
    if not side.count and not side.unreadable:
        raise InputError(f"{path}: there is no run to compare")
