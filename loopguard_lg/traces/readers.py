"""Reading recordings, one run at a time.

A run that can't be read comes as a `TraceFormatError` in its place, with file and line;
the ones after it still come.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import orjson

from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces.model import Trajectory, from_dict

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Line:
    """One run, not parsed yet, and where it stands; `number` counts from 1."""

    path: str
    number: int
    data: bytes


def read(path: str | Path) -> Iterator[Trajectory | TraceFormatError]:
    """The runs of a `.jsonl`, `.jsonl.gz` or `.json` file, or of `-`, standard input.

    A `.json` file holds one run on any number of lines; the others hold one a line.
    """
    for line in lines(str(path)):
        yield parse(line)


def parse(line: Line | TraceFormatError) -> Trajectory | TraceFormatError:
    """The run that stands on a line; a line that could not be had stays an error."""
    if isinstance(line, TraceFormatError):
        return line
    try:
        return from_dict(orjson.loads(line.data))
    except ValueError as error:
        return TraceFormatError(line.path, line.number, str(error))


def lines(path: str) -> Iterator[Line | TraceFormatError]:
    """The lines of a file that are not blank; the last one may be an error."""
    number = 0
    try:
        with _open(path) as file:
            if path.removesuffix(".gz").endswith(".json"):
                yield Line(path, 1, file.read())
                return
            for number, data in enumerate(file, 1):
                if not data.isspace():
                    yield Line(path, number, data)
    except (OSError, EOFError, zlib.error) as error:
        problem = getattr(error, "strerror", None) or str(error)
        yield TraceFormatError(path, number + 1, problem)


def _open(path: str) -> IO[bytes] | gzip.GzipFile:
    if path == STDIN:
        return sys.stdin.buffer
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")
