"""Files of recordings as lines of bytes, with caps on what hostile ones may cost."""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

STDIN = "-"

MOST = 128 << 20
"""Bytes of the longest line, document, or run of several lines that is read."""

SWELL, FREE = 200, 1 << 30
"""A compressed file may swell so many times, or up to so many bytes; recordings of
loops shrink well, but a bomb shrinks a thousandfold.
"""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Raw:
    """One line that is not blank: its number from 1, where it begins, its bytes.

    With a `problem` there are no bytes.
    """

    number: int
    offset: int
    data: bytes
    problem: str = ""


class Source:
    """A file that is read once, from its beginning."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0
        self._offset = 0
        self._file: IO[bytes] | gzip.GzipFile
        self._packed: IO[bytes] | None = None
        self.is_database = False

    def open(self) -> None:
        """Open it, and see by its first bytes what it is.

        Raises:
            ValueError: It is text of another encoding, or no recording.
        """
        piped = self.path == STDIN
        raw: Any = sys.stdin.buffer if piped else Path(self.path).open("rb")  # noqa: SIM115
        file = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
        self._file, head = file, file.peek(16)[:16]
        if head.startswith(b"\x1f\x8b"):
            self._packed = file
            self._file = gzip.GzipFile(fileobj=file)
        self.is_database = head.startswith(b"SQLite format 3\0")
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError("the text is UTF-16: save it as UTF-8")
        if head.startswith(b"PAR1"):
            raise ValueError("this is Parquet: only `report --engine spark` reads it")

    def close(self) -> None:
        """Close what was opened here."""
        if self.path != STDIN and hasattr(self, "_file"):
            self._file.close()
            if self._packed is not None:
                self._packed.close()

    def lines(self) -> Iterator[Raw]:
        """The lines that are not blank; more calls go on where the last one ended."""
        while data := self._file.readline(MOST + 1):
            self.number += 1
            offset, self._offset = self._offset, self._offset + len(data)
            self._check_size()
            if len(data) > MOST:
                problem = f"the line is longer than {MOST >> 20} MiB"
                self._skip_line()
                yield Raw(self.number, offset, b"", problem)
                continue
            if self.number == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            if not data.isspace():
                yield Raw(self.number, offset, data)

    def _skip_line(self) -> None:
        while data := self._file.readline(_CHUNK):
            self._offset += len(data)
            self._check_size()
            if data.endswith(b"\n"):
                return

    def rest(self, first: Raw) -> bytes:
        """All of the file from a line on.

        Raises:
            ValueError: It is too much for one document.
        """
        data = first.data + self._file.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"the document is longer than {MOST >> 20} MiB")
        return data

    def _check_size(self) -> None:
        if self._packed is None or self._offset <= FREE:
            return
        if self._offset > SWELL * max(1, self._packed.tell()):
            swell = f"more than {SWELL} times its size and {FREE >> 20} MiB"
            raise ValueError(f"the file swells to {swell}: unpack it yourself first")

    @contextmanager
    def kept(self) -> Iterator[Kept]:
        """Where lines can be read again: the file itself, or a copy of what streams."""
        if self._packed is None and self.path != STDIN:
            with open(self.path, "rb") as file:
                yield Kept(file, copy=False)
        else:
            with tempfile.TemporaryFile() as file:
                yield Kept(file, copy=True)


class Kept:
    """Lines that can be read again."""

    def __init__(self, file: IO[bytes], *, copy: bool) -> None:
        self._file = file
        self._copy = copy

    def add(self, raw: Raw) -> int:
        """Where the line will be found."""
        if not self._copy:
            return raw.offset
        offset = self._file.tell()
        self._file.write(raw.data if raw.data.endswith(b"\n") else raw.data + b"\n")
        return offset

    def get(self, offsets: Sequence[int]) -> bytes | None:
        """The lines at these places; `None` where they are too much together."""
        found: list[bytes] = []
        size = 0
        for offset in offsets:
            self._file.seek(offset)
            found.append(self._file.readline().strip().removeprefix(b"\xef\xbb\xbf"))
            size += len(found[-1])
            if size > MOST:
                return None
        return b"\n".join(found)


@contextmanager
def opened(source: Source) -> Iterator[Source]:
    """The source, open; standard input stays open afterwards."""
    try:
        source.open()
        yield source
    finally:
        source.close()
