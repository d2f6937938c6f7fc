"""How files are put back: inside one folder, whatever names and links are in it.

Every path is walked from the folder's own descriptor, part by part, without following
a symbolic link, so that neither `..` nor a link that is swapped in meanwhile leads out.
Paths are bytes: a file's name need not be UTF-8.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, TypeAlias

from loopguard_lg.errors import WorkspaceError

Mode: TypeAlias = Literal["100644", "100755", "120000"]
"""What a file is, in git's words: plain, executable, a symbolic link."""

Fate: TypeAlias = Literal["save", "drop", "skip"]
"""What a snapshot does with a path that has changed."""

_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What the file system of macOS leaves out of names."""

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_CARE = os.supports_dir_fd >= {os.open, os.rename, os.unlink, os.mkdir, os.rmdir}


class Content(NamedTuple):
    """A file as it was saved; of a symbolic link `data` is where it leads."""

    mode: Mode
    data: bytes


def is_inside(path: bytes) -> bool:
    """Whether a relative path stays inside its folder and off git's own files."""
    parts = path.split(b"/")
    return bool(path) and b"\0" not in path and not any(map(_is_odd, parts))


def _is_odd(part: bytes) -> bool:
    """Also what other file systems take for `.git`, which git itself refuses there."""
    if part in (b"", b".", b".."):
        return True
    bare = _UNSEEN.sub("", os.fsdecode(part)).partition(":")[0].rstrip(". ").lower()
    return bare in (".git", "git~1")


@contextmanager
def opened(root: bytes) -> Iterator[int]:
    """The descriptor of a folder, for the functions below.

    Raises:
        WorkspaceError: It can't be opened, or the system can't walk descriptors.
    """
    if not _CARE:
        raise WorkspaceError("files can't be put back safely on this system")
    try:
        folder = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError as error:
        raise WorkspaceError(
            f"{os.fsdecode(root)!r} can't be opened: {error}"
        ) from None
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _parent(root: int, path: bytes, *, make: bool = False) -> Iterator[int]:
    """The folder that holds `path`; `make` makes what is missing of it."""
    if not is_inside(path):
        raise WorkspaceError(f"{os.fsdecode(path)!r} is not a path inside a workspace")
    here = os.dup(root)
    try:
        for part in path.split(b"/")[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            deeper = os.open(part, os.O_RDONLY | _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
        yield here
    finally:
        os.close(here)


class Known:
    """Says of a changed path whether it is saved.

    Args:
        root: The folder.
        most_bytes: Size beyond which a file is left out.
    """

    def __init__(self, root: bytes, most_bytes: int) -> None:
        self._root = root
        self._most = most_bytes
        self._folders: dict[bytes, bool] = {}

    def fate(self, path: bytes) -> Fate:
        """`skip`: it can't be read or is too large; `drop`: it is no file any more."""
        if not is_inside(path):
            return "skip"
        if not self._is_real(os.path.dirname(path)):
            return "drop"
        whole = os.path.join(self._root, path)
        try:
            found = os.lstat(whole)
        except (FileNotFoundError, NotADirectoryError):
            return "drop"
        except OSError:  # its name is too long, or it is not ours to see
            return "skip"
        return self._judged(whole, found)

    def _judged(self, whole: bytes, found: os.stat_result) -> Fate:
        if stat.S_ISDIR(found.st_mode):
            return "drop"
        if stat.S_ISLNK(found.st_mode):
            return "save"
        readable = stat.S_ISREG(found.st_mode) and os.access(whole, os.R_OK)
        return "save" if readable and found.st_size <= self._most else "skip"

    def _is_real(self, folder: bytes) -> bool:
        """Whether no part of a folder's path is a symbolic link."""
        if not folder:
            return True
        if folder not in self._folders:
            link = os.path.islink(os.path.join(self._root, folder))
            up = os.path.dirname(folder)
            self._folders[folder] = not link and self._is_real(up)
        return self._folders[folder]


def is_taken(root: int, path: bytes, gone: Collection[bytes]) -> bool:
    """Whether something else is in the place of `path` when `gone` is gone."""
    parts = path.split(b"/")
    for end in range(1, len(parts)):
        above = b"/".join(parts[:end])
        found = _kind(root, above)
        if found != stat.S_IFDIR:
            return found != 0 and above not in gone
    found = _kind(root, path)
    if found == stat.S_IFDIR:
        return not _empties(root, path, gone)
    return found != 0 and path not in gone


def _kind(root: int, path: bytes) -> int:
    """What is at a path, 0 for nothing; a link is a link."""
    try:
        with _parent(root, path) as folder:
            found = os.lstat(_name(path), dir_fd=folder)
    except OSError:
        return 0
    return stat.S_IFMT(found.st_mode)


def _empties(root: int, path: bytes, gone: Collection[bytes]) -> bool:
    """Whether a folder holds nothing but what is gone."""
    for entry, _, names, _ in os.fwalk(path, dir_fd=root):
        if not all(os.path.join(entry, name) in gone for name in names):
            return False
    return True


def remove(root: int, path: bytes) -> None:
    """Delete a file or link, and the folders that are empty then."""
    with _parent(root, path) as folder:
        os.unlink(_name(path), dir_fd=folder)
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        try:
            with _parent(root, path) as folder:
                os.rmdir(_name(path), dir_fd=folder)
        except OSError:
            return


def put(root: int, path: bytes, content: Content) -> None:
    """Write a file or link in one move; what was there is replaced, never followed.

    Raises:
        OSError: It can't be written; the old file is whole then.
    """
    name, fresh = _name(path), b".loopguard-" + secrets.token_hex(8).encode()
    with _parent(root, path, make=True) as folder:
        try:
            if content.mode == "120000":
                os.symlink(content.data, fresh, dir_fd=folder)
            else:
                _write(folder, fresh, content, _permissions(folder, name))
            os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise


def _write(folder: int, name: bytes, content: Content, before: int | None) -> None:
    runs = content.mode == "100755"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    file = os.open(name, flags, 0o777 if runs else 0o666, dir_fd=folder)
    with os.fdopen(file, "wb") as out:
        out.write(content.data)
        if before is not None:
            os.fchmod(file, before | (before & 0o444) >> 2 if runs else before & ~0o111)


def _permissions(folder: int, name: bytes) -> int | None:
    """The permissions of the plain file that is there, if one is."""
    try:
        found = os.lstat(name, dir_fd=folder).st_mode
    except OSError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
