"""`loopguard report`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from loopguard_lg.cli.common import (
    AsJson,
    Jobs,
    Paths,
    PolicyName,
    Replayed,
    complain,
    extra,
    find,
    kinds_of,
    load_policy,
    open_lines,
    print_json,
    processes,
    spare,
)
from loopguard_lg.wholefiles import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopguard_lg.analysis.report import Looked, Report
    from loopguard_lg.analysis.timeline import Timeline
    from loopguard_lg.errors import TraceFormatError
    from loopguard_lg.traces.model import Trajectory

Out: TypeAlias = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes.")
]
Labelled: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Labels: how many exits were right."),
]
Worst: TypeAlias = Annotated[
    int, typer.Option(min=0, help="How many runs are shown one by one.")
]
Folder: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", help="Keep the tables as Parquet, too."),
]
Engine: TypeAlias = Annotated[
    Literal["duckdb", "spark"],
    typer.Option(help="Replay on this machine, or on a cluster of Spark."),
]
One: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="Show this run alone.")
]
Svg: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw that run as SVG.")
]
Png: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw that run as PNG.")
]
Terminal: TypeAlias = Annotated[
    bool, typer.Option("--terminal", help="Show that run in the terminal.")
]


def report(
    paths: Paths,
    policy: PolicyName = None,
    out: Out = "report.html",
    labels: Labelled = None,
    worst: Worst = 12,
    save: Folder = None,
    engine: Engine = "duckdb",
    as_json: AsJson = False,
    jobs: Jobs = None,
    run: One = None,
    svg: Svg = None,
    png: Png = None,
    terminal: Terminal = False,
) -> int:
    """Write a page on how the agents do: figures, loops, and the worst runs.

    The page is one file that needs no network. Exit status: 0, or 2 when something
    can't be read.

    Example: loopguard report runs.jsonl --out report.html
    """
    if run is not None or svg or png or terminal:
        return _show(paths, policy, run, svg, png)
    with extra("analysis"):
        from loopguard_lg.analysis import report as reports
        from loopguard_lg.analysis.labels import read_labels
        from loopguard_lg.traces.store import Store

    spare(paths, out)
    settings, store = load_policy(policy), Store()
    known = read_labels(labels, kinds_of(settings)) if labels else None
    look = partial(reports.look, settings)
    runs = Replayed(_looked(engine, look, paths, jobs))
    found = reports.gather(
        settings,
        runs,
        labels=known,
        worst=worst,
        store=store,
        under=policy or "the defaults, without a budget",
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        unreadable=runs.unreadable,
    )
    if save:
        store.save(save)
    _write(found, out, as_json)
    runs.warn_if_none()
    return runs.status(False)


def _looked(
    engine: str,
    look: Callable[[Trajectory], Looked],
    paths: list[str],
    jobs: int | None,
) -> Iterator[Looked | TraceFormatError]:
    """What comes of the runs, by the engine."""
    if engine == "duckdb":
        from loopguard_lg.analysis.replay import map_runs

        return map_runs(look, open_lines(paths), processes(jobs))
    with extra("spark"):
        from loopguard_lg.traces import spark
    return spark.map_runs(look, paths, spark.session(jobs))


def _write(found: Report, out: str, as_json: bool) -> None:
    if as_json:
        print_json(found.as_dict())
        return
    from loopguard_lg.analysis.report_page import page

    write_whole(out, page(found))
    complain(f"wrote {out}")


def _show(
    paths: list[str],
    policy: str | None,
    name: str | None,
    svg: str | None,
    png: str | None,
) -> int:
    """One run: as pictures, or in the terminal where no file is asked for."""
    from loopguard_lg.analysis.timeline import timeline

    spare(paths, svg, png)
    line = timeline(load_policy(policy), find(paths, name, "--run"))
    if svg or png:
        _draw(line, svg, png)
    else:
        from rich.console import Console

        from loopguard_lg.analysis.timeline_terminal import show

        show(line, Console())
    return 0


def _draw(line: Timeline, svg: str | None, png: str | None) -> None:
    from loopguard_lg.analysis.timeline_picture import picture

    drawn = picture(line)
    if svg:
        from loopguard_lg.analysis.timeline_svg import svg as written

        write_whole(svg, written(drawn))
    if png:
        with extra("analysis"):
            from loopguard_lg.analysis.timeline_png import png as paint
        painted = BytesIO()
        paint(drawn, painted)
        write_whole(png, painted.getvalue())
    complain(f"wrote {' and '.join(name for name in (svg, png) if name)}")
