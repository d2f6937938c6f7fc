"""A report as one HTML page that needs nothing else: no network, no other file.

Nothing from a recording becomes markup or script: texts are escaped where they are put
in (`report_markup`), and the page's policy (CSP) allows its own style and script by
their digests and nothing besides.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import orjson

from loopguard_lg.analysis import report_charts as charts
from loopguard_lg.analysis.causes import CAUSES
from loopguard_lg.analysis.facts import RunFacts
from loopguard_lg.analysis.intervals import Estimate
from loopguard_lg.analysis.metrics import NAMES, Dimension, Group
from loopguard_lg.analysis.report import By, Report
from loopguard_lg.analysis.report_markup import Markup, joined, tag
from loopguard_lg.analysis.timeline import Timeline, clipped, told
from loopguard_lg.analysis.timeline_picture import HUES, SIGNS, picture
from loopguard_lg.analysis.timeline_svg import css, svg
from loopguard_lg.redaction import data

_MEANS = {
    "loop_rate": "runs that trip a detector / runs",
    "hard_cap_rate": "runs that end on a budget / runs",
    "success_rate": "runs that did their task / runs of which that is known",
    "steps_p50": "half of the successful runs took no more tool calls",
    "steps_p95": "95 of 100 successful runs took no more tool calls",
    "cost_per_resolved": "what all runs cost / successful runs, where costs are known",
    "wasted_steps": "calls that repeat an earlier tool and arguments, or made no "
    "measurable progress / calls",
    "correct_exits": "escalations and exits with a right diagnosis / those that were "
    "judged, by label",
}


def page(report: Report) -> str:
    """The report as HTML."""
    style, script = _asset("report.css") + css("svg "), _asset("report.js")
    body = tag(
        "body",
        tag("a", "To the figures", class_="skip", href="#figures"),
        _header(report),
        tag("main", *_sections(report), id="figures"),
        tag("footer", "Made by loopguard. ", _shown_under(report)),
        tag("script", _data(report), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_csp(style, script)),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", "Loops: report"),
        tag("style", Markup(style)),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


@cache
def _asset(name: str) -> str:
    return (files("loopguard_lg.analysis") / name).read_text("utf-8")


def _csp(style: str, script: str) -> str:
    """Which style and script may be used; the data is no script and never runs."""
    own = {"style-src": style, "script-src": script}
    allowed = [
        f"{what} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
        for what, text in own.items()
    ]
    rest = ["default-src 'none'", "base-uri 'none'", "form-action 'none'"]
    return "; ".join([*rest, *allowed])


def _data(report: Report) -> Markup:
    """The figures for a program; `<`, `>` and `&` are written as JSON escapes, so that
    no text can end the element.
    """
    text = orjson.dumps(data(report.as_dict()), option=orjson.OPT_NON_STR_KEYS).decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _header(report: Report) -> Markup:
    total = report.all
    runs, steps = (total.runs, total.steps) if total else (0, 0)
    tripped = total.metrics["loop_rate"] if total else Estimate()
    loops = round((tripped.value or 0) * runs)
    about = f"{loops:,} of {runs:,} runs go in circles; {steps:,} tool calls in all."
    return tag("header", tag("h1", "How the agents do"), tag("p", about, class_="lead"))


def _shown_under(report: Report) -> str:
    policy = f"Policy: {report.under}. " if report.under else ""
    return policy + (f"Made {report.made}." if report.made else "")


def _sections(report: Report) -> Iterator[Markup]:
    if report.unreadable:
        yield _unreadable(report.unreadable)
    if report.all is None:
        yield tag("p", "There is no run to report.")
        return
    yield tag("ul", *map(_tile, report.all.metrics.items()), class_="tiles")
    yield tag(
        "p",
        "Ranges hold the true figure in 95 of 100 cases; where an end is missing, too "
        "little is known for it.",
        class_="dim",
    )
    yield from _loops(report.loops)
    yield from _causes(report.causes)
    yield from _worst(report.worst)
    yield from _tables(report.groups)
    yield _meanings()


def _unreadable(problems: Sequence[str]) -> Markup:
    lines = [tag("li", problem) for problem in problems[:20]]
    what = f"{len(problems)} recordings can't be read and are in no figure:"
    return tag("div", tag("p", what), tag("ul", *lines), class_="warn", role="note")


def figure(key: str, value: float | None) -> str:
    """A metric's value as a person reads it: dollars, steps, or a share in percent."""
    if value is None:
        return "–"
    if key == "cost_per_resolved":
        return f"${value:,.4f}" if value < 1 else f"${value:,.2f}"
    return f"{value:g}" if key.startswith("steps") else f"{value:.1%}"


def ranged(key: str, found: Estimate) -> str:
    """A metric's interval as a person reads it."""
    if found.value is None:
        return "not known"
    return f"{figure(key, found.low)} to {figure(key, found.high)}"


def _tile(item: tuple[str, Estimate]) -> Markup:
    key, found = item
    of = f"{ranged(key, found)} · n {found.n:,}"
    if key == "loop_rate" and found.value is not None:
        of = f"{found.value * 1000:,.0f} per 1,000 · {of}"
    return tag(
        "li",
        tag("h3", NAMES[key]),
        tag("div", figure(key, found.value), class_="value"),
        charts.whisker(found) if _is_share(key) and found.n else None,
        tag("p", of, class_="range"),
        class_="card",
        title=_MEANS[key],
    )


def _is_share(key: str) -> bool:
    return not key.startswith(("steps", "cost"))


def _loops(loops: Mapping[By, Sequence[Mapping[str, Any]]]) -> Iterator[Markup]:
    yield tag("h2", "Loops")
    names = {"kind": "By kind", "tool": "By tool", "model": "By model"}
    cards = [
        tag("div", tag("h3", names[by]), charts.bars(rows), class_="card")
        for by, rows in loops.items()
    ]
    yield tag("div", *cards, class_="charts")
    yield charts.days(loops["kind"])
    for by in ("tool", "model"):
        if any(row["day"] is not None for row in loops[by]):
            head = tag("summary", f"By day and {by}")
            yield tag("details", head, charts.days(loops[by]))


def _causes(rows: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """Why runs loop, where people have said so."""
    if not rows:
        return
    n = sum(row["runs"] for row in rows)
    known = {row["name"] for row in rows} & {*CAUSES}
    terms = [(tag("dt", name), tag("dd", CAUSES[name])) for name in sorted(known)]
    yield tag("h2", "Root causes")
    yield tag("p", f"Of {n:,} loops that people have labelled.", class_="dim")
    yield tag("div", tag("div", charts.bars(rows), class_="card"), class_="charts")
    yield tag("dl", *terms)


def _tables(groups: Mapping[Dimension, Sequence[Group]]) -> Iterator[Markup]:
    yield tag("h2", "Figures by group")
    for by, found in groups.items():
        if by != "all" and found:
            head = tag("summary", f"By {by} ({len(found)})")
            table = tag("div", _table(found), class_="scroll", tabindex=0)
            yield tag("details", head, table, open=len(found) < 6)


def _table(groups: Sequence[Group]) -> Markup:
    names = ["", "Runs", *NAMES.values()]
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    rows = [
        tag(
            "tr",
            tag("th", clipped(group.name, 80), scope="row"),
            tag("td", f"{group.runs:,}"),
            *(_cell(key, group.metrics[key]) for key in NAMES),
        )
        for group in groups
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="data")


def _cell(key: str, found: Estimate) -> Markup:
    if found.value is None:
        return tag("td", "–")
    return tag("td", figure(key, found.value), tag("small", ranged(key, found)))


def _worst(worst: Sequence[tuple[RunFacts, Timeline]]) -> Iterator[Markup]:
    if not worst:
        return
    yield tag("h2", "The worst runs")
    yield tag(
        "p",
        "Each cell is a call. Calls that come again share a colour and a letter; the "
        "line rises where the task moved. Point at a cell, or go to one with Tab and "
        "the arrow keys, to read it.",
        class_="dim",
    )
    yield tag("p", SIGNS, class_="dim")
    for number, (run, line) in enumerate(worst):
        yield _run(run, line, f"run{number}")


def _run(run: RunFacts, line: Timeline, name: str) -> Markup:
    drawn = svg(picture(line, legend=False), name, alone=False)
    tags = [(run.kind or "budget", "bad")]
    if run.success is not None:
        tags.append(("success", "good") if run.success else ("failed", "bad"))
    tags += [(f"{run.wasted} of {run.steps} steps wasted", "")]
    tags += [(text, "") for text in (line.spent, run.model, run.source) if text]
    caption = tag(
        "figcaption",
        tag("h3", run.id),
        *(tag("span", clipped(text, 60), class_=f"tag {kind}") for text, kind in tags),
        tag("span", clipped(run.task, 240), class_="task") if run.task else None,
    )
    return tag(
        "figure",
        caption,
        tag("div", Markup(drawn), class_="scroll"),
        _calls(line),
        tag("div", line.summary, class_="readout", aria_live="polite"),
        _steps(line),
        class_="run",
    )


def _calls(line: Timeline) -> Markup | None:
    """Which call each letter stands for."""
    if not line.repeated:
        return None
    items = list(line.repeated.items())[:HUES]
    return tag(
        "ul",
        *(
            tag(
                "li",
                charts.patch(f"hue{n}"),
                tag("span", f"{letter} ×{times}"),
                tag("code", clipped(cell.label, 160)),
            )
            for n, (letter, (cell, times)) in enumerate(items)
        ),
        class_="calls",
    )


def _steps(line: Timeline) -> Markup:
    """The same as a table, for whoever can't see the picture."""
    rows = []
    for column in line.columns:
        for cell in column.cells or (None,):
            what = told(column, cell).partition(": ")[2]
            spent = f"{column.tokens:,}" if column.tokens else ""
            cost = "" if column.cost is None else f"${column.cost:.4f}"
            cells = [tag("th", column.i, scope="row"), tag("td", what, class_="text")]
            rows.append(tag("tr", *cells, tag("td", spent), tag("td", cost)))
    names = ["Step", "What happened", "Tokens", "Cost"]
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="data")
    scroll = tag("div", table, class_="scroll", tabindex=0)
    return tag("details", tag("summary", "Every step as a table"), scroll)


def _meanings() -> Markup:
    rows = [(tag("dt", NAMES[key]), tag("dd", text)) for key, text in _MEANS.items()]
    about = "In a group of agents, models or tools only its own part of a run counts."
    return joined(tag("h2", "What the figures mean"), tag("dl", *rows), tag("p", about))
