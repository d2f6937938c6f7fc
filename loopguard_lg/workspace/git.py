"""What the files were: snapshots of a working tree in a git repository of its own.

The user's repository is never touched: neither its index, branches, hooks and
configuration nor its worktrees. Snapshots live in a folder outside the tree, with an
index of their own. git is called by argument lists, with `-z`, without a shell and
without anybody's configuration, and only by commands that store and compare; what is
put back is written by `files`, which never leaves the tree.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.workspace import files
from loopguard_lg.workspace.files import Content
from loopguard_lg.workspace.gitcalls import Repository

Act: TypeAlias = Literal["write", "delete", "keep"]
"""What is done to a path: `keep` leaves what no snapshot holds and is in the way."""

_ABSENT = "000000"
_MODULE = "160000"
"""Modes of git's: of a path that is not there, and of another repository."""

_UNDO = "refs/loopguard/undo"
_TAKEN = "refs/loopguard/taken/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files at one moment.

    Attributes:
        id: Names it, for `restore`.
        note: Why it was taken.
        skipped: Paths that are not in it: too large, or not readable.
    """

    id: str
    note: str = ""
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path, and what is done to it."""

    path: str
    act: Act


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """Saves a folder's files, and puts them back.

    Nothing is overwritten or deleted that the snapshot before a restore does not hold:
    ignored files, files over the limit and what can't be read stay as they are.

    Attributes:
        root: The folder.
        store: Where snapshots are kept, outside of `root`; by default in the user's
            cache folder, under a digest of the root's path.
        most_bytes: Files larger than this are not saved.
        most_files: A tree with more files is refused.
        most_snapshots: The oldest ones beyond this are dropped.
        timeout: Seconds after which a git command is given up.
        patience: Seconds that are waited for others who save or put back files here.
    """

    root: Path
    store: Path | None = None
    most_bytes: int = 10_000_000
    most_files: int = 200_000
    most_snapshots: int = 50
    timeout: float = 120.0
    patience: float = 30.0
    _git: str | None = field(default_factory=lambda: shutil.which("git"), repr=False)

    @cached_property
    def _top(self) -> bytes:
        top = os.path.realpath(os.fsencode(self.root))
        if not os.path.isdir(top):
            raise WorkspaceError(f"root={str(self.root)!r} is not a folder: give one")
        return top

    @cached_property
    def _repo(self) -> Repository:
        return Repository(
            top=self._top,
            place=self._place,
            git=self._git,
            timeout=self.timeout,
            patience=self.patience,
        )

    @cached_property
    def _place(self) -> Path:
        if self.store is not None:
            place = Path(os.path.realpath(self.store))
        else:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            name = sha256(self._top).hexdigest()[:24]
            place = Path(cache, "loopguard", "workspaces", name)
        if place.is_relative_to(os.fsdecode(self._top)):
            raise WorkspaceError(
                f"store={str(place)!r} is inside the workspace: give a folder outside"
            )
        return place

    def take(self, note: str = "") -> Snapshot:
        """Save the files as they are now.

        Raises:
            WorkspaceError: git is missing or fails, or there are too many files.
        """
        with self._repo.locked():
            skipped = self._staged()
            tree = self._repo.run("write-tree").decode().strip()
            newest = next(iter(self._refs()), None)
            same = newest and self._tree(newest) == tree
            found = newest if newest and same else self._committed(tree, note)
        return Snapshot(id=found, note=self._note(found), skipped=skipped)

    def taken(self) -> list[Snapshot]:
        """The snapshots that there are, newest first."""
        with self._repo.locked():
            return [Snapshot(id=id_, note=self._note(id_)) for id_ in self._refs()]

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Those of some paths that are ignored, by the tree's rules or the user's."""
        # The prefix keeps a name from being read as a pattern.
        given = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        with self._repo.locked():
            done = self._repo.called(("check-ignore", "-z", "--stdin"), given=given)
        return {os.fsdecode(path[2:]) for path in done.stdout.split(b"\0") if path}

    def compare(self, snapshot: str) -> list[Change]:
        """What `restore` would do: a dry run.

        Raises:
            WorkspaceError: There is no such snapshot, or git fails.
        """
        with self._repo.locked(), files.opened(self._top) as root:
            self._staged()
            now = self._repo.run("write-tree").decode().strip()
            return _planned(root, self._differences(now, self._known(snapshot)))

    def restore(self, snapshot: str, *, keep: Collection[str] = ()) -> list[Change]:
        """Make the files what they were, and say what was done.

        What they are now is saved before, for `undo`.

        Args:
            snapshot: The snapshot's id.
            keep: Paths that stay as they are: others are at work on them.

        Raises:
            WorkspaceError: There is no such snapshot, or files can't be written.
        """
        with self._repo.locked(), files.opened(self._top) as root:
            target = self._known(snapshot)
            self._staged()
            now = self._repo.run("write-tree").decode().strip()
            rows = self._differences(now, target)
            if not rows:
                return []
            saved = self._commit(now, "before a restore")
            self._repo.run("update-ref", _UNDO, saved)
            done = _planned(root, rows, keep)
            self._carried_out(root, rows, done)
        return done

    def undo(self) -> list[Change]:
        """Put back what the newest restore has changed; again: do it once more.

        Raises:
            WorkspaceError: Nothing was restored so far.
        """
        with self._repo.locked():
            found = self._repo.ask("rev-parse", "-q", "--verify", _UNDO)
        if not found:
            raise WorkspaceError("nothing was restored, so there is nothing to undo")
        return self.restore(found.decode().strip())

    def _carried_out(self, root: int, rows: list[_Row], done: list[Change]) -> None:
        acts = [change.act for change in done]
        gone = [row[0] for row, act in zip(rows, acts, strict=True) if act == "delete"]
        written = [row for row, act in zip(rows, acts, strict=True) if act == "write"]
        contents = self._contents(blob for *_, blob in written)
        try:
            # What goes makes room: a file may have become a folder, or the reverse.
            for path in sorted(gone, reverse=True):
                files.remove(root, path)
            for (path, _, mode, _), data in zip(written, contents, strict=True):
                files.put(root, path, Content(mode, data))  # type: ignore[arg-type]
        except OSError as error:
            raise WorkspaceError(
                f"not all files could be put back: {error}. `undo` puts back the others"
            ) from error

    def _staged(self) -> tuple[str, ...]:
        """Bring the index up to date with the tree; the paths that are left out."""
        known = files.Known(self._top, self.most_bytes)
        found: dict[files.Fate, list[bytes]] = {"save": [], "drop": [], "skip": []}
        for path in [*self._listed("-m"), *self._untracked(b"")]:
            found[known.fate(path)].append(path)
        fresh, skipped = found["save"], found["skip"]
        if len(fresh) > self.most_files:
            raise WorkspaceError(
                f"{len(fresh):,} files have changed, more than most_files="
                f"{self.most_files:,}: ignore some, or raise it"
            )
        self._index("--force-remove", paths=[*found["drop"], *skipped])
        self._index("--add", "--remove", "--replace", paths=fresh)
        return tuple(map(os.fsdecode, skipped))

    def _untracked(self, inside: bytes) -> Iterator[bytes]:
        """Files that are not in the index; those of nested repositories, too."""
        for path in self._listed("-o", "--exclude-standard", inside=inside):
            if path.endswith(b"/"):
                yield from self._untracked(inside + path)
            else:
                yield inside + path

    def _listed(self, *which: str, inside: bytes = b"") -> list[bytes]:
        # A nested repository is listed as if it were a tree with nothing saved.
        index = {"GIT_INDEX_FILE": str(self._place / "none")} if inside else {}
        tree = os.path.join(self._top, inside)
        out = self._repo.run("ls-files", "-z", *which, tree=tree, env=index)
        return [*dict.fromkeys(filter(None, out.split(b"\0")))]

    def _index(self, *how: str, paths: list[bytes]) -> None:
        if paths:
            given = b"\0".join(paths) + b"\0"
            self._repo.run("update-index", "-z", *how, "--stdin", given=given)

    def _committed(self, tree: str, note: str) -> str:
        commit = self._commit(tree, note)
        refs = self._repo.run("for-each-ref", "--format=%(refname)", _TAKEN).split()
        number = int(refs[-1].rpartition(b"/")[2]) + 1 if refs else 1
        self._repo.run("update-ref", f"{_TAKEN}{number:012d}", commit)
        for ref in refs[: max(0, len(refs) + 1 - self.most_snapshots)]:
            self._repo.run("update-ref", "-d", ref.decode())
        if number % self.most_snapshots == 0:
            self._repo.run("gc", "-q", "--prune=now")
        return commit

    def _commit(self, tree: str, note: str) -> str:
        given = note.encode("utf-8", "replace")
        return self._repo.run("commit-tree", tree, given=given).decode().strip()

    def _refs(self) -> list[str]:
        form = "--format=%(objectname)"
        out = self._repo.run("for-each-ref", "--sort=-refname", form, _TAKEN)
        return out.decode().split()

    def _note(self, commit: str) -> str:
        whole = self._repo.run("cat-file", "commit", commit).decode("utf-8", "replace")
        return whole.partition("\n\n")[2].rstrip("\n")

    def _tree(self, commit: str) -> str:
        return self._repo.run("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def _known(self, snapshot: str) -> str:
        """The tree of a snapshot, which may be anybody's word."""
        plain = snapshot.isalnum() and snapshot.isascii()
        name = f"{snapshot}^{{tree}}"
        found = self._repo.ask("rev-parse", "-q", "--verify", name) if plain else b""
        if not found:
            raise WorkspaceError(f"there is no snapshot {snapshot!r}")
        return found.decode().strip()

    def _differences(self, now: str, target: str) -> list[_Row]:
        """(path, mode now, mode then, blob then) of each path that differs."""
        args = ("diff-tree", "-r", "-z", "--no-renames", "--raw", now, target)
        parts = self._repo.run(*args).split(b"\0")
        rows = []
        for head, path in zip(parts[::2], parts[1::2], strict=False):
            old, new, _, blob, _ = head.decode().lstrip(":").split()
            if _MODULE not in (old, new):
                rows.append((path, old, new, blob))
        return rows

    def _contents(self, blobs: Iterable[str]) -> Iterator[bytes]:
        given = "".join(f"{blob}\n" for blob in blobs).encode()
        out, at = self._repo.run("cat-file", "--batch", given=given), 0
        for _ in range(given.count(b"\n")):
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            yield out[end + 1 : end + 1 + size]
            at = end + 1 + size + 1


_Row: TypeAlias = tuple[bytes, str, str, str]


def _planned(root: int, rows: list[_Row], keep: Collection[str] = ()) -> list[Change]:
    kept = {os.fsencode(path) for path in keep}
    gone = {path for path, _, new, _ in rows if new == _ABSENT and path not in kept}

    def act(path: bytes, old: str, new: str) -> Act:
        if path in kept:
            return "keep"
        if new == _ABSENT:
            return "delete"
        fresh = old == _ABSENT
        return "keep" if fresh and files.is_taken(root, path, gone) else "write"

    return [
        Change(path=os.fsdecode(p), act=act(p, old, new)) for p, old, new, _ in rows
    ]
