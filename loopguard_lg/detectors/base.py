"""What all detectors share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import HUMAN, History, Mark
from loopguard_lg.progress import NOTHING
from loopguard_lg.window import Seen


@runtime_checkable
class Detector(Protocol):
    """Looks for one kind of repetition without progress.

    A frozen spec: its thresholds are its fields, it holds no state.

    Attributes:
        kind: The name of what it finds.
        shadow: Its findings are told, but nothing is done.
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


def options(spec: Any) -> dict[str, Any]:
    """The settings of a detector by name."""
    return {field.name: getattr(spec, field.name) for field in fields(spec)}


def watched(history: History, kind: str) -> list[Seen]:
    """The calls of the newest turn that a detector of this kind looks at."""
    return [seen for seen in history.now if kind not in seen.off]


def fence(history: History) -> int:
    """The index up to which evidence is void: a person spoke."""
    return history.last(HUMAN)


def distinct(turns: list[int]) -> list[int]:
    """Turns in order without doubles: a parallel batch has one vote."""
    return sorted(set(turns))


def name_of(seen: Seen) -> str:
    """A tool's name for a sentence, short and quoted."""
    return f"`{seen.tool[:60]}`"


def ending(seen: Seen) -> str:
    """How the call ended, for a sentence."""
    if seen.marks & Mark.FAILED and not seen.marks & Mark.RED:
        return "the same error"
    if seen.marks & Mark.EMPTY:
        return "the same empty result"
    return "the same result"


def last_change(history: History, seen: Seen) -> int:
    """The turn of the newest real change by another call: what came before is void."""
    rows = history.rows
    for k in range(len(rows.i) - 1, -1, -1):
        marks = rows.marks[k]
        if (
            marks & Mark.CHANGED
            and rows.gain[k] > NOTHING
            and rows.call[k] != seen.call
        ):
            return rows.i[k]
    return -1


def idle(history: History, turns: list[int]) -> bool:
    """Did the work go on all the same? So if every lap brought news on the average, and
    the last one did.
    """
    return history.news(turns[0]) >= len(turns) - 1 and history.news(turns[-2]) > 0
