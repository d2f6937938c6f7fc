"""What all detectors share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, ClassVar, Protocol, runtime_checkable

from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import HUMAN, History, Mark, Rows, Seen
from loopguard_lg.progress import NOTHING
from loopguard_lg.window import TURNS


@runtime_checkable
class Detector(Protocol):
    """Looks for one kind of repetition without progress.

    A frozen spec: its thresholds are its fields, it holds no state.

    Attributes:
        kind: The name of what it finds.
        shadow: Its findings are told, but nothing is done.

    One that also has `hears`, bits of `Mark`, is only asked about events that have one
    of them (`History.marks`): most are of interest to few. A subclass that looks at
    events in a way of its own (`observe`) does not inherit it.
    """

    kind: ClassVar[str]

    @property
    def shadow(self) -> bool:
        """Are its findings only told?"""
        ...

    def observe(self, history: History) -> Finding | None:
        """The finding to which the newest event adds evidence, if there is one."""
        ...


def require(spec: Any, **least: int) -> None:
    """Check that whole-number fields are not below their least sensible value.

    Raises:
        PolicyError: Naming the detector, the field, its value and what is right.
    """
    name = type(spec).__name__
    for field, low in least.items():
        value = getattr(spec, field)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise PolicyError(
                f"{name}({field}={value!r}): {field} must be a whole number of at "
                f"least {low}"
            )


def widen(spec: Any) -> None:
    """Let a window that was left at its default hold more than `times` calls: one and a
    half times as many, as far as they are remembered.

    Raises:
        PolicyError: So many calls are not remembered.
    """
    default: Any = next(f.default for f in fields(spec) if f.name == "window")
    times = spec.times
    if not isinstance(times, int):
        return
    if times > TURNS:
        raise PolicyError(
            f"{type(spec).__name__}(times={times!r}): times must be at most {TURNS}, "
            "as no more are remembered"
        )
    if spec.window == default and times >= default:
        object.__setattr__(spec, "window", min(times * 3 // 2, TURNS))


def options(spec: Any) -> dict[str, Any]:
    """The settings of a detector by name."""
    return {field.name: getattr(spec, field.name) for field in fields(spec)}


def watched(history: History, kind: str) -> Sequence[Seen]:
    """The calls of the newest turn that a detector of this kind looks at."""
    now = history.now
    # Asked by nearly all detectors at each turn, and tools are seldom spared.
    for seen in now:
        if seen.off:
            return [seen for seen in now if kind not in seen.off]
    return now


def fence(history: History) -> int:
    """The index up to which evidence is void: a person spoke."""
    return history.last(HUMAN)


def last_change(history: History, seen: Seen) -> int:
    """The turn of the newest real change by another call: what came before is void."""
    rows = history.rows
    for k in range(len(rows.i) - 1, -1, -1):
        changed = rows.marks[k] & Mark.CHANGED and rows.gain[k] > NOTHING
        if changed and rows.call[k] != seen.call:
            return rows.i[k]
    return -1


def turns_of(history: History, positions: Iterable[int]) -> list[int]:
    """The turns of rows, in order and once each: a parallel batch has one vote."""
    return sorted({history.rows.i[k] for k in positions})


def tries(history: History, turns: list[int]) -> int:
    """How many of these turns are tries in vain, whoever acts: each agent that joins
    has its first look free.
    """
    return len(turns) - max(0, len(history.agents(turns)) - 1)


def idle(history: History, turns: list[int], *, errors: bool = False) -> bool:
    """Did the work go on all the same? So if every lap brought news on the average, and
    the last one did; `errors`: a new error is news as well.
    """
    if len(turns) < 2 or not history.news(turns[-2], errors=errors):
        return False
    return history.news(turns[0], errors=errors) >= len(turns) - 1


def edited_between(history: History, positions: Sequence[int]) -> tuple[int, ...]:
    """Digests of the files that were edited in each stretch between calls at these
    positions, as far as any was.
    """
    rows = history.rows
    found: list[set[int]] = []
    for first, last in pairwise(positions):
        edits = {rows.path[k] for k in range(first, last) if _edits(rows, k)}
        found += [edits] if edits else []
    return tuple(sorted(set.intersection(*found))) if found else ()


def _edits(rows: Rows, k: int) -> bool:
    edit = Mark.WRITE | Mark.CHANGED
    return rows.marks[k] & edit == edit and rows.path[k] != 0


def report(
    spec: Any,
    turns: list[int],
    need: int,
    detail: str,
    *,
    key: int,
    seen: Seen | None = None,
    holds: tuple[int, ...] = (),
    files: tuple[int, ...] = (),
    again: int = 1,
) -> Finding | None:
    """The finding that these turns make, if they are as many as needed.

    Args:
        spec: The detector.
        turns: The turns that make the loop, oldest first.
        need: So many make a finding.
        detail: One sentence, in which `{n}` is how many they are.
        key: What stays the same as long as it is the same loop.
        seen: The call that it is about.
        holds: Digests of the calls that it is pointless to make again.
        files: Digests of the files that were edited in vain.
        again: Fresh turns that make the next trigger.
    """
    if len(turns) < need:
        return None
    return Finding(
        kind=spec.kind,
        steps=tuple(turns),
        count=len(turns),
        threshold=need,
        detail=detail.replace("{n}", str(len(turns))),
        key=key,
        tool=seen.tool if seen else "",
        holds=holds,
        files=files,
        again=again,
    )


def name_of(seen: Seen) -> str:
    """A tool's name for a sentence, short and quoted."""
    return f"`{seen.tool[:60]}`"


def file_of(seen: Seen) -> str:
    """A file's name for a sentence."""
    return f"`{seen.path[-80:]}`"


def ending(history: History, seen: Seen) -> str:
    """How the call ended, for a sentence; of one that the guard held back, how it did
    when it was executed last.
    """
    marks = _executed(history, seen) if seen.blocked else seen.marks
    if marks & Mark.FAILED and not marks & Mark.RED:
        return "the same error"
    if marks & Mark.EMPTY:
        return "the same empty result"
    return "the same result"


def _executed(history: History, seen: Seen) -> int:
    """The marks of such a call when it was executed last; 0 if none is remembered."""
    marks = history.rows.marks
    made = [marks[k] for k in history.where("near", seen.near, 0)]
    return next((m for m in reversed(made) if not m & Mark.BLOCKED), 0)
