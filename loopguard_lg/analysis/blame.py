"""What a change can be blamed on: the model or the version of a part; and its owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from loopguard_lg.analysis.facts import PARTS, RunFacts

_MOST = 5
"""Versions that are named of a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A part that is another one than before.

    Attributes:
        part: `model`, `agent`, `prompt`, `tools` or `policy`.
        before: Its versions before, the most frequent first.
        after: Those that are new.
        owner: Who answers for it, where the recordings say.
        runs: Runs with a new version, and with an old one.
        harm: How much worse the figure is in the former, and in the latter; `None`
            where there are none.
        with_: Parts that changed in the very same runs: they can't be told apart.
    """

    part: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    owner: str | None
    runs: tuple[int, int]
    harm: tuple[float | None, float | None]
    with_: tuple[str, ...]

    @property
    def explains(self) -> bool:
        """Is it worse with the new version, and (almost) only there?"""
        new, old = self.harm
        return new is not None and new > 0 and (old is None or old < new / 2)

    def as_dict(self) -> dict[str, Any]:
        """The cause for a machine to read."""
        return {
            "part": self.part,
            "before": list(self.before),
            "after": list(self.after),
            "owner": self.owner,
            "runs_new": self.runs[0],
            "runs_old": self.runs[1],
            "harm_new": self.harm[0],
            "harm_old": self.harm[1],
            "explains": self.explains,
            "changed_with": list(self.with_),
        }


def causes(
    base: Sequence[RunFacts],
    current: Sequence[RunFacts],
    harm: Callable[[RunFacts], float | None],
) -> Iterator[Cause]:
    """What changed between the runs, the likeliest cause of `harm` first.

    A part is told apart from another one only if there are runs in which one of them
    is new and the other is not: a roll-out in two steps, or runs of both.

    Args:
        base: The runs before.
        current: The runs after.
        harm: How bad a run is; `None` where it says nothing.
    """
    known = {part: {_version(run, part) for run in base} for part in ("model", *PARTS)}
    new = {
        part: [_version(run, part) not in versions for run in current]
        for part, versions in known.items()
    }
    usual = _mean(base, harm)
    found = [
        _cause(part, base, current, new, lambda runs: _rise(runs, harm, usual))
        for part in known
        if any(new[part])
    ]
    # Python keeps the order of equals, so parts stand as `PARTS` has them.
    yield from sorted(found, key=lambda c: (not c.explains, -(c.harm[0] or 0)))


def _cause(
    part: str,
    base: Sequence[RunFacts],
    current: Sequence[RunFacts],
    new: dict[str, list[bool]],
    rise: Callable[[Iterable[RunFacts]], float | None],
) -> Cause:
    fresh = [run for run, is_new in zip(current, new[part], strict=True) if is_new]
    same = [run for run, is_new in zip(current, new[part], strict=True) if not is_new]
    owners = Counter(run.owners[part] for run in fresh if part in run.owners)
    return Cause(
        part=part,
        before=_names(base, part),
        after=_names(fresh, part),
        owner=owners.most_common(1)[0][0] if owners else None,
        runs=(len(fresh), len(same)),
        harm=(rise(fresh), rise(same)),
        with_=tuple(p for p in new if p != part and new[p] == new[part]),
    )


def _version(run: RunFacts, part: str) -> str | None:
    return run.model if part == "model" else run.versions.get(part)


def _names(runs: Iterable[RunFacts], part: str) -> tuple[str, ...]:
    counts = Counter(_version(run, part) or "(none)" for run in runs)
    return tuple(name for name, _ in counts.most_common(_MOST))


def _mean(
    runs: Iterable[RunFacts], harm: Callable[[RunFacts], float | None]
) -> float | None:
    known = [value for run in runs if (value := harm(run)) is not None]
    return fmean(known) if known else None


def _rise(
    runs: Iterable[RunFacts],
    harm: Callable[[RunFacts], float | None],
    usual: float | None,
) -> float | None:
    now = _mean(runs, harm)
    return None if now is None or usual is None else now - usual
