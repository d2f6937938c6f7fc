"""Edits that come too fast: `EditRate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import fence, report, require
from loopguard_lg.editlog import EDITS, Entry, entries, same_file
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import REPORT, History, Mark
from loopguard_lg.progress import MUCH
from loopguard_lg.window import key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRate:
    """Many edits of one file by one agent in a short time, all in the same place.

    Edits are seen by their calls, or by modification times that a watcher reports
    (`steps.Touch`). Without times it is silent. A pass, another failure than those
    known, news, and an edit in a new place of the file start the count afresh.

    Attributes:
        edits: More of them than this make a finding, at most 12.
        seconds: Within so many seconds.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "edit_rate"
    hears: ClassVar[int] = Mark.EDITED
    edits: int = 3
    seconds: int = 300
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, edits=1, seconds=1)
        if self.edits > EDITS - 4:
            raise PolicyError(
                f"EditRate(edits={self.edits!r}): edits must be at most {EDITS - 4}, "
                "as no more are remembered"
            )

    def observe(self, history: History) -> Finding | None:
        """The series of edits to which the newest turn adds one."""
        for key, path in history.edited.items():
            if any(self.kind in seen.off for seen in history.now):
                continue
            found = self._judge(history, key, path)
            if found:
                return found
        return None

    def _judge(self, history: History, key: int, path: str) -> Finding | None:
        """Are the edits of this file a series?"""
        made = [e for e in entries(history.known.edits) if e.key == key]
        began = max(fence(history), history.last(REPORT), _moved(history, made))
        now = made[-1].at
        series: list[int] = []
        for edit in made:
            if edit.grew:
                series.clear()
            if edit.i > began and now - self.seconds * 1000 <= edit.at <= now:
                series.append(edit.i)
        detail = (
            f"`{path[-80:]}` was edited {{n}} times within {self.seconds} s, over and "
            "over in the same place"
        )
        turns = sorted(set(series))
        named = {s.place for s in history.now if s.path and same_file(s.path, path)}
        files = tuple(sorted(named | {key_of(path)}))
        # One edit after a reflection may be the one that mends it.
        return report(
            self, turns, self.edits + 1, detail, key=key, files=files, again=2
        )


def _moved(history: History, made: list[Entry]) -> int:
    """The newest turn with a pass, a failure never seen, or news other than the edits
    themselves; -1 without one.
    """
    rows = history.rows
    own = {edit.i for edit in made}
    for k in range(len(rows.i) - 1, -1, -1):
        marks = rows.marks[k]
        edits = marks & Mark.WRITE and rows.i[k] in own
        known = rows.kin[k] in rows.kin[:k] and not marks & Mark.MOVED
        fresh = marks & Mark.RED and not known
        news = rows.gain[k] == MUCH and not edits
        if news or fresh or marks & Mark.PASSED:
            return rows.i[k]
    return -1
