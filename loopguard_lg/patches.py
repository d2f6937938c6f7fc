"""Patches as texts: which files they touch, and what they take out and put in.

Both spellings are read: the one that begins with `*** Begin Patch`, and unified diffs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from loopguard_lg.digests import tidy_path

_KEYS = (
    "patch",
    "diff",
    "input",
    "patch_text",
    "patchText",
    "command",
    "cmd",
    "script",
)
_ANY = frozenset(_KEYS)
_MOST = 40_000
"""Characters of a patch that are read."""

_STARS = re.compile(r"\*\*\* (Update|Add|Delete) File: *(.+)")
_FILE = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+)")
_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
_NONE = "/dev/null"


class Part(NamedTuple):
    """What a patch does to one file.

    Attributes:
        path: The file, tidied.
        old: The lines that it takes out, with those around them.
        new: The lines that it puts in their place.
        deletes: It takes the whole file away.
    """

    path: str
    old: str
    new: str
    deletes: bool = False


def patch_in(args: Mapping[str, Any]) -> tuple[Part, ...]:
    """What the patch among a call's arguments does; empty if there is none."""
    if _ANY.isdisjoint(args):  # most calls have none, which shows at once
        return ()
    for key in _KEYS:
        text = args.get(key)
        if isinstance(text, str) and is_patch(text):
            return parts_of(text)
    return ()


def is_patch(text: str) -> bool:
    """Does a text look like a patch?"""
    return "*** Begin Patch" in text or "\n+++ " in text


@lru_cache(maxsize=4)
def parts_of(text: str) -> tuple[Part, ...]:
    """What a patch does, file by file."""
    lines = text[:_MOST].splitlines()
    starts = [*_heads(lines)]
    ends = [at - (not head.stars) for at, head in starts[1:]]
    return tuple(
        _part(head, lines[at + 1 : end])
        for (at, head), end in zip(starts, [*ends, len(lines)], strict=False)
    )


class _Head(NamedTuple):
    """The line with which the part of a file begins.

    Attributes:
        path: The file.
        deletes: It is taken away.
        stars: Of the spelling with stars; else the second line of two.
    """

    path: str
    deletes: bool
    stars: bool = False


def _heads(lines: list[str]) -> Iterator[tuple[int, _Head]]:
    """Where the part of each file begins."""
    for at, inside in enumerate(_inside(lines)):
        head = _head(lines, at)
        # Changed lines may look like a head; but the counts of a model may be wrong.
        leads = not inside or "".join(lines[at + 1 : at + 2]).startswith("@@")
        if head is not None and (leads or head.stars):
            yield at, head


def _inside(lines: list[str]) -> Iterator[bool]:
    """Whether each line is in a hunk, by the hunk's own counts."""
    old = new = 0
    for line in lines:
        hunk = _HUNK.match(line)
        yield hunk is None and max(old, new) > 0
        if hunk:
            old, new = (int(count or 1) for count in hunk.groups())
        else:
            old, new = old - (line[:1] in " -"), new - (line[:1] in " +")


def _head(lines: list[str], at: int) -> _Head | None:
    stars = _STARS.match(lines[at])
    if stars:
        return _Head(stars.group(2), stars.group(1) == "Delete", stars=True)
    old = _FILE.match(lines[at - 1]) if at else None
    new = _FILE.match(lines[at]) if lines[at].startswith("+++ ") else None
    if old is None or new is None:
        return None
    deletes = new.group(1).strip() == _NONE
    return _Head((old if deletes else new).group(1), deletes)


def _part(head: _Head, lines: list[str]) -> Part:
    """What is done to one file."""
    kept = [line for line in lines if line.startswith((" ", "+", "-"))]
    old = "\n".join(line[1:] for line in kept if line[:1] != "+")
    new = "\n".join(line[1:] for line in kept if line[:1] != "-")
    return Part(tidy_path(head.path.strip()), old, new, head.deletes)
