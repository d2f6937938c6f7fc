"""`loopguard policy`: the settings that hold, and their schema for editors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from loopguard_lg.cli.common import AsJson, print_json, printable

if TYPE_CHECKING:
    from loopguard_lg.policy_settings import Settings


def show(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|PRESET]",
            help="By default loopguard.toml or pyproject.toml of this folder.",
            show_default=False,
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="With this agent's section.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(metavar="NAME", help="With this graph's section.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the settings that hold, and where each one comes from.

    The environment (LOOPGUARD_BUDGET__STEPS and the like) is looked at as an app does.

    Example: loopguard policy show loopguard.toml --agent researcher
    """
    from loopguard_lg.policy_file import read_settings

    settings = read_settings(source, env=os.environ, agent=agent, graph=graph)
    settings.policy()  # what does not go together is an error here too
    if as_json:
        origins = {key: setting.origin for key, setting in settings.rows()}
        print_json({"policy": settings.plain(), "from": origins})
    else:
        _print_table(settings)


def _print_table(settings: Settings) -> None:
    import orjson

    rows = [
        (key, orjson.dumps(setting.value).decode(), setting.origin)
        for key, setting in settings.rows()
    ]
    keys, values = (max(len(row[at]) for row in rows) for at in (0, 1))
    for key, value, origin in rows:
        typer.echo(printable(f"{key:{keys}}  {value:{values}}  {origin}"))


def schema() -> None:
    """Print the JSON schema of a policy file, for editors.

    Example: loopguard policy schema > loopguard.schema.json
    """
    import orjson

    from loopguard_lg.policy_schema import policy_schema

    typer.echo(orjson.dumps(policy_schema(), option=orjson.OPT_INDENT_2).decode())


policy = typer.Typer(
    help="Show the settings that hold, or their schema.",
    rich_markup_mode=None,
)
for command in (show, schema):
    policy.command()(command)
