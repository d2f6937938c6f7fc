"""How far two people, or a person and a judge, agree beyond chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopguard_lg.analysis.labels import Label, Labels

LEVEL = 0.95
"""Share of all intervals that cover the true value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How two raters agree on one question.

    Attributes:
        n: Things that both have rated.
        same: The share on which they say the same.
        kappa: Agreement beyond chance: 1 is all, 0 is what chance gives. `None` where
            nothing is rated, or both say one and the same of everything, so that
            chance agrees as well.
        low: Lower end of its interval.
        high: Upper end.
        confusion: How often the first says this and the second that.
    """

    n: int
    same: float | None
    kappa: float | None
    low: float | None
    high: float | None
    confusion: Mapping[tuple[Hashable, Hashable], int]

    def as_dict(self) -> dict[str, Any]:
        """The agreement for a machine to read."""
        return {
            "n": self.n,
            "same": self.same,
            "kappa": self.kappa,
            "low": self.low,
            "high": self.high,
            "confusion": [
                {"first": a, "second": b, "runs": runs}
                for (a, b), runs in self.confusion.items()
            ],
        }


def agreement(pairs: Iterable[tuple[Hashable, Hashable]]) -> Agreement:
    """Cohen's kappa of two raters with its interval.

    Source: J. Cohen, A coefficient of agreement for nominal scales, Educational and
    Psychological Measurement 20 (1960) 37. The standard error is that of J. Fleiss,
    J. Cohen, B. Everitt, Large sample standard errors of kappa and weighted kappa,
    Psychological Bulletin 72 (1969) 323, which corrects the one of 1960. It is 0 where
    the raters agree on everything: then the interval says nothing of how many they are.
    """
    confusion = Counter(pairs)
    n = confusion.total()
    if not n:
        return _agreement(0, None, None, 0, confusion)
    same = sum(count for (a, b), count in confusion.items() if a == b) / n
    first, second = Counter[Hashable](), Counter[Hashable]()
    for (a, b), count in confusion.items():
        first[a] += count
        second[b] += count
    chance = sum(first[value] * second[value] for value in first) / n**2
    if chance == 1:
        return _agreement(n, same, None, 0, confusion)
    kappa = (same - chance) / (1 - chance)
    squares = sum(
        count * ((a == b) - (second[a] + first[b]) / n * (1 - kappa)) ** 2
        for (a, b), count in confusion.items()
    )
    spread = squares / n - (kappa - chance * (1 - kappa)) ** 2
    error = math.sqrt(max(0.0, spread) / n) / (1 - chance)
    return _agreement(n, same, kappa, error, confusion)


def _agreement(
    n: int,
    same: float | None,
    kappa: float | None,
    error: float,
    confusion: Counter[tuple[Hashable, Hashable]],
) -> Agreement:
    half = NormalDist().inv_cdf(0.5 + LEVEL / 2) * error
    return Agreement(
        n=n,
        same=same,
        kappa=kappa,
        low=None if kappa is None else max(-1.0, kappa - half),
        high=None if kappa is None else min(1.0, kappa + half),
        confusion=dict(confusion.most_common()),
    )


def strength(kappa: float | None) -> str:
    """A kappa in a word.

    Source: J. Landis, G. Koch, The measurement of observer agreement for categorical
    data, Biometrics 33 (1977) 159.
    """
    if kappa is None:
        return "not known"
    names = ("slight", "fair", "moderate", "substantial", "almost perfect")
    return "poor" if kappa < 0 else names[min(4, max(0, math.ceil(kappa * 5) - 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two people's labels, side by side.

    Attributes:
        loop: Agreement on whether runs go in circles.
        kind: On how, of runs that both say do.
        cause: On why, of those of which both say it.
        onsets: Steps between the onsets that they give to the same loop.
        apart: The runs on which they differ, with both labels.
    """

    loop: Agreement
    kind: Agreement
    cause: Agreement
    onsets: Sequence[int]
    apart: Mapping[str, tuple[Label, Label]]

    def as_dict(self) -> dict[str, Any]:
        """The comparison for a machine to read."""
        return {
            "loop": self.loop.as_dict(),
            "kind": self.kind.as_dict(),
            "cause": self.cause.as_dict(),
            "onset_p50": median(self.onsets) if self.onsets else None,
            "apart": [
                {"id": name, "first": a.as_dict(name), "second": b.as_dict(name)}
                for name, (a, b) in self.apart.items()
            ],
        }


def compare(first: Labels, second: Labels) -> Compared:
    """How far two people agree on the runs that both have labelled."""
    both = {name: (a, second[name]) for name, a in first.items() if name in second}
    loops = [pair for pair in both.values() if all(x.loop is True for x in pair)]
    return Compared(
        loop=agreement((_word(a), _word(b)) for a, b in both.values()),
        kind=agreement(_said(loops, "kind")),
        cause=agreement(_said(loops, "cause")),
        onsets=[abs(a - b) for a, b in _said(loops, "onset")],
        apart={name: pair for name, pair in both.items() if _differ(*pair)},
    )


def _said(pairs: Iterable[tuple[Label, Label]], what: str) -> Iterator[tuple[Any, Any]]:
    """What both say, of those pairs of which both say it."""
    for a, b in pairs:
        said = getattr(a, what), getattr(b, what)
        if None not in said:
            yield said


def _word(label: Label) -> str:
    return str(label.loop).lower()


def _differ(a: Label, b: Label) -> bool:
    if a.loop != b.loop:
        return True
    return a.loop is True and (a.kind, a.cause) != (b.kind, b.cause)
