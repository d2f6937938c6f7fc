"""`loopguard lint-tools`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from loopguard_lg.cli.common import (
    InputError,
    Jobs,
    PolicyName,
    extra,
    load_policy,
    looked,
    print_json,
    printable,
)

if TYPE_CHECKING:
    from loopguard_lg.analysis.toollint import Level, Problem, ToolSpec

Format: TypeAlias = Annotated[
    Literal["text", "json", "sarif"],
    typer.Option("--format", help="For a person, a program, or a code host."),
]
Fail: TypeAlias = Annotated[
    Literal["note", "warning", "error"],
    typer.Option(help="Exit with 1 from this level on."),
]


def lint_tools(
    tools: Annotated[
        str | None,
        typer.Argument(metavar="MODULE:TOOLS", help="A tool, a list, or a ToolNode."),
    ] = None,
    mcp: Annotated[
        str | None,
        typer.Option(metavar="COMMAND|URL", help="The tools of an MCP server."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Recordings that show how they are used."),
    ] = None,
    form: Format = "text",
    fail_on: Fail = "warning",
    policy: PolicyName = None,
    jobs: Jobs = None,
) -> int:
    """Say what is wrong with tools: names, descriptions, errors, results, no exit.

    Recordings alone will do: then only what they show is looked at. Exit status: 0,
    1 with problems from --fail-on on, 2 when something can't be read.

    Example: loopguard lint-tools my_tools:TOOLS --traces runs.jsonl
    """
    from loopguard_lg.analysis.toollint import LEVELS, lint
    from loopguard_lg.analysis.tooluse import look, uses

    if not (tools or mcp or traces):
        raise InputError("give MODULE:TOOLS, --mcp, --traces, or some of them")
    known = _known(tools, mcp)
    seen = looked(partial(look, load_policy(policy)), traces or [], jobs)
    found = lint(known, uses(seen))
    _print(found, form)
    worst = [p for p in found if LEVELS.index(p.level) >= LEVELS.index(fail_on)]
    return seen.status(bool(worst))


def _known(tools: str | None, mcp: str | None) -> list[ToolSpec]:
    from loopguard_lg.analysis.toolsource import load, served, tools_of

    found = tools_of(load(tools)) if tools else []
    with extra("mcp"):
        return found + (served(mcp) if mcp else [])


def _print(found: list[Problem], form: str) -> None:
    from loopguard_lg import __version__
    from loopguard_lg.analysis.sarif import message, sarif

    if form == "sarif":
        print_json(sarif(found, __version__))
        return
    for problem in found:
        if form == "json":
            print_json(problem.as_dict())
            continue
        place = _place(problem)
        line = f"{place}{problem.level} {problem.rule}: {message(problem)}"
        typer.echo(printable(line))
        for run, step, text in problem.evidence:
            typer.echo(printable(f"    {run} step {step}: {text}"))
    if form == "text":
        typer.echo(_summary([problem.level for problem in found]))


def _place(problem: Problem) -> str:
    where = problem.where
    return f"{where.file}:{where.line}: " if where and where.file else ""


def _summary(levels: list[Level]) -> str:
    from loopguard_lg.analysis.toollint import LEVELS

    counts = ((levels.count(level), level) for level in reversed(LEVELS))
    parts = ", ".join(f"{n} {level}{'s' * (n > 1)}" for n, level in counts if n)
    return parts or "nothing is wrong with the tools"
