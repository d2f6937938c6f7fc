"""What people say of runs: labels, reading and writing them, which runs to label."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson
import xxhash

from loopguard_lg.analysis.causes import CAUSES
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.errors import LoopGuardError, TraceFormatError
from loopguard_lg.wholefiles import append_whole, write_whole

KINDS = (*sorted(detector.kind for detector in DEFAULTS), "other")
"""In which ways a run can go in circles, as labels name them."""

_KNOWN = frozenset({*KINDS, "none", "budget"})
_KEYS = frozenset({"id", "loop", "kind", "onset_step", "cause", "reason"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a person says of a run.

    Attributes:
        loop: Does it go in circles; `unclear` is left out of every figure.
        kind: In which way.
        onset: The `i` from which a competent observer would say so.
        reason: Why.
        cause: What made it do so, one of `causes.CAUSES`.
        extra: Every other key of the line (who said it, for instance).
    """

    loop: bool | Literal["unclear"]
    kind: str | None = None
    onset: int | None = None
    reason: str = ""
    cause: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loops(self) -> bool | None:
        """Does it go in circles; `None` where that is unclear."""
        return None if self.loop == "unclear" else self.loop

    def as_dict(self, name: str) -> dict[str, Any]:
        """The line that says this of the run of that name."""
        return {
            "id": name,
            "loop": self.loop,
            "kind": self.kind,
            "onset_step": self.onset,
            **({"cause": self.cause} if self.cause else {}),
            "reason": self.reason,
            **self.extra,
        }


Labels: TypeAlias = Mapping[str, Label]
"""Labels by the id of the run."""


def read_labels(path: str | Path, kinds: Iterable[str] = ()) -> dict[str, Label]:
    """The labels of a file, one JSON object a line; the last of a run holds.

    Args:
        path: The file.
        kinds: Kinds that are known beside those of the detectors.

    Raises:
        TraceFormatError: A line can't be read.
        LoopGuardError: There is no label in it.
        OSError: The file can't be read.
    """
    labels = {}
    known = _KNOWN.union(kinds)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.isspace():
                continue
            try:
                name, label = _label(orjson.loads(line), known)
            except ValueError as error:
                raise TraceFormatError(str(path), number, str(error)) from None
            labels[name] = label
    if not labels:
        raise LoopGuardError(f"{path}: there is no label in it")
    return labels


def _label(data: Any, kinds: frozenset[str]) -> tuple[str, Label]:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        raise ValueError("a label is an object with an `id`")
    loop = data.get("loop")
    if type(loop) is not bool and loop != "unclear":
        raise ValueError(f'`loop` is true, false or "unclear", not {loop!r}')
    return data["id"], Label(
        loop=loop,
        kind=_one_of(data, "kind", kinds),
        onset=_position(data, "onset_step"),
        reason=str(data.get("reason") or ""),
        cause=_one_of(data, "cause", frozenset(CAUSES)),
        extra={k: v for k, v in data.items() if k not in _KEYS},
    )


def _position(data: Mapping[str, Any], key: str) -> int | None:
    value = data.get(key)
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"`{key}` is a whole number from 0 on or null, not {value!r}")


def _one_of(data: Mapping[str, Any], key: str, known: frozenset[str]) -> str | None:
    value = data.get(key)
    if value is None or (isinstance(value, str) and value in known):
        return value
    names = ", ".join(sorted(known))
    raise ValueError(f"`{key}` is null or one of {names}, not {value!r}")


def write_labels(path: str | Path, labels: Labels) -> None:
    """Write all labels, in their order; whoever reads finds the old file or the new.

    Raises:
        OSError: The file can't be written; the old one stays.
    """
    lines = [orjson.dumps(label.as_dict(name)) for name, label in labels.items()]
    write_whole(path, b"".join(line + b"\n" for line in lines))


def add_label(path: str | Path, name: str, label: Label) -> None:
    """Write a label at the end of a file, which is made if need be: it holds.

    Raises:
        OSError: It can't be written; the file stays as it was.
    """
    line = orjson.dumps(label.as_dict(name)) + b"\n"
    append_whole(path, b"\n" * _is_unended(Path(path)) + line)


def _is_unended(path: Path) -> bool:
    """Whether a file lacks the end of its last line."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def sample(runs: Iterable[tuple[str, Hashable]], most: int, seed: int = 0) -> list[str]:
    """The ids of `most` runs, from every stratum as many as it has a share of.

    Which ones is told by a digest of seed and id: the same runs whatever their order,
    so that two people are given the same. Every stratum has one run at least, as far
    as `most` goes, the largest first; what is left goes by the largest remainder.

    Args:
        runs: The id of each with its stratum (where it is from, how it loops).
        most: How many, if there are so many.
        seed: Another one draws other runs.
    """
    strata: dict[Hashable, list[str]] = {}
    for name, stratum in runs:
        strata.setdefault(stratum, []).append(name)
    drawn = [sorted(names, key=lambda n: _rank(n, seed)) for names in strata.values()]
    # Ties between strata go by their first run, so that the order of runs is nothing.
    drawn.sort(key=lambda names: (-len(names), _rank(names[0], seed)))
    parts = _shares([len(names) for names in drawn], most)
    chosen = [n for names, k in zip(drawn, parts, strict=True) for n in names[:k]]
    return sorted(chosen, key=lambda name: _rank(name, seed))


def _rank(name: str, seed: int) -> tuple[int, str]:
    data = name.encode("utf-8", "surrogatepass")
    return xxhash.xxh3_64_intdigest(data, seed=seed & (2**64 - 1)), name


def _shares(sizes: list[int], most: int) -> list[int]:
    """How many of each; `sizes` falls."""
    total = sum(sizes)
    if total <= most:
        return sizes
    parts = [int(at < most) for at in range(len(sizes))]
    while (left := most - sum(parts)) > 0:
        behind = [
            (size * most / total - part, -at)
            for at, (size, part) in enumerate(zip(sizes, parts, strict=True))
            if part < size
        ]
        for _, at in sorted(behind, reverse=True)[:left]:
            parts[-at] += 1
    return parts
