from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.report import Report, Worst, gather, look
from loopguard_lg.analysis.report_markup import Markup, safe, tag
from loopguard_lg.analysis.report_page import figure, page
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, circles, run, works

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def report(*runs: dict[str, Any], **about: Any) -> Report:
    """The report of these runs."""
    return gather(FREE, [look(FREE, from_dict(data)) for data in runs], **about)


def hostile() -> dict[str, Any]:
    """A run with markup in every field that there is, which goes in circles."""
    data = run(EVIL, *[(EVIL, EVIL, EVIL)] * 6, model=EVIL, source=EVIL, task=EVIL)
    for step in data["steps"]:
        step |= {"agent": EVIL, "text": EVIL}
    return {**data, "versions": {"prompt": EVIL, "owner": EVIL}, "t0": EVIL}


def test_the_page_has_the_figures_and_their_intervals() -> None:
    """A tile for each metric, a row for each group."""
    text = page(report(works("a"), circles("b", model="small")))

    assert "1 of 2 runs go in circles; 9 tool calls in all." in text
    assert '<div class="value">50.0%</div>' in text
    assert "9.5% to 90.5%" in text
    assert '<th scope="row">small</th>' in text


def test_the_page_needs_nothing_from_outside() -> None:
    """No address, no source, no import: the file is all there is."""
    text = page(report(circles("a")))

    assert not re.search(r"""(src|href)=["'](?!#)|url\(|@import|https?:""", text)
    assert "default-src &#x27;none&#x27;" in text


def test_nothing_of_a_recording_becomes_markup() -> None:
    """Script in every field stays text, in the page and in its data."""
    text = page(report(hostile(), unreadable=[EVIL], under=EVIL, made=EVIL))

    assert len(re.findall("<script", text)) == 2  # its own
    assert "<img" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert data
    assert json.loads(data[1])["worst"][0]["id"] == EVIL


def test_the_worst_runs_are_of_every_kind() -> None:
    """The worst of each kind comes before the second worst of any."""
    errors = [("a", n, "Error: no such table x") for n in range(12)]
    runs = [circles(f"c{n}", 6 + n) for n in range(5)] + [run("e", *errors)]
    worst = Worst(3)

    seen = list(worst.watch([look(FREE, from_dict(data)) for data in runs]))

    assert len(seen) == 6
    assert [found.id for found, _ in worst.runs()] == ["e", "c4", "c3"]


def test_no_run_makes_a_page_too() -> None:
    """There is nothing to show, and the page says so."""
    assert "There is no run to report." in page(report())
    assert report().as_dict()["runs"] == 0


def test_loops_are_shown_by_day_where_runs_say_when() -> None:
    """A column for each day, told in words; else a sentence says why there is none."""
    when = [f"2026-03-0{day}T10:00:00+00:00" for day in (1, 1, 2)]

    text = page(report(*[circles(f"c{n}", t0=t0) for n, t0 in enumerate(when)]))

    assert "<title>2026-03-01: repeat 2</title>" in text
    assert "<title>2026-03-01: search 2</title>" in text
    assert "there is no picture over time" in page(report(circles("a")))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("loop_rate", 0.1234, "12.3%"),
        ("steps_p95", 12.0, "12"),
        ("cost_per_resolved", 0.01234, "$0.0123"),
        ("cost_per_resolved", 1234.5, "$1,234.50"),
        ("loop_rate", None, "–"),
    ],
)
def test_a_figure_is_written_as_a_person_reads_it(
    key: str, value: float | None, text: str
) -> None:
    """Shares in percent, steps whole, dollars with as many digits as they need."""
    assert figure(key, value) == text


@given(st.text())
def test_text_is_never_markup(text: str) -> None:
    """Whatever is put in, no element and no attribute ends early."""
    assert not set("<>\"'") & set(safe(text))
    assert tag("p", text, title=text).count("<") == 2


def test_markup_is_not_escaped_twice() -> None:
    """An element in an element stays one; nothing is nothing."""
    inner = tag("b", "a&b")

    assert tag("p", inner, None, [inner], hidden=True, id=None) == Markup(
        "<p hidden><b>a&amp;b</b><b>a&amp;b</b></p>"
    )


def test_root_causes_are_shown_where_people_name_them() -> None:
    """Labels of other runs do not count, and without any there is no such part."""
    runs = [look(FREE, from_dict(circles(name))) for name in "ab"]
    said = Label(loop=True, kind="repeat", cause="no_exit")

    found = gather(FREE, runs, labels={"a": said, "elsewhere": said})

    assert found.causes == [{"name": "no_exit", "kind": "repeat", "runs": 1}]
    text = page(found)
    assert "Of 1 loops that people have labelled." in text
    assert "<dt>no_exit</dt><dd>there is no way to give up or to ask</dd>" in text
    assert "Root causes" not in page(gather(FREE, runs))
