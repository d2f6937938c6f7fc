"""How sure a figure is: intervals of shares, quantiles and ratios, and of differences.

Every random number comes from a fixed seed, so that a figure is the same everywhere.
Needs numpy and scipy (extra `analysis`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from loopguard_lg.analysis.shares import wilson

LEVEL = 0.95
"""Share of all intervals that cover the true value."""

DRAWS = 2_000
"""Resamples of a bootstrap."""

BLOCKS = 500
"""Most parts that a bootstrap draws from. More values are put at random into so many
blocks, as equal as can be, whose sums are as independent: the work no longer grows
with n."""

Values: TypeAlias = Sequence[float] | NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]


class Estimate(NamedTuple):
    """A figure with its interval.

    Attributes:
        value: The figure; `None` where nothing says.
        low: Lower end; `None` where the data has none.
        high: Upper end, likewise.
        n: What it is made of: runs, or steps.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0

    def as_dict(self) -> dict[str, float | int | None]:
        """The figure for a machine to read."""
        return self._asdict()


def share(k: int, n: int, level: float = LEVEL) -> Estimate:
    """The share `k / n` with its score interval, from 0 to 1; no figure for no `n`."""
    return Estimate(k / n, *wilson(k, n, level), n) if n else Estimate()


def quantile(values: Values, q: float, level: float = LEVEL) -> Estimate:
    """The `q` quantile: the smallest value that a share `q` does not exceed.

    The interval's ends are order statistics: nothing is assumed of the distribution.
    Source: W. J. Conover, Practical Nonparametric Statistics (3rd ed. 1999), 3.2. An
    end is `None` where so few values can't bound it (the p95 of 20 from above).
    """
    n = len(values)
    if not n:
        return Estimate()
    ordered = np.sort(np.asarray(values, float))
    ranks = stats.binom(n, q)
    tail = (1 - level) / 2
    below = int(ranks.ppf(tail))
    above = int(ranks.ppf(1 - tail)) + 1
    # 0.55 * 100 is a hair above 55 in binary, which would make it the 56th value.
    return Estimate(
        float(ordered[max(1, math.ceil(q * n - 1e-9)) - 1]),
        float(ordered[below - 1]) if below >= 1 else None,
        float(ordered[above - 1]) if above <= n else None,
        n,
    )


def quantile_bootstrap(values: Values, q: float, level: float = LEVEL) -> Estimate:
    """The same quantile with the interval of its bootstrap (source: as of `ratio`).

    The rank that a resample's quantile has among the values is drawn from its Beta
    distribution: no resample has to be made. Ends are always there, and are too narrow
    for an extreme quantile of few values; `quantile` says so instead.
    """
    n = len(values)
    if not n:
        return Estimate()
    ordered = np.sort(np.asarray(values, float))
    k = max(1, math.ceil(q * n - 1e-9))
    ranks = np.ceil(np.random.default_rng(0).beta(k, n - k + 1, DRAWS) * n).astype(int)
    low, high = _ends(ordered[np.clip(ranks, 1, n) - 1], level)
    return Estimate(float(ordered[k - 1]), low, high, n)


def ratio(top: Values, bottom: Values, level: float = LEVEL) -> Estimate:
    """The ratio of two sums over the same runs, with the interval of its bootstrap.

    Runs are drawn, not steps: what happened in one run is not independent. Source:
    B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), 13.3 (percentile).
    The upper end is `None` where a resample can have nothing below the line.
    """
    a, b = np.asarray(top, float), np.asarray(bottom, float)
    if not b.sum():
        return Estimate(n=len(a))
    tops, bottoms = _resampled(np.stack([a, b], axis=1)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.where(bottoms > 0, tops / bottoms, np.inf)
    low, high = _ends(drawn, level)
    return Estimate(
        float(a.sum() / b.sum()), low, high if math.isfinite(high) else None, len(a)
    )


def mean(values: Values, level: float = LEVEL) -> Estimate:
    """The mean with the interval of its bootstrap (the same source)."""
    return ratio(values, np.ones(len(values)), level)


def shares_differ(k1: int, n1: int, k2: int, n2: int) -> tuple[Estimate, float]:
    """The second share minus the first, of different runs, and how likely by chance.

    The interval is the hybrid of two score intervals: R. G. Newcombe, Statistics in
    Medicine 17 (1998) 873, method 10. The test is Fisher's exact one, two-sided.
    """
    first, second = share(k1, n1), share(k2, n2)
    if first.value is None or second.value is None:
        return Estimate(), 1.0
    apart = second.value - first.value
    down = math.hypot(second.value - _of(second.low), _of(first.high) - first.value)
    up = math.hypot(_of(second.high) - second.value, first.value - _of(first.low))
    table = [[k1, n1 - k1], [k2, n2 - k2]]
    p = float(stats.fisher_exact(table).pvalue)
    return Estimate(apart, apart - down, apart + up, n1 + n2), p


def pairs_differ(before: Values, after: Values) -> tuple[Estimate, float]:
    """The mean of `after - before` over pairs of yes and no, and its p-value.

    McNemar's test in its exact form: of the pairs that changed, as many should have
    gone each way (Q. McNemar, Psychometrika 12 (1947); exact by the binomial). The
    interval is the hybrid of two score intervals, with the correlation of the pairs:
    R. G. Newcombe, Statistics in Medicine 17 (1998) 2635, method 10. It has a width
    where no pair changed as well, which a bootstrap has not.
    """
    was, now = np.asarray(before, bool), np.asarray(after, bool)
    n, up, down = len(was), int((now & ~was).sum()), int((was & ~now).sum())
    if not n:
        return Estimate(), 1.0
    p = float(stats.binomtest(up, up + down).pvalue) if up + down else 1.0
    first, second = _reach(was), _reach(now)
    phi = _correlation(int((was & now).sum()), up, down, n)
    low = math.hypot(second[0], first[1]) ** 2 - 2 * phi * second[0] * first[1]
    high = math.hypot(second[1], first[0]) ** 2 - 2 * phi * second[1] * first[0]
    apart = (up - down) / n
    # Rounding may leave a square a hair below nothing.
    ends = apart - math.sqrt(max(0.0, low)), apart + math.sqrt(max(0.0, high))
    return Estimate(apart, *ends, n), p


def _reach(yes: NDArray[np.bool_]) -> tuple[float, float]:
    """How far the ends of a share's interval are from it."""
    k, n = int(yes.sum()), len(yes)
    low, high = wilson(k, n)
    return k / n - low, high - k / n


def _correlation(both: int, up: int, down: int, n: int) -> float:
    """The phi coefficient of pairs, nearer to 0 by half a pair if it is positive."""
    neither = n - both - up - down
    product = float(both * neither - up * down)
    if product > 0:
        product = max(product - n / 2, 0.0)
    rows = (both + down) * (neither + up) * (both + up) * (neither + down)
    return product / math.sqrt(rows) if rows else 0.0


def paired_amounts_differ(before: Values, after: Values) -> tuple[Estimate, float]:
    """The mean of `after - before` over pairs of amounts, and Wilcoxon's p-value.

    Source: F. Wilcoxon, Biometrics Bulletin 1 (1945); the signed-rank test, with ranks
    of zero differences split. The interval is that of the bootstrap over pairs.
    """
    change = np.asarray(after, float) - np.asarray(before, float)
    p = 1.0
    if change.any():
        p = float(stats.wilcoxon(change, zero_method="zsplit").pvalue)
    return mean(change), p


def amounts_differ(before: Values, after: Values) -> tuple[Estimate, float]:
    """The mean of `after` minus that of `before`, and the p-value of Mann and Whitney.

    Source: H. B. Mann, D. R. Whitney, Annals of Math. Statistics 18 (1947). The
    interval is that of the bootstrap of both samples.
    """
    a, b = np.asarray(before, float), np.asarray(after, float)
    if not len(a) or not len(b):
        return Estimate(), 1.0
    p = float(stats.mannwhitneyu(a, b).pvalue)
    ends = _ends(_means(b, seed=2) - _means(a, seed=1), LEVEL)
    return Estimate(float(b.mean() - a.mean()), *ends, len(a) + len(b)), p


def _of(end: float | None) -> float:
    return 0.0 if end is None else end


def _means(values: Floats, seed: int) -> Floats:
    """The means of resamples: blocks are not quite of one size, so it is counted."""
    drawn = _resampled(np.stack([values, np.ones_like(values)], axis=1), seed)
    means: Floats = drawn[:, 0] / drawn[:, 1]
    return means


def _resampled(columns: Floats, seed: int = 0) -> Floats:
    """Sums of the columns over resamples of the rows, one row a resample."""
    rng = np.random.default_rng(seed)
    if len(columns) > BLOCKS:
        blocks = np.array_split(rng.permutation(columns), BLOCKS)
        columns = np.stack([block.sum(axis=0) for block in blocks])
    n = len(columns)
    sums: Floats = columns[rng.integers(0, n, (DRAWS, n))].sum(axis=1)
    return sums


def _ends(drawn: Floats, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)
