"""The screen of `loopguard label`: shows a session, passes keys on, writes labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.events import Key
from textual.widgets import OptionList, Static

from loopguard_lg.analysis.causes import CAUSES
from loopguard_lg.analysis.labelling import HELP, Mode, Session, choices, press
from loopguard_lg.analysis.labels import write_labels
from loopguard_lg.cli.common import printable


class LabelApp(App[None]):
    """Labels runs; every change is on disk before the next key is read.

    Texts of recordings are shown as they are (`Text`), never as markup.

    Args:
        session: Where to begin.
        path: Where the labels go.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; background: $panel; }
    #steps {
        width: 2fr; height: 1fr; border: none;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    #side { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $panel; }
    #full { height: 40%; padding: 0 1; border-top: solid $panel; }
    #help { height: auto; padding: 0 1; background: $panel; }
    .choosing #full, .choosing #steps { display: none; }
    """

    def __init__(self, session: Session, path: Path) -> None:
        super().__init__()
        self.session = session
        self._path = path

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="head")
        with Horizontal():
            steps = OptionList(id="steps")
            steps.can_focus = False
            yield steps
            yield Static(id="side")
        with VerticalScroll(id="full", can_focus=False):
            yield Static(id="text")
        yield Static(Text(HELP), id="help")

    def on_mount(self) -> None:
        """Show the first run."""
        self._fill()
        self._show()

    def on_key(self, event: Key) -> None:
        """Pass a key on, write what it changed, show what came of it."""
        event.prevent_default().stop()
        before = self.session
        if event.key == "q" and before.mode == "read":
            self.exit()
            return
        after = press(before, event.key, event.character)
        if after.labels != before.labels:
            try:
                write_labels(self._path, after.labels)
            except OSError as error:
                after = replace(before, hint=f"not written: {error}")
        self.session = after
        if after.at != before.at:
            self._fill()
        self._show()

    def _fill(self) -> None:
        steps = self.query_one("#steps", OptionList)
        steps.clear_options()
        shown = (f"{i:>4}  {printable(s)}" for i, s, _ in self.session.sheet.lines)
        steps.add_options(map(Text, shown))

    def _show(self) -> None:
        session = self.session
        lines = session.sheet.lines
        self.query_one("#steps", OptionList).highlighted = session.cursor
        self.screen.set_class(session.mode in ("kind", "cause"), "choosing")
        full = lines[session.cursor].full if lines else "(the run has no step)"
        shown = "\n".join(map(printable, full.splitlines()))
        self.query_one("#text", Static).update(Text(shown))
        self.query_one("#head", Static).update(Text(_head(session)))
        self.query_one("#side", Static).update(Text("\n".join(_side(session))))


def _head(session: Session) -> str:
    count = f"run {session.at + 1} of {len(session.sheets)}, {session.done} done"
    task = " ".join(session.sheet.task.split())[:200]
    return printable(f"{count}   {session.sheet.id}   {task}")


def _chosen(mode: Mode) -> Iterator[str]:
    for key, name in choices(mode).items():
        about = f": {CAUSES[name]}" if mode == "cause" else ""
        yield f"{key}  {name}{about}"
    yield "escape leaves it as it is"


def _side(session: Session) -> Iterator[str]:
    """The label as it is, or what can be chosen for it."""
    if session.mode in ("kind", "cause"):
        yield from _chosen(session.mode)
        return
    label = session.label
    for name in ("loop", "kind", "onset", "cause", "reason"):
        value = None if label is None else getattr(label, name)
        told = "-" if value is None else printable(str(value))
        yield f"{name:>7}: {told}{'▏' * (session.mode == name)}"
    missing = session.missing(session.sheet)
    yield ""
    yield session.hint or (f"missing: {', '.join(missing)}" if missing else "complete")
    if session.mode == "reason":
        yield "type; enter ends"
