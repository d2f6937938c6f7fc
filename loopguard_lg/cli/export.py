"""`loopguard export`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, TypeAlias

import typer

from loopguard_lg.cli.common import (
    InputError,
    Jobs,
    Paths,
    PolicyName,
    complain,
    load_policy,
    looked,
    spare,
)

if TYPE_CHECKING:
    from loopguard_lg.policy import Policy
    from loopguard_lg.traces.model import Trajectory

Chats: TypeAlias = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FILE", help="Chats, one recovery a line."),
]
Pairs: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Preference pairs, one recovery a line."),
]


def export(
    paths: Paths,
    out: Chats = None,
    pairs: Pairs = None,
    policy: PolicyName = None,
    jobs: Jobs = None,
) -> int:
    """Write training data from runs that went in circles and got out again.

    Known secrets are masked, and every line says which run it is from. Exit status: 0,
    or 2 when something can't be read.

    Example: loopguard export runs.jsonl --out chats.jsonl --pairs pairs.jsonl
    """
    if not (out or pairs):
        raise InputError("give --out, --pairs, or both")
    spare(paths, out, pairs)
    runs = looked(partial(_look, load_policy(policy)), paths, jobs)
    with ExitStack() as stack:
        files = [
            stack.enter_context(open(path, "wb")) if path else None
            for path in (out, pairs)
        ]
        found = [_write(made, files) for made in runs]
    written = " and ".join(path for path in (out, pairs) if path)
    complain(f"{sum(found)} recoveries of {len(found)} runs are in {written}")
    return runs.status(False)


_Made: TypeAlias = tuple[bytes, bytes]
"""A recovery as a line of each file."""


def _look(policy: Policy, run: Trajectory) -> list[_Made]:
    import orjson

    from loopguard_lg.analysis.export import chat, pair, recoveries

    return [
        (orjson.dumps(chat(found), default=str), orjson.dumps(pair(found), default=str))
        for found in recoveries(policy, run)
    ]


def _write(made: list[_Made], files: Sequence[IO[bytes] | None]) -> int:
    """Write what a run gives; how many recoveries that is."""
    for lines in made:
        for file, line in zip(files, lines, strict=True):
            if file is not None:
                file.write(line + b"\n")
    return len(made)
