"""Labelling runs at the keyboard: what every key does, without a screen.

A `Session` is all there is to know; `press` gives the session after a key. Every label
is in `Session.labels` as soon as the key is pressed that makes it, so that whoever
shows the session only has to write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from loopguard_lg.analysis.causes import CAUSES
from loopguard_lg.analysis.labels import KINDS, Label, Labels
from loopguard_lg.redaction import masked
from loopguard_lg.steps import Event, Turn, clip
from loopguard_lg.traces.model import Trajectory

Mode: TypeAlias = Literal["read", "kind", "cause", "reason"]
"""What keys are for: reading, choosing from a list, or writing a text."""

PAGE = 10
"""Steps that a page key goes."""


class Line(NamedTuple):
    """One step of a run: its position, in one line, and in full."""

    i: int
    short: str
    full: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A run as it is read: its name, the task, and the steps."""

    id: str
    task: str = ""
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where a person is in labelling runs.

    Attributes:
        sheets: The runs, at least one.
        labels: What is said so far, of other runs of the file too.
        at: Which run is shown.
        cursor: Which of its lines is chosen.
        mode: What keys are for.
        hint: What to say about the last key; empty: nothing.
    """

    sheets: tuple[Sheet, ...]
    labels: Labels = field(default_factory=dict)
    at: int = 0
    cursor: int = 0
    mode: Mode = "read"
    hint: str = ""

    @property
    def sheet(self) -> Sheet:
        """The run that is shown."""
        return self.sheets[self.at]

    @property
    def label(self) -> Label | None:
        """What is said of it."""
        return self.labels.get(self.sheet.id)

    @property
    def done(self) -> int:
        """Runs of which everything is said."""
        return sum(not self.missing(sheet) for sheet in self.sheets)

    def missing(self, sheet: Sheet) -> tuple[str, ...]:
        """What is not said of a run yet."""
        label = self.labels.get(sheet.id)
        if label is None:
            return ("loop",)
        if label.loop is not True:
            return ()
        said = {"kind": label.kind, "onset": label.onset, "cause": label.cause}
        return tuple(name for name, value in said.items() if value is None)


def sheet(run: Trajectory) -> Sheet:
    """A run as it is read."""
    lines = []
    for event in run.events:
        parts = [masked(part) for part in _told(event)]
        short = " | ".join(map(_flat, parts))
        lines.append(Line(event.i or 0, short, "\n".join(parts)))
    return Sheet(id=run.id, task=masked(run.task or ""), lines=tuple(lines))


def _told(event: Event) -> Iterator[str]:
    if not isinstance(event, Turn):
        text = getattr(event, "text", "") or getattr(event, "note", "")
        yield f"[{type(event).__name__.lower()}] {text}"
        return
    if event.text or not event.steps:
        yield f"{event.agent or 'agent'}: {event.text}"
    for step in event.steps:
        args = orjson.dumps(dict(step.args), default=str).decode()
        yield f"{step.tool}({args}) -> {clip(step.result)}"


def _flat(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"


def begin(sheets: Sequence[Sheet], labels: Labels) -> Session:
    """A session at the first run of which not everything is said."""
    return _seek(Session(sheets=tuple(sheets), labels=dict(labels), at=-1))


def press(session: Session, key: str, character: str | None = None) -> Session:
    """The session after a key.

    Args:
        session: The session before.
        key: The key's name: `y`, `down`, `enter`.
        character: What it writes, for a text.
    """
    quiet = replace(session, hint="")
    if session.mode == "reason":
        return _write(quiet, key, character)
    if session.mode != "read":
        return _choose(quiet, key)
    act = _KEYS.get(key)
    return act(quiet) if act else quiet


def choices(mode: Mode) -> Mapping[str, str]:
    """What each key chooses in a list."""
    names = {"kind": KINDS, "cause": tuple(CAUSES)}.get(mode, ())
    return dict(zip(ascii_lowercase, names, strict=False))


def _choose(session: Session, key: str) -> Session:
    closed = replace(session, mode="read")
    chosen = choices(session.mode).get(key)
    if chosen is None:
        return closed if key == "escape" else session
    return _say(_loop(closed), **{session.mode: chosen})


def _write(session: Session, key: str, character: str | None) -> Session:
    if key in ("enter", "escape"):
        return replace(session, mode="read")
    label = session.label
    text = label.reason if label else ""
    if key == "backspace":
        return _say(session, reason=text[:-1])
    if character and character.isprintable():
        return _say(session, reason=text + character)
    return session


def _say(session: Session, **parts: Any) -> Session:
    """The session with something said of the run that is shown."""
    label = replace(session.label or Label(loop=True), **parts)
    return replace(session, labels={**session.labels, session.sheet.id: label})


def _loop(session: Session) -> Session:
    label = session.label
    return _say(session, loop=True, kind=None if label is None else _kind(label))


def _kind(label: Label) -> str | None:
    return None if label.kind == "none" else label.kind


def _honest(session: Session) -> Session:
    return _say(session, loop=False, kind="none", onset=None, cause=None)


def _unclear(session: Session) -> Session:
    return _say(session, loop="unclear", kind="none", onset=None, cause=None)


def _onset(session: Session) -> Session:
    lines = session.sheet.lines
    if not lines:
        return replace(session, hint="the run has no step")
    return _loop(_say(session, onset=lines[session.cursor].i))


def _reason(session: Session) -> Session:
    if session.label is None:
        return replace(session, hint="first say whether it loops: y, n or u")
    return replace(session, mode="reason")


def _forget(session: Session) -> Session:
    kept = {k: v for k, v in session.labels.items() if k != session.sheet.id}
    return replace(session, labels=kept)


def _move(by: int) -> Callable[[Session], Session]:
    def move(session: Session) -> Session:
        last = max(0, len(session.sheet.lines) - 1)
        return replace(session, cursor=min(last, max(0, session.cursor + by)))

    return move


def _turn(by: int) -> Callable[[Session], Session]:
    def turn(session: Session) -> Session:
        at = min(len(session.sheets) - 1, max(0, session.at + by))
        return replace(session, at=at, cursor=0) if at != session.at else session

    return turn


def _seek(session: Session) -> Session:
    """To the next run of which not everything is said, round the end."""
    n = len(session.sheets)
    for step in range(1, n + 1):
        at = (session.at + step) % n
        if session.missing(session.sheets[at]):
            return replace(session, at=at, cursor=0)
    return replace(session, at=max(0, session.at), hint="every run is labelled")


def _open(mode: Mode) -> Callable[[Session], Session]:
    return lambda session: replace(session, mode=mode)


_FAR = 10**9
_KEYS: Mapping[str, Callable[[Session], Session]] = {
    "y": _loop,
    "n": _honest,
    "u": _unclear,
    "o": _onset,
    "k": _open("kind"),
    "c": _open("cause"),
    "r": _reason,
    "x": _forget,
    "up": _move(-1),
    "down": _move(1),
    "pageup": _move(-PAGE),
    "pagedown": _move(PAGE),
    "home": _move(-_FAR),
    "end": _move(_FAR),
    "left": _turn(-1),
    "right": _turn(1),
    "enter": _seek,
}

HELP = (
    "y loops   n does not   u unclear   o onset here   k kind   c root cause   "
    "r reason   x forget   ↑↓ step   ←→ run   enter next open run   q leave"
)
"""The keys, in a line."""
