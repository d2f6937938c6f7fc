from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from loopguard_lg.analysis.timeline import (
    MOST,
    Timeline,
    clipped,
    timeline as laid_out,
    told,
)
from loopguard_lg.analysis.timeline_picture import Box, picture
from loopguard_lg.analysis.timeline_png import png
from loopguard_lg.analysis.timeline_svg import svg
from loopguard_lg.analysis.timeline_terminal import show
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, circles, run, works

HOSTILE = '"><script>alert(1)</script>\x1b[2J\u202e&\x00'


def timeline(data: dict[str, Any]) -> Timeline:
    """The timeline of a run."""
    return laid_out(FREE, from_dict(data))


def cells_of(data: dict[str, Any]) -> list[Box]:
    """What can be pointed at in its picture."""
    shapes = picture(timeline(data)).shapes
    return [shape for shape in shapes if isinstance(shape, Box) and shape.words]


def test_calls_that_come_again_have_a_letter() -> None:
    """The most frequent call is A; one that is made once has no name."""
    calls = [("a", 1, "x"), ("b", 1, "y"), ("b", 1, "y"), ("b", 1, "z"), ("a", 1, "w")]

    line = timeline(run("r", *calls, ("c", 1, "v")))

    assert [column.cells[0].letter for column in line.columns] == [*"BAAAB", ""]
    assert {k: times for k, (_, times) in line.repeated.items()} == {"A": 3, "B": 2}


def test_a_loop_has_its_columns_and_the_guard_its_signs() -> None:
    """Seen from the first call to the last; reflect, escalate and exit on the way."""
    line = timeline(circles("r", 9))

    loop = line.loops[0]
    assert (loop.kind, loop.first, loop.last) == ("repeat", 0, 8)
    actions = [column.action for column in line.columns if column.action]
    assert actions == ["reflect", "escalate", "exit"]


def test_a_recorded_guard_shows_what_it_did() -> None:
    """What was recorded counts, not what a replay would have done."""
    data = circles("r", 6)
    note = {"event": "intervention", "name": "escalated", "i": 4, "text": "again"}
    data["steps"].append(note)

    line = timeline(data)

    assert line.recorded
    assert {c.i: c.action for c in line.columns if c.action} == {4: "escalate"}


def test_progress_is_where_the_task_moved() -> None:
    """News moves it, the same again does not."""
    assert [c.moved for c in timeline(works("r", 3)).columns] == [True] * 3
    assert not any(c.moved for c in timeline(circles("r", 4)).columns[1:])


def test_the_middle_of_a_long_run_is_left_out() -> None:
    """Head and tail stay, with a gap that says what is missing; loops stay right."""
    line = timeline(circles("r", MOST + 50))

    assert len(line.columns) == MOST
    (gap,) = [column for column in line.columns if column.kind == "gap"]
    assert gap.text == "51 events"
    assert line.columns[-1].i == MOST + 49
    assert line.columns[line.loops[-1].last].i == MOST + 49


def test_events_that_are_no_calls_show() -> None:
    """A person, words alone, a compaction and a report each have a column."""
    data = works("r", 1)
    data["steps"] += [
        {"agent": "user", "text": "and now?"},
        {"agent": "main", "text": "thinking"},
        {"event": "compaction"},
        {"event": "progress", "text": "half"},
    ]

    kinds = [column.kind for column in timeline(data).columns]

    assert kinds == ["calls", "user", "text", "compaction", "progress"]


def test_every_call_is_told_in_words() -> None:
    """Hover and focus say step, agent, call, result and what the guard did."""
    line = timeline(circles("r", 3))
    words = told(line.columns[2], line.columns[2].cells[0])

    assert words.startswith('step 2, main: A = search({"q":"x"})\ngives: no results')
    assert "reflect: `search` was called 3 times" in words
    assert words in [cell.words for cell in cells_of(circles("r", 3))]


@pytest.mark.parametrize("length", [0, 1, 39, 40, 41, 130])
def test_a_picture_holds_all_that_is_in_it(length: int) -> None:
    """Nothing lies outside of the frame, however long the run."""
    drawn = picture(timeline(circles("r", length)))

    boxes = [shape for shape in drawn.shapes if isinstance(shape, Box)]
    assert len([box for box in boxes if box.words.startswith("step")]) >= length
    for box in boxes:
        assert 0 <= box.x <= box.x + box.width <= drawn.width
        assert 0 <= box.y <= box.y + box.height <= drawn.height


def test_a_large_batch_says_how_many_more_there_are() -> None:
    """Five rows are drawn, the last one stands for the rest."""
    data = run("r", ("a", 1, "x"))
    data["steps"][0]["calls"] = [
        {"tool": "a", "args": {"q": n}, "result": f"{n}"} for n in range(9)
    ]

    cells = cells_of(data)

    assert len(cells) == 5
    assert cells[-1].words.count("gives: ") == 5
    out = io.StringIO()
    show(timeline(data), Console(file=out, width=60))
    assert "+5" in out.getvalue()


def test_what_is_cut_has_a_mark() -> None:
    """Words behind a long gap are not left out without a word."""
    assert clipped("a" + " " * 1_000 + "b", 60) == "a…"
    assert clipped("a" + " " * 1_000, 60) == "a"
    assert clipped("ab " * 30, 9) == "ab ab ab…"


def test_tokens_and_cost_are_drawn_where_they_are_known() -> None:
    """A bar for each turn, with its figures on hover."""
    data = works("r", 2, each={"tokens": 1200, "cost": 0.25})

    assert "step 0: 1,200 tokens, $0.2500" in [cell.words for cell in cells_of(data)]


def test_svg_is_xml_with_title_description_and_keyboard() -> None:
    """A reader hears what it is; one cell takes the focus, the others by arrow keys."""
    text = svg(picture(timeline(circles("r", 5))))

    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "Timeline of the run r"
    assert "repeat" in (root.findtext(f"{space}desc") or "")
    stops = [g.get("tabindex") for g in root.iter(f"{space}g")]
    assert stops.count("0") == 1
    assert all(g.find(f"{space}title") is not None for g in root.iter(f"{space}g"))


def test_svg_holds_no_markup_of_a_recording() -> None:
    """Script, control characters and reversed writing in every field are plain text."""
    data = run(HOSTILE, (HOSTILE, HOSTILE, HOSTILE), task=HOSTILE, model=HOSTILE)
    data["steps"][0]["agent"] = HOSTILE

    text = svg(picture(timeline(data)))

    parts = ElementTree.fromstring(text).iter()
    tags = {element.tag.rpartition("}")[2] for element in parts}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
    assert not {"\x1b", "\u202e", "\x00"} & set(text)


@pytest.mark.parametrize("dark", [False, True])
def test_png_is_a_picture_of_that_size(dark: bool) -> None:
    """Twice as many pixels as points; a dollar sign is no formula."""
    drawn = picture(
        timeline(run("r", ("a", "$x$ and ^", "y"), ("a", "$x$ and ^", "y")))
    )
    file = io.BytesIO()

    png(drawn, file, dark=dark)

    data = file.getvalue()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (int(drawn.width * 2), int(drawn.height * 2))


def test_a_terminal_shows_the_same() -> None:
    """Cells by letter, the loop, the guard's signs; nothing wider than the terminal."""
    data = circles(HOSTILE, 30)
    data["steps"].append({"agent": "user", "text": "stop"})
    out = io.StringIO()

    show(timeline(data), Console(file=out, width=60))

    text = out.getvalue()
    assert "┌repeat ×" in text
    assert "▲" in text
    assert "◆ escalate" in text
    assert 'A  ×30  search({"q":"x"})' in text
    assert max(map(len, text.splitlines())) <= 60
    assert "\x1b" not in text
