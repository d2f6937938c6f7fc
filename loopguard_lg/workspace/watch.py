"""Which files changed while which agent was at work, by their modification times.

An agent may edit through a shell, a script or a formatter: no call says so. `Watch`
looks at the files before and after a call; `whose` decides, once for all agents of a
folder, to whom a change belongs.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from loopguard_lg.digests import tidy_path, words
from loopguard_lg.errors import WorkspaceError

SKIPPED = words(
    ".git .hg .svn .venv venv node_modules __pycache__ .mypy_cache .pytest_cache"
    " .ruff_cache .tox .nox .gradle .idea .next target"
)
"""Folders in which no person edits, and no agent should."""

_EARLY = 0.1
"""Seconds by which a file's time may be before that of a call: clocks are coarse."""

_FAKED = 1.0
"""Seconds before the last look from which on a file's time is taken for a fake."""

_ENDED = 32
"""Ended calls that are remembered."""

_MOST_KEPT = 200
"""Most changes that are kept for an agent that does not look."""

_MOST_GOING = 1_000
"""Most calls under way: one that was cancelled as it began is never ended."""

_MOST_OWNERS = 200
"""Most agents for which changes are kept: one that is done looks no more."""


class Change(NamedTuple):
    """A file that was changed.

    Attributes:
        path: The file, relative to the folder; bytes that are no text are replaced.
        at: When, in seconds since the epoch.
        size: Its bytes afterwards; `None` if it was deleted.
    """

    path: str
    at: float
    size: int | None = None


class Call(NamedTuple):
    """A call: whose it is, from when to when, and the file that it names, if any."""

    agent: str
    start: float
    path: str = ""
    end: float = math.inf


def whose(
    change: Change, holders: Mapping[str, str], calls: Iterable[Call]
) -> str | None:
    """To whom a change belongs: one agent, or nobody.

    The agent that holds the file's lock; else the one whose call names the file; else
    the one whose call has begun last before the change. A change while no call was
    running is a person's.
    """
    if change.path in holders:
        return holders[change.path]
    running = [c for c in calls if c.start - _EARLY <= change.at <= c.end]
    named = [call for call in running if call.path == change.path]
    newest = max(named or running, key=lambda call: call.start, default=None)
    return newest.agent if newest else None


_State: TypeAlias = tuple[int, int, int]
_Seen: TypeAlias = dict[str, _State]


@dataclass(kw_only=True)
class Watch:
    """The changes of a folder's files, for the agents that work in it.

    Attributes:
        root: The folder.
        holders: Says who holds the lock on which file.
        skipped: Names of folders that are not looked into.
        most: Files beyond which the rest is not watched.
        notified: Let the system tell what changed, where `watchfiles` is installed,
            instead of looking at every file each time.
        clock: Seconds since the epoch.
    """

    root: Path
    holders: Callable[[], Mapping[str, str]] = dict
    skipped: frozenset[str] = SKIPPED
    most: int = 20_000
    notified: bool = True
    clock: Callable[[], float] = time.time
    _known: _Seen | None = field(default=None, init=False, repr=False)
    _looked: float = field(default=0.0, init=False, repr=False)
    _calls: list[Call] = field(default_factory=list, init=False, repr=False)
    _found: dict[str, list[Change]] = field(default_factory=dict, init=False)
    _hints: Generator[set[str]] | None = field(default=None, init=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise WorkspaceError(f"root={str(self.root)!r} is not a folder: give one")

    def begin(self, agent: str, path: str = "") -> Call:
        """A call of an agent's begins, which may name a file."""
        with self._lock:
            self._look()
            call = Call(agent, self.clock(), tidy_path(path))
            self._calls = [*self._calls[-_MOST_GOING:], call]
        return call

    def end(self, call: Call) -> list[Change]:
        """The call has ended: the changes that are its agent's, each told once."""
        with self._lock:
            self._look()
            # Ended calls are kept for a while: the system may tell of a change late.
            ended = [c for c in self._calls if c.end < math.inf][-_ENDED:]
            going = [c for c in self._calls if c.end == math.inf and c is not call]
            self._calls = [*ended, *going, call._replace(end=self.clock())]
            return self._found.pop(call.agent, [])

    @contextmanager
    def during(self, agent: str, path: str = "") -> Iterator[list[Change]]:
        """Fill a list with what an agent changes in here."""
        found: list[Change] = []
        call = self.begin(agent, path)
        try:
            yield found
        finally:
            found += self.end(call)

    def forget(self) -> None:
        """Take the files as they are: what changed since the last look is nobody's."""
        with self._lock:
            self._known = None
            self._look()

    def _look(self) -> None:
        """Give each change since the last look to the agent that it belongs to."""
        known = self._known
        hints = self._hinted() if known is not None else None
        if known is None or hints is None:
            self._known = dict(self._files(""))
            changed = _compared(known, self._known, self._known | (known or {}))
        else:
            now = dict(self._named(known, hints))
            hints |= {p for p in known if not hints.isdisjoint(_above(p))}
            changed = _compared(known, now, hints & (known.keys() | now.keys()))
            self._known = {p: s for p, s in known.items() if p not in hints} | now
        if changed:
            self._share(changed)
        self._looked = self.clock()

    def _share(self, changed: list[tuple[str, _State | None]]) -> None:
        holders, now = self.holders(), self.clock()
        for path, state in changed:
            at = state[0] / 1e9 if state else now
            if not self._looked - _FAKED <= at <= now:
                at = now
            shown = os.fsencode(path).decode("utf-8", "replace")
            change = Change(shown, at, state[1] if state else None)
            owner = whose(change, holders, self._calls)
            if owner is not None:
                kept = [*self._found.pop(owner, ()), change]
                self._found[owner] = kept[-_MOST_KEPT:]
        self._found = dict([*self._found.items()][-_MOST_OWNERS:])

    def _files(self, folder: str) -> Iterator[tuple[str, _State]]:
        """Path and state of the files in a folder, as many as are watched."""
        return islice(self._walked(folder), self.most)

    def _walked(self, folder: str) -> Iterator[tuple[str, _State]]:
        """Path and state of every file in a folder; no link is followed."""
        folders = [folder]
        while folders:
            here = folders.pop()
            for entry in _entries(os.path.join(self.root, here)):
                path = f"{here}/{entry.name}" if here else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    if state := _state(entry):
                        yield path, state
                elif entry.name not in self.skipped:
                    folders.append(path)

    def _named(self, known: _Seen, hints: set[str]) -> Iterator[tuple[str, _State]]:
        """The state of the paths that the system has named, and of what is in them."""
        for path in sorted(hints):
            whole = Path(self.root, path)
            if whole.is_dir() and not whole.is_symlink():
                for inner, state in self._files(path):
                    hints.add(inner)
                    yield inner, state
            elif path in known or len(known) < self.most:
                found = _state(whole)
                if found:
                    yield path, found

    def _hinted(self) -> set[str] | None:
        """Paths that may have changed since the last look; `None`: any of them."""
        if not self.notified:
            return None
        try:
            if self._hints is None:
                self._hints = _notifications(self.root)
                next(self._hints)  # begins here: what was before is not told
                return None
            paths = next(self._hints)
        except (ImportError, OSError, RuntimeError, StopIteration):
            self.notified = False
            return None
        return {p for p in paths if self.skipped.isdisjoint(p.split("/")[:-1])}


def _notifications(root: Path) -> Generator[set[str]]:
    """What the system has told since the last time, as relative paths."""
    from watchfiles import watch

    top = os.path.realpath(root)
    notices = watch(
        top,
        watch_filter=None,
        debounce=50,
        step=1,
        rust_timeout=10,
        yield_on_timeout=True,
    )
    for told in notices:
        yield {os.path.relpath(path, top).replace(os.sep, "/") for _, path in told}


def _compared(
    old: _Seen | None, new: _Seen, paths: Iterable[str]
) -> list[tuple[str, _State | None]]:
    if old is None:
        return []
    return [(p, new.get(p)) for p in sorted(paths) if old.get(p) != new.get(p)]


def _above(path: str) -> Iterator[str]:
    """The folders that a path is in."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:  # gone, or not ours to read
        return []


def _state(entry: os.DirEntry[str] | Path) -> _State | None:
    """What tells a changed file from the same one: time, size, place on the disk."""
    try:
        found = os.lstat(entry)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
