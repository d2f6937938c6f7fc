"""What the commands share: arguments, reading input, printing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar

import typer

from loopguard_lg.errors import LoopGuardError, TraceFormatError, install_hint
from loopguard_lg.quoting import printable as printable

if TYPE_CHECKING:
    from loopguard_lg.analysis.replay import Outcome
    from loopguard_lg.policy import Policy
    from loopguard_lg.traces.model import Trajectory
    from loopguard_lg.traces.readers import Line

T = TypeVar("T")

SHOW_AFTER = 2.0
"""Seconds after which a terminal is shown how far it is."""


SHOWN_IDS = 5
"""Ids that are named where none is the one asked for."""


SHOWN_LINES = 3
"""Lines that are named where nothing at all can be read."""


class InputError(LoopGuardError):
    """What the user gave can't be used; the message is all that is printed."""


Paths: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Recordings of any format (docs/readers.md); - is standard input.",
    ),
]
PolicyName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE|PRESET",
        help="Settings from a file, or a preset by name.  [default: no budgets]",
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON for a machine to read.")
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Processes.  [default: one a core]"),
]


def complain(problem: str) -> None:
    """One line on standard error."""
    typer.echo(f"loopguard: {printable(problem)}", err=True)


def print_json(data: Any) -> None:
    """One JSON object on one line of standard output."""
    import orjson

    typer.echo(orjson.dumps(data).decode())


def load_policy(name: str | None) -> Policy:
    """The policy of `--policy`; without it, the defaults and no budget.

    The environment is left out: a recording has the same verdict everywhere.

    Raises:
        PolicyError: There is neither such a file nor such a preset, or it is wrong.
    """
    from loopguard_lg.policy import Policy

    # A recording was made under budgets of its own: the default hour is not its.
    return Policy(budget=()) if name is None else Policy.load(name, env={})


def kinds_of(policy: Policy) -> set[str]:
    """The kinds of loops that a policy's detectors look for, yours included."""
    return {detector.kind for detector in policy.detectors}


def open_lines(paths: Sequence[str]) -> Iterator[Line | TraceFormatError]:
    """The lines of all files, in order.

    Raises:
        InputError: There is no such file, before any is read.
    """
    from loopguard_lg.traces.checkpoints import is_address
    from loopguard_lg.traces.readers import STDIN, lines

    for path in paths:
        elsewhere = path == STDIN or is_address(path)
        if not elsewhere and not os.path.exists(path):
            raise InputError(f"{path}: no such file")
    return chain.from_iterable(map(lines, paths))


def find(paths: list[str], name: str | None, option: str) -> Trajectory:
    """The run of that name, or the only one there is.

    Raises:
        InputError: There is no such run, or no only one.
    """
    others: list[str] = []
    found = list(islice(_runs(paths, name, others), 2))
    if not found:
        raise InputError(_absent(name, others) if name else "there is no run")
    if name is None and len(found) > 1:
        raise InputError(f"there are several runs: say which with {option} ID")
    return found[0]


def _absent(name: str, others: list[str]) -> str:
    known = f": there are {', '.join(others[:SHOWN_IDS])}" if others else ""
    more = ", ..." if len(others) > SHOWN_IDS else ""
    return f"no run has the id {name}{known}{more}"


def _runs(
    paths: list[str], name: str | None, others: list[str]
) -> Iterator[Trajectory]:
    """The runs of that name; the first ids that are others' are put into `others`."""
    from loopguard_lg.traces.readers import parse

    for run in map(parse, open_lines(paths)):
        if isinstance(run, TraceFormatError):
            if name is None:
                raise run
        elif name in (None, run.id):
            yield run
        elif len(others) <= SHOWN_IDS:
            others.append(run.id)


class Replayed(Generic[T]):
    """What came of recorded runs; what can't be read is said at the end."""

    def __init__(self, results: Iterable[T | TraceFormatError]) -> None:
        self._results = results
        self.unreadable: list[str] = []
        self.count = 0

    def __iter__(self) -> Iterator[T]:
        for result in counted(self._results, "runs checked"):
            if isinstance(result, TraceFormatError):
                self.unreadable.append(str(result))
            else:
                self.count += 1
                yield result

    def warn_if_none(self) -> None:
        """Say so where there was no run at all, for figures of nothing look fine."""
        if not self.count and not self.unreadable:
            complain("there is no run to check")

    def status(self, missed: bool) -> int:
        """The exit status: 2 for what can't be read, which is named, 1 for a miss."""
        # Where nothing at all can be read, each line says the same.
        named = self.unreadable if self.count else self.unreadable[:SHOWN_LINES]
        for problem in named:
            complain(problem)
        if left := len(self.unreadable) - len(named):
            complain(f"and {left} more lines: this is no recording")
        return 2 if self.unreadable else int(missed)


def looked(
    look: Callable[[Trajectory], T], paths: Sequence[str], jobs: int | None
) -> Replayed[T]:
    """What `look` gives for each recorded run; with several processes it is pickled."""
    from loopguard_lg.analysis.replay import map_runs

    return Replayed(map_runs(look, open_lines(paths), processes(jobs)))


def replayed(
    paths: Sequence[str], policy: str | None, jobs: int | None
) -> Replayed[Outcome]:
    """The outcomes of recorded runs."""
    from loopguard_lg.analysis.replay import check

    return looked(partial(check, load_policy(policy)), paths, jobs)


def spare(paths: Iterable[str], *outs: str | None) -> None:
    """Keep what is written from taking the place of what is read.

    Raises:
        InputError: A file is to be written that is one of `paths`, or two are one.
    """
    named = [out for out in outs if out is not None]
    for at, out in enumerate(named):
        for other in (*paths, *named[:at]):
            if os.path.realpath(out) == os.path.realpath(other):
                raise InputError(f"{out}: this would write over {other}")


def processes(jobs: int | None) -> int:
    """How many processes share the work: as many as asked for, or one a core."""
    return jobs or os.cpu_count() or 1


@contextmanager
def extra(name: str) -> Iterator[None]:
    """What is imported in here comes with an extra, which is named if it is missing.

    Raises:
        InputError: A module outside of this package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "loopguard_lg").startswith("loopguard_lg"):
            raise
        missing = f"there is no {error.name}"
        raise InputError(f"{missing}: this needs {install_hint(name)}") from None


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """`items`, with their count on the terminal when it takes long."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} " + what),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    task = progress.add_task("", total=None)
    began = time.monotonic()
    try:
        for item in items:
            if not progress.live.is_started and time.monotonic() > began + SHOW_AFTER:
                progress.start()
            progress.advance(task)
            yield item
    finally:
        progress.stop()
