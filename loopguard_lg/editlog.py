"""Which file was edited when, and whether the edit went to a new place in it.

Kept in `Known` as two short lists: four numbers for each of the newest edits, and tags
of the lines that edits have put in place lately. Only calls with a known time count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from loopguard_lg.commands import SHELLS
from loopguard_lg.digests import tidy_path
from loopguard_lg.patches import patch_in
from loopguard_lg.steps import Step, Touch, Turn, clip
from loopguard_lg.testfiles import NEW, OLD, argument
from loopguard_lg.window import key_of

EDITS = 16
"""Edits that are remembered."""
_LINES = 32
"""Lines put in place by edits that are remembered."""
_BULK = 8
"""Files: a turn that touches more of them checks out or formats, and edits none."""

_WHOLE = ("content", "contents", "file_text", "text", "new_source", "source")


class Edit(NamedTuple):
    """What a call does to a file.

    Attributes:
        path: The file, tidied.
        removed: Digests of the lines that it takes out, as far as it tells.
        added: Digests of the lines that it puts in.
        size: Bytes of the whole file, where it puts all of it in place.
    """

    path: str
    removed: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    size: int = 0


class Entry(NamedTuple):
    """One remembered edit.

    Attributes:
        key: Digest of who edited which file.
        i: The turn.
        at: Milliseconds since the run began.
        size: Bytes of the file afterwards, 0 where unknown; negative, with one added,
            where the edit went to a new place.
    """

    key: int
    i: int
    at: int
    size: int

    @property
    def grew(self) -> bool:
        """Did the diff grow in a new place?"""
        return self.size < 0


def entries(flat: Sequence[int]) -> list[Entry]:
    """The edits of a flat list, oldest first."""
    return [Entry(*flat[k : k + 4]) for k in range(0, len(flat), 4)]


class Log:
    """The edits of a run, those of one more turn added.

    Attributes:
        edits: The entries, flat.
        lines: Tags of the lines that edits have put in place.
        now: Digest and path of each file that the turn edited.
    """

    def __init__(self, edits: Sequence[int], lines: Sequence[int]) -> None:
        self.edits = [*edits]
        self.lines = [*lines]
        self.now: dict[int, str] = {}

    def add(self, made: Sequence[Edit], turn: Turn, i: int) -> None:
        """Note the edits of a turn: those that its calls made, and those that a
        watcher has seen of other files.
        """
        for edit, touch in _merged(made, turn.touched):
            agent = touch.agent if touch and touch.agent else turn.agent
            path = tidy_path(touch.path) if touch else edit.path
            t = turn.t if touch is None or touch.t is None else touch.t
            size = touch.size if touch and touch.size else edit.size
            key = key_of(f"{agent}\0{path}")
            self._add(key, edit._replace(path=path, size=size), i, t)
            self.now[key] = path
        del self.edits[: -4 * EDITS]
        del self.lines[:-_LINES]

    def _add(self, key: int, edit: Edit, i: int, t: float | None) -> None:
        place, size = key_of(edit.path), edit.size
        put = {_tag(line, place) for line in edit.added}
        out = {_tag(line, place) for line in edit.removed}
        if put or out:
            grew = out.isdisjoint(self.lines) and bool(out or not put <= {*self.lines})
        else:
            grew = self._is_larger(key, size)
        self.lines += sorted(put.difference(self.lines))
        self.edits += (key, i, round((t or 0) * 1000), -1 - size if grew else size)

    def _is_larger(self, key: int, size: int) -> bool:
        """Is a file larger than it ever was?"""
        known = [_bytes(e.size) for e in entries(self.edits) if e.key == key]
        return not known or size > max(known)


def _bytes(size: int) -> int:
    return -1 - size if size < 0 else size


def _tag(line: int, place: int) -> int:
    """A line of a file as 16 bits."""
    return crc32(b"%d:%d" % (line, place)) & 0xFFFF


def _merged(
    made: Sequence[Edit], touched: Sequence[Touch]
) -> Iterable[tuple[Edit, Touch | None]]:
    """Each edit once: as many of a file as calls edited it, or as the watcher saw
    changes of it, whichever are more.
    """
    paths = {tidy_path(touch.path) for touch in touched}
    left = [*touched] if len(paths) <= _BULK else []
    for edit in made:
        seen = next((t for t in left if same_file(tidy_path(t.path), edit.path)), None)
        if seen is not None:
            left.remove(seen)
        yield edit, seen
    for touch in left:
        yield Edit(touch.path, size=touch.size or 0), touch


def same_file(a: str, b: str) -> bool:
    """Is it one file, where one of two paths may be relative?"""
    return a == b or a.endswith(f"/{b}") or b.endswith(f"/{a}")


def edits_of(step: Step, path: str) -> list[Edit]:
    """What a write does to files, as its arguments tell."""
    patch = patch_in(step.args)
    if patch:
        return [_changed(part.path, [part.old], [part.new]) for part in patch]
    edit = _edit_of(step, path)
    return [edit] if edit else []


def _changed(path: str, old: Iterable[str], new: Iterable[str]) -> Edit:
    """The lines of these texts that are taken out, and put in."""
    before, after = _lines("\n".join(old)), _lines("\n".join(new))
    return Edit(path, before - after, after - before)


def _edit_of(step: Step, path: str) -> Edit | None:
    """What a call does to one file; `None`: no edit of a text."""
    command = step.args.get("command")
    if isinstance(command, str) and step.tool.lower() in SHELLS:
        return _shell_edit(command, path)
    parts = [*_parts(step.args)]
    new = [text for part in parts if (text := argument(part, NEW)) is not None]
    old = [text for part in parts if (text := argument(part, OLD)) is not None]
    if new or old:
        return _changed(path, old, new)
    whole = argument(step.args, _WHOLE)
    if whole is None:
        return None
    if _ADDS.search(step.tool.lower()):
        return Edit(path, added=_lines(whole))
    return Edit(path, size=len(whole.encode("utf-8", "surrogatepass")))


_ADDS = re.compile(r"append|insert|add|cell|notebook")
_SUBSTITUTES = re.compile(r"\bs([/|#,])(.*?)\1(.*?)\1")
_TYPES = re.compile(r"(?:^|[|;&\n][^\S\n]*)(?:cat|echo|printf|tee)\b")


def _shell_edit(command: str, path: str) -> Edit | None:
    """The same for a shell command: a text typed into a file, or changed in place."""
    if "sed -i" in command or "perl -pi" in command:
        pairs = _SUBSTITUTES.findall(command)
        removed = _lines("\n".join(old for _, old, _ in pairs))
        added = _lines("\n".join(new for _, _, new in pairs))
        return Edit(path, removed - added, added - removed)
    if not _TYPES.search(command):
        return None
    if ">>" in command or "tee -a" in command:
        return Edit(path, added=_lines(command))
    return Edit(path, size=len(command.encode("utf-8", "surrogatepass")))


def _parts(args: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The arguments, and mappings in lists among them: several edits in one call."""
    yield args
    for value in args.values():
        if isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, Mapping))


def _lines(text: str) -> frozenset[int]:
    """Digests of the lines of a text that say something."""
    lines = (line.strip() for line in clip(text).splitlines())
    return frozenset(key_of(line) for line in lines if len(line) > 1)
