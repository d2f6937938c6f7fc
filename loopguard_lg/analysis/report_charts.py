"""The small charts of a report: intervals, bars, loops by day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from loopguard_lg.analysis.intervals import Estimate
from loopguard_lg.analysis.report_markup import Markup, joined, tag
from loopguard_lg.analysis.timeline_picture import HUES

_MOST = 10
"""Bars of a chart."""

_DAY, _HEIGHT = 14, 120
_DAYS = 90
"""Days that are shown: the last ones."""


def whisker(found: Estimate) -> Markup:
    """A share between nothing and all, with its interval."""
    low, high = found.low or 0, 1 if found.high is None else found.high
    middle = 100 * (found.value or 0)
    return _bar(
        _rect("track", 0, 100),
        _rect("range", 100 * low, 100 * (high - low)),
        _rect("dot", min(max(middle - 0.6, 0), 98.8), 1.2),
    )


def bars(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """How many runs, by name; the largest first."""
    counts = _totals(rows)
    if not counts:
        return tag("p", "none", class_="dim")
    most = max(counts.values())
    lines = [
        tag(
            "tr",
            tag("th", name, scope="row", title=name),
            tag("td", _bar(_rect("fill", 0, 100 * n / most))),
            tag("td", f"{n:,}"),
        )
        for name, n in counts.most_common(_MOST)
    ]
    rest = len(counts) - _MOST
    more = tag("p", f"and {rest} more", class_="dim") if rest > 0 else None
    return joined(tag("table", tag("tbody", *lines), class_="bars"), more)


def _totals(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Runs by name, over all days."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["name"]] += row["runs"]
    return counts


def days(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Runs that trip by day and name; a sentence where the runs do not say when."""
    named = {name for name, _ in _totals(rows).most_common(HUES - 1)}
    by_day: dict[str, Counter[str]] = defaultdict(Counter)
    for row in (row for row in rows if row["day"] is not None):
        name = row["name"] if row["name"] in named else "(others)"
        by_day[row["day"]][name] += row["runs"]
    if not by_day:
        why = "No looping run says when it began (t0): there is no picture over time."
        return tag("p", why, class_="dim")
    kinds = [kind for kind, _ in sum(by_day.values(), Counter()).most_common()]
    shown = sorted(by_day)[-_DAYS:]
    key = [tag("li", patch(_hue(kinds, kind)), " ", kind) for kind in kinds]
    return tag(
        "div",
        tag("h3", f"By day, {shown[0]} to {shown[-1]}"),
        tag("ul", *key, class_="key"),
        tag("div", _stacks(by_day, shown, kinds), class_="scroll"),
        class_="card",
    )


def _stacks(
    by_day: Mapping[str, Counter[str]], shown: Sequence[str], kinds: Sequence[str]
) -> Markup:
    most = max(by_day[day].total() for day in shown)
    columns = [
        _stack(by_day[day], at * _DAY, _HEIGHT / most, day, kinds)
        for at, day in enumerate(shown)
    ]
    width = len(shown) * _DAY
    return tag(
        "svg",
        tag("title", f"Runs that trip, by day; at most {most} on one"),
        *columns,
        class_="days",
        role="img",
        width=width,
        height=_HEIGHT,
        viewBox=f"0 0 {width} {_HEIGHT}",
    )


def _stack(
    counts: Counter[str], x: float, scale: float, day: str, kinds: Sequence[str]
) -> Markup:
    y = float(_HEIGHT)
    boxes = []
    for kind in kinds:
        height = counts[kind] * scale
        y -= height
        boxes.append(_rect(_hue(kinds, kind), x, _DAY - 3, y, height))
    told = ", ".join(f"{kind} {n}" for kind, n in counts.most_common())
    return tag("g", tag("title", f"{day}: {told}"), *boxes)


def _hue(kinds: Sequence[str], kind: str) -> str:
    return f"hue{kinds.index(kind) % HUES}"


def patch(kind: str) -> Markup:
    """A spot of a colour, for a legend."""
    spot = _rect(kind, 0, 14, 0, 14)
    return tag("svg", spot, width=14, height=14, aria_hidden="true")


def _bar(*boxes: Markup) -> Markup:
    look = {"class_": "bar", "viewBox": "0 0 100 8", "preserveAspectRatio": "none"}
    return tag("svg", *boxes, aria_hidden="true", **look)


def _rect(kind: str, x: float, width: float, y: float = 0, height: float = 8) -> Markup:
    size = {"x": f"{x:g}", "y": f"{y:.4g}", "width": f"{width:.4g}"}
    return Markup(tag("rect", class_=kind, height=f"{height:.4g}", **size))
