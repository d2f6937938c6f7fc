"""The commands, and what holds for all: exit statuses, one line for bad input."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from loopguard_lg.cli.calibrate import calibrate
from loopguard_lg.cli.check import check
from loopguard_lg.cli.common import complain
from loopguard_lg.cli.compare import compare
from loopguard_lg.cli.demo import demo
from loopguard_lg.cli.export import export
from loopguard_lg.cli.judge import judge
from loopguard_lg.cli.label import label
from loopguard_lg.cli.lint_tools import lint_tools
from loopguard_lg.cli.policy import policy
from loopguard_lg.cli.report import report
from loopguard_lg.cli.score import score
from loopguard_lg.errors import LoopGuardError

app = typer.Typer(
    name="loopguard",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    demo,
    check,
    report,
    calibrate,
    compare,
    score,
    label,
    judge,
    lint_tools,
    export,
):
    app.command()(command)
app.add_typer(policy, name="policy")


def _show_version(wanted: bool) -> None:
    if wanted:
        from loopguard_lg import __version__

        typer.echo(f"loopguard {__version__}")
        raise typer.Exit


@app.callback()
def loopguard(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Say which it is."
        ),
    ] = False,
) -> None:
    """Notice agents going in circles: replay, score and compare recorded runs."""


def run(args: Sequence[str]) -> int:
    """The exit status of a command line: what the command says, 2 for bad input."""
    try:
        status = app(list(args) or ["--help"], "loopguard", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _refused(error.format_message())
    except BrokenPipeError:
        # Whoever read the output has enough; keep the exit from complaining again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except LoopGuardError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(_told(error))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    return int(status or 0)


def _told(error: OSError) -> str:
    """What is wrong with a file, without the number of the error."""
    if error.filename is None:
        return str(error)
    absent = isinstance(error, FileNotFoundError)
    problem = "no such file or folder" if absent else error.strerror
    return f"{error.filename}: {problem}"


def _refused(problem: str) -> int:
    complain(" ".join(problem.split()))
    return 2
