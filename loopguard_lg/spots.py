"""Where failures were reported, to see whether a failing check has moved on.

A linter that names one line after the other fails in the same words each time, and the
work goes on. A failure that stays is reported at the same line, or where the edits in
between have shifted it to. Kept in `Known` as a flat list: file, line, and by how many
lines the file has grown or shrunk since.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.steps import clip
from loopguard_lg.testfiles import NEW, OLD, argument
from loopguard_lg.window import key_of

_SPOTS = 6
"""Places that are remembered."""
_ANYWHERE = 1_000_000
"""Lines by which an edit of unknown size may have shifted a failure."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,6})')
_PLACE = re.compile(r"(?<![\w./+-])([\w./+-]+\.[A-Za-z]\w{0,5})[:(](\d{1,6})\b")


def place_in(result: str) -> tuple[int, int] | None:
    """Digest of the file, and the line, at which a result reports a failure first; of a
    traceback the innermost one.
    """
    head = clip(result)
    frames = _FRAME.findall(head)
    found = frames[-1:] or _PLACE.findall(head)[:1]
    for name, line in found:
        return _file(name), int(line)
    return None


def reported(spots: Sequence[int], file: int, line: int) -> tuple[list[int], bool]:
    """The places with one more, and whether it is new beside others of the file."""
    known = [(at, grown) for f, at, grown in _each(spots) if f == file]
    moved = bool(known) and not any(_covers(at, grown, line) for at, grown in known)
    return [*spots, file, line, 0][-3 * _SPOTS :], moved


def edited(spots: Sequence[int], path: str, args: Any) -> list[int]:
    """The places after an edit of a file."""
    file, by = _file(path), _growth(args)
    return [
        value
        for f, at, grown in _each(spots)
        for value in (f, at, grown + by if f == file else grown)
    ]


def _each(spots: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(spots[::3], spots[1::3], spots[2::3], strict=True)


def _covers(at: int, grown: int, line: int) -> bool:
    """May a failure at one line be reported at another one after such edits?"""
    if abs(grown) >= _ANYWHERE // 2:
        return True
    return at + min(0, grown) <= line <= at + max(0, grown)


def _growth(args: Any) -> int:
    """By how many lines an edit lets a file grow."""
    old, new = argument(args, OLD), argument(args, NEW)
    if old is None or new is None:
        return _ANYWHERE
    return new.count("\n") - old.count("\n")


def _file(path: str) -> int:
    """Digest of a file's name, which checks and tools may spell with other folders."""
    return key_of(path.replace("\\", "/").rsplit("/", 1)[-1])
