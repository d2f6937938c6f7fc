"""Patches as texts: which files they touch, and what they take out and put in.

Both spellings are read: the one that begins with `*** Begin Patch`, and unified diffs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_BODY = (" ", "+", "-", "@@", "\\")
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
    starts = [(at, head) for at in range(len(lines)) if (head := _head(lines, at))]
    heads = [*starts, (len(lines), None)]
    return tuple(
        _part(*head, lines[at + 1 : end])
        for (at, head), (end, _) in zip(starts, heads[1:], strict=True)
    )


def _head(lines: list[str], at: int) -> tuple[str, bool] | None:
    """The file whose part begins with a line, and whether it is taken away."""
    stars = _STARS.match(lines[at])
    if stars:
        return stars.group(2), stars.group(1) == "Delete"
    if not lines[at].startswith("+++ ") or not at or not _FILE.match(lines[at - 1]):
        return None
    old, new = _FILE.match(lines[at - 1]), _FILE.match(lines[at])
    if old is None or new is None:
        return None
    deletes = new.group(1).strip() == _NONE
    return (old if deletes else new).group(1), deletes


def _part(path: str, deletes: bool, lines: list[str]) -> Part:
    """What is done to one file."""
    body = [line for line in lines if line.startswith(_BODY) and line[:3] not in _HEADS]
    kept = [line for line in body if line[:1] in " +-"]
    old = "\n".join(line[1:] for line in kept if line[:1] != "+")
    new = "\n".join(line[1:] for line in kept if line[:1] != "-")
    return Part(tidy_path(path.strip()), old, new, deletes)


_HEADS = ("---", "+++")
