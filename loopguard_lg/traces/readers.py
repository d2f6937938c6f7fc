"""Reading recordings of any format, one run at a time.

What a file holds is told by its content (`formats`), and so is compression. A run that
can't be read comes as a `TraceFormatError` in its place, with file and line; the ones
after it still come. Files may be larger than memory: at most one run is held, and of
formats that spread a run over lines, where its lines are.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from loopguard_lg.errors import TraceFormatError
from loopguard_lg.redaction import masked
from loopguard_lg.traces import checkpoints
from loopguard_lg.traces.files import MOST, STDIN, Raw, Source, opened
from loopguard_lg.traces.formats import FORMATS, OWN, format_of
from loopguard_lg.traces.formats.base import BAD, Format, several
from loopguard_lg.traces.model import Trajectory, from_dict

__all__ = ["STDIN", "Line", "lines", "parse", "read"]

_LOOK = 8
"""Lines that are looked at to tell what a file holds."""

_KEYED = {form.name: form for form in FORMATS if form.keys is not None}


@dataclass(frozen=True, slots=True)
class Line:
    """One run, not parsed yet, and where it stands; `number` counts from 1.

    Attributes:
        path: The file.
        number: The line on which it begins.
        data: Its line, or its lines.
        form: The format's name, where a run has several lines; else content tells.
        key: The run among those that the lines are about.
    """

    path: str
    number: int
    data: bytes
    form: str = ""
    key: str = ""


def read(path: str | Path) -> Iterator[Trajectory | TraceFormatError]:
    """The runs of a file, of `-`, standard input, or of a PostgreSQL database.

    See `docs/readers.md` for the formats.
    """
    for line in lines(str(path)):
        yield parse(line)


def parse(line: Line | TraceFormatError) -> Trajectory | TraceFormatError:
    """The run that stands on a line; a line that could not be had stays an error."""
    if isinstance(line, TraceFormatError):
        return line
    form = _KEYED.get(line.form)
    try:
        if form is None:
            return _whole(line)
        records = chain.from_iterable(map(several, _loaded(line.data)))
        return _run(form, [*records], line.key or _stem(line.path))
    except ValueError as error:
        return TraceFormatError(line.path, line.number, str(error))


def _whole(line: Line) -> Trajectory:
    """The run of one line."""
    record = orjson.loads(line.data)
    form = format_of(record) or OWN
    if form.keys is not None:
        alone = "give its records in a file of their own"
        raise ValueError(f"this is a part of {form.name}: {alone}")
    return _run(form, [record], f"{_stem(line.path)}:{line.number}")


def _run(form: Format, records: Sequence[Any], key: str) -> Trajectory:
    if form is OWN:
        return from_dict(records[0])
    try:
        return from_dict(form.read(records, key))
    except BAD as error:
        raise ValueError(f"{form.name} can't be read: {error}") from None


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0] or "run"


def _loaded(data: bytes) -> Iterator[Any]:
    return map(orjson.loads, data.splitlines())


def lines(path: str) -> Iterator[Line | TraceFormatError]:
    """The runs of a file, not parsed yet; errors stand where the trouble is."""
    if checkpoints.is_address(path):
        yield from _stored(masked(path), checkpoints.postgres(path))
        return
    source = Source(path)
    try:
        with opened(source) as file:
            if file.is_database:
                yield from _stored(path, checkpoints.sqlite(path))
            else:
                yield from _of_text(file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        yield TraceFormatError(path, source.number + 1, problem)


def has_run_per_line(path: str) -> bool:
    """Is it a text file with one run a line, which may be read in parts?"""
    try:
        with opened(Source(path)) as file:
            raw = None if file.is_database else next(file.lines(), None)
    except (OSError, EOFError, zlib.error, ValueError):
        return False
    form = None if raw is None else _format_within(_value(raw))
    return form is not None and form.keys is None


def _stored(path: str, threads: Iterable[Any]) -> Iterator[Line | TraceFormatError]:
    """The threads of a database of checkpoints."""
    try:
        for number, thread in enumerate(threads, 1):
            if isinstance(thread, str):
                yield TraceFormatError(path, number, thread)
            else:
                yield Line(path, number, orjson.dumps(thread, default=str))
    except checkpoints.FAULTS as error:
        problem = " ".join(str(error).split())
        yield TraceFormatError(path, 1, problem)


def _of_text(file: Source) -> Iterator[Line | TraceFormatError]:
    """The runs of a text: one JSON document, or one value a line."""
    head: list[Raw] = []
    form: Format | None = None
    # The first lines may be broken, or of a kind that tells nothing.
    for raw in islice(file.lines(), _LOOK):
        value = _value(raw)
        if value is None and not head and _begins_document(file.path, raw):
            yield from _document(file.path, file.rest(raw))
            return
        head.append(raw)
        if form := _format_within(value):
            break
    every = chain(head, file.lines())
    if form is not None and form.keys is not None:
        yield from _grouped(file, every, form)
    else:
        yield from map(partial(_line, file.path), every)


def _line(path: str, raw: Raw) -> Line | TraceFormatError:
    if raw.problem:
        return TraceFormatError(path, raw.number, raw.problem)
    return Line(path, raw.number, raw.data)


def _value(raw: Raw) -> Any:
    """What a line says; `None` where it is no JSON."""
    try:
        return None if raw.problem else orjson.loads(raw.data)
    except ValueError:
        return None


def _begins_document(path: str, raw: Raw) -> bool:
    """Whether the first line, which is no JSON, begins a document of several lines."""
    name = path.removesuffix(".gz")
    bare = raw.data.strip() in (b"{", b"[") and not name.endswith(".jsonl")
    return not raw.problem and (bare or name.endswith((".json", ".traj")))


def _format_within(value: Any) -> Format | None:
    """The format of a value, or of the records in a list."""
    found = format_of(value)
    if found is None and isinstance(value, list):
        kinds = map(format_of, value[:_LOOK])
        found = next((kind for kind in kinds if kind is not None), None)
    return found


def _document(path: str, data: bytes) -> Iterator[Line | TraceFormatError]:
    """The runs of one JSON document."""
    try:
        value = orjson.loads(data)
    except ValueError as error:
        yield TraceFormatError(path, 1, str(error))
        return
    form = _format_within(value)
    if form is None or form.matches(value) and form.keys is None:
        yield Line(path, 1, data)
    elif form.keys is None:
        for record in several(value):
            yield Line(path, 1, orjson.dumps(record))
    else:
        yield from _parted(path, several(value), form)


def _parted(
    path: str, records: Iterable[Any], form: Format
) -> Iterator[Line | TraceFormatError]:
    """The runs of records in one document."""
    runs: dict[str, list[Any]] = {}
    for at, record in enumerate(records):
        keys = _keys_of(form, record)
        if isinstance(keys, str):
            yield TraceFormatError(path, 1, f"item {at}: {keys}")
            continue
        for key in keys:
            runs.setdefault(key, []).append(record)
    for key, found in runs.items():
        yield Line(path, 1, orjson.dumps(found), form.name, key)


def _keys_of(form: Format, record: Any) -> list[str] | str:
    """The runs that a record is about, or what is wrong with it."""
    found = format_of(record)
    if found is not form or form.keys is None:
        what = f"a record of {found.name}" if found else "unknown"
        return f"this is {what}, among records of {form.name}"
    try:
        return [*form.keys(record)]
    except BAD as error:
        return f"{form.name} can't be read: {error}"


def _grouped(
    file: Source, every: Iterable[Raw], form: Format
) -> Iterator[Line | TraceFormatError]:
    """The runs of a format that spreads them over lines.

    The first pass notes which lines a run has, the second reads them.
    """
    places: dict[str, array[int]] = {}
    with file.kept() as kept:
        for raw in every:
            offset = kept.add(raw)
            keys = _keys_on(raw, form)
            if isinstance(keys, str):
                yield TraceFormatError(file.path, raw.number, keys)
                continue
            for key in keys:
                places.setdefault(key, array("Q")).extend((offset, raw.number))
        for key, found in places.items():
            data = kept.get(found[::2])
            if data is None:
                problem = f"the run {key} has more than {MOST >> 20} MiB"
                yield TraceFormatError(file.path, found[1], problem)
            else:
                yield Line(file.path, found[1], data, form.name, key)


def _keys_on(raw: Raw, form: Format) -> dict[str, None] | str:
    """The runs that a line is about, or what is wrong with it."""
    if raw.problem:
        return raw.problem
    try:
        records = several(orjson.loads(raw.data))
    except ValueError as error:
        return str(error)
    found: dict[str, None] = {}
    for keys in (_keys_of(form, record) for record in records):
        if isinstance(keys, str):
            return keys
        found |= dict.fromkeys(keys)
    return found
