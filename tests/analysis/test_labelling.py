"""What the keys of labelling do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.labelling import (
    Line,
    Session,
    Sheet,
    begin,
    choices,
    press,
    sheet,
)
from loopguard_lg.analysis.labels import Label
from loopguard_lg.traces.model import from_dict

LINES = tuple(Line(i * 2, "short", "full") for i in range(30))
SHEETS = tuple(Sheet(id=name, lines=LINES) for name in "abc")
COMPLETE = Label(loop=True, kind="repeat", onset=2, cause="no_exit")


def typed(session: Session, *keys: str) -> Session:
    """The session after some keys; one letter writes itself."""
    for key in keys:
        session = press(session, key, key if len(key) == 1 else None)
    return session


def chooses(mode: Any, name: str) -> str:
    """The key that chooses a name."""
    return next(key for key, other in choices(mode).items() if other == name)


def test_a_loop_is_labelled_with_a_few_keys() -> None:
    """That it loops, how, why and from where; what is missing is named meanwhile."""
    session = typed(begin(SHEETS, {}), "y")
    assert session.missing(session.sheet) == ("kind", "onset", "cause")

    session = typed(session, "k", chooses("kind", "churn"), "down", "o")
    session = typed(session, "c", chooses("cause", "impossible_task"))

    said = Label(loop=True, kind="churn", onset=2, cause="impossible_task")
    assert session.labels == {"a": said}
    assert session.done == 1


@pytest.mark.parametrize(("key", "loop"), [("n", False), ("u", "unclear")])
def test_what_is_no_loop_has_no_kind(key: str, loop: Any) -> None:
    """Taking back that it loops takes back the rest."""
    session = typed(begin(SHEETS, {"a": COMPLETE}), "left", "left", key)

    assert session.labels["a"] == Label(loop=loop, kind="none")
    assert typed(session, "o").labels["a"] == Label(loop=True, onset=0)


def test_a_reason_is_typed() -> None:
    """Letters are text then, and no commands; backspace takes one back."""
    session = typed(begin(SHEETS, {}), "y", "r", "n", "q", "x", "backspace", "enter")

    assert session.label == Label(loop=True, reason="nq")
    assert (session.mode, session.at) == ("read", 0)


def test_a_reason_needs_something_to_be_the_reason_of() -> None:
    """Before it is said whether it loops, there is a hint."""
    session = typed(begin(SHEETS, {}), "r")

    assert "y, n or u" in session.hint
    assert session.mode == "read"


def test_a_choice_can_be_left() -> None:
    """Escape changes nothing, and neither does a letter without a meaning."""
    session = typed(begin(SHEETS, {}), "k", "z", "escape")

    assert (session.labels, session.mode) == ({}, "read")


def test_a_label_can_be_forgotten() -> None:
    """As if nothing had been said."""
    assert typed(begin(SHEETS, {}), "y", "x").labels == {}


def test_it_begins_where_it_ended() -> None:
    """Runs of which all is said are passed over; a label of another run is kept."""
    known = {"a": COMPLETE, "b": Label(loop=True), "other": COMPLETE}

    session = begin(SHEETS, known)

    assert (session.sheet.id, session.done) == ("b", 1)
    assert session.labels == known


def test_enter_goes_to_what_is_open() -> None:
    """Round the end, until every run is labelled."""
    session = typed(begin(SHEETS, {"b": COMPLETE}), "n", "enter")
    assert session.sheet.id == "c"

    session = typed(session, "n", "enter")
    assert session.hint == "every run is labelled"


KEYS = st.sampled_from([*"ynuoxkcrabz", "up", "down", "pageup", "pagedown", "home"])
MORE = st.sampled_from(["end", "left", "right", "enter", "escape", "backspace", "f9"])


@given(st.lists(KEYS | MORE, max_size=40))
def test_no_key_breaks_a_session(keys: list[str]) -> None:
    """Whatever is pressed, the places exist and labels are whole."""
    session = typed(begin((*SHEETS, Sheet(id="empty")), {}), *keys)

    assert 0 <= session.at < 4
    assert 0 <= session.cursor < max(1, len(session.sheet.lines))
    for label in session.labels.values():
        assert (label.kind == "none") == (label.loop is not True)


def test_a_run_is_read_step_by_step() -> None:
    """People, calls with what came back, and other events, each with its position."""
    calls = [{"tool": "ls", "args": {"p": "."}, "result": "a\n b"}]
    steps = [
        {"agent": "user", "text": "hi"},
        {"i": 4, "agent": "main", "text": "I look", "calls": calls},
        {"event": "compaction"},
    ]

    read = sheet(from_dict({"id": "x", "task": "t", "steps": steps}))

    assert (read.id, read.task) == ("x", "t")
    assert [line.i for line in read.lines] == [0, 4, 5]
    assert read.lines[1].short == 'main: I look | ls({"p":"."}) -> a b'
    assert read.lines[1].full == 'main: I look\nls({"p":"."}) -> a\n b'
