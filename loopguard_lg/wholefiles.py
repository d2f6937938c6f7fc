"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def write_whole(path: str | Path, content: bytes | str) -> None:
    """Put a file in the place of another: whoever reads finds the old or the new one.

    Who may do what with it stays as it was.

    Raises:
        OSError: It can't be written; names the file, and the old one stays.
    """
    target = Path(path).resolve()  # a link goes on leading to its file
    data = content.encode() if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():  # a pipe or a terminal
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _replace(target: Path, data: bytes) -> None:
    draft = target.with_name(f".{target.name}.{token_hex(8)}.tmp")
    try:
        with open(draft, "xb") as file:
            if target.exists():  # what was private is never open to others
                shutil.copymode(target, draft)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def append_whole(path: str | Path, data: bytes, mode: int = 0o666) -> None:
    """Add to the end of a file, which is made if need be: all of it, or nothing.

    Args:
        path: The file.
        data: What to add.
        mode: Who may do what with a file that is made, as for `os.open`.

    Raises:
        OSError: It can't be written; what was written of it is taken back.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        start = end = os.lseek(file, 0, os.SEEK_END)
        while data:
            written = _written(file, data, start, end)
            data, end = data[written:], end + written
    finally:
        os.close(file)


def _written(file: int, data: bytes, start: int, end: int) -> int:
    try:
        return os.write(file, data)
    except OSError:
        with suppress(OSError):
            if os.fstat(file).st_size == end:  # nobody else has added anything
                os.ftruncate(file, start)
        raise
