from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from loopguard_lg.analysis import intervals
from loopguard_lg.analysis.intervals import Estimate

amounts = st.lists(st.floats(0, 1e6), min_size=1, max_size=60)


def test_a_share_has_the_interval_of_wilson() -> None:
    """Three of ten: 10.8 % to 60.3 %, as the formula gives by hand."""
    found = intervals.share(3, 10)

    # z = 1.96: centre (0.3 + 0.19207) / 1.38415, half width 0.24774
    assert found == pytest.approx((0.3, 0.10779, 0.60322, 10), abs=1e-4)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_agrees_with_scipy(counts: tuple[int, int]) -> None:
    """The score interval is the one that scipy computes."""
    k, n = counts
    other = stats.binomtest(k, n).proportion_ci(method="wilson")

    assert intervals.share(k, n)[1:3] == pytest.approx(tuple(other), abs=1e-9)


def test_nothing_has_no_figure() -> None:
    """No runs make no share, quantile, ratio or mean."""
    assert intervals.share(0, 0) == intervals.quantile([], 0.5) == Estimate()
    assert intervals.ratio([], []) == intervals.mean([]) == Estimate()


@pytest.mark.parametrize(
    ("q", "figures"),
    [(0.5, (50, 40, 61)), (0.95, (95, 90, 100))],
)
def test_a_quantile_lies_between_order_statistics(
    q: float, figures: tuple[float, ...]
) -> None:
    """Of 1 to 100, the ends are the values at the binomial's ranks."""
    assert intervals.quantile(range(1, 101), q)[:3] == figures


@given(amounts, st.sampled_from([0.5, 0.9, 0.95]))
def test_a_quantile_agrees_with_numpy(values: list[float], q: float) -> None:
    """It is the smallest value that a share of `q` does not exceed."""
    found = intervals.quantile(values, q)

    assert found.value == np.quantile(values, q, method="inverted_cdf")
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.high >= found.value


def test_too_few_values_do_not_bound_a_quantile() -> None:
    """Twenty values say nothing of how large the p95 can be."""
    assert intervals.quantile(range(20), 0.95).high is None


def test_a_ratio_is_of_sums() -> None:
    """Runs that cost 1, 2 and 3, of which two succeed, cost 3 a success."""
    found = intervals.ratio([1, 2, 3], [1, 1, 0])

    assert found.value == 3
    assert found.low is not None
    assert found.low < 3
    assert found.high is None  # a resample can have no success at all


def test_nothing_solved_has_no_price() -> None:
    """Without a success there is nothing to divide by."""
    assert intervals.ratio([1, 2], [0, 0]) == Estimate(n=2)


@pytest.mark.parametrize("n", [200, 5_000])
def test_a_ratio_covers_the_true_one(n: int) -> None:
    """Of 200 intervals about 95 % hold the true ratio, in blocks as well."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200 if n < 1_000 else 60):
        size = rng.integers(1, 20, n)
        found = intervals.ratio(rng.binomial(size, 0.3), size)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    assert held >= (180 if n < 1_000 else 52)


def test_pairs_are_tested_by_those_that_changed() -> None:
    """Nine went wrong and one came right: exact p = 0.0215; the rest says nothing."""
    before = [0] * 9 + [1] + [0] * 30 + [1] * 10
    after = [1] * 9 + [0] + [0] * 30 + [1] * 10

    found, p = intervals.pairs_differ(before, after)

    assert found.value == pytest.approx(8 / 50)
    assert p == pytest.approx(22 / 1024)
    assert intervals.pairs_differ([1, 0], [1, 0])[1] == 1


def test_shares_of_different_runs_differ_by_newcombe() -> None:
    """56 of 70 and 48 of 80: the paper gives 0.0524 to 0.3339 for the difference."""
    found, p = intervals.shares_differ(48, 80, 56, 70)

    assert found[:3] == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
    assert p == pytest.approx(stats.fisher_exact([[48, 32], [56, 14]]).pvalue)
    assert intervals.shares_differ(0, 0, 1, 2) == (Estimate(), 1.0)


def test_amounts_differ_paired_and_not() -> None:
    """The mean difference is the same; its tests are those of scipy."""
    before, after = [3.0, 4, 5, 6, 7, 9], [5.0, 6, 9, 7, 11, 10]

    paired, p = intervals.paired_amounts_differ(before, after)
    apart, q = intervals.amounts_differ(before, after)

    assert (paired.value, apart.value) == pytest.approx((14 / 6, 14 / 6))
    assert paired.low is not None
    assert apart.low is not None
    assert paired.low > apart.low
    assert p == pytest.approx(stats.wilcoxon(before, after).pvalue)
    assert q == pytest.approx(stats.mannwhitneyu(before, after).pvalue)
    assert intervals.paired_amounts_differ([1, 2], [1, 2])[1] == 1
    assert intervals.amounts_differ([], [1])[0] == Estimate()


@pytest.mark.parametrize("n", [499, 501, 750, 999])
def test_equal_values_have_a_mean_without_a_doubt(n: int) -> None:
    """However many there are: blocks of unequal size add no spread of their own."""
    assert intervals.mean([10.0] * n) == (10, 10, 10, n)
    assert intervals.amounts_differ([10.0] * n, [10.0] * 600)[0] == (0, 0, 0, n + 600)


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        ((36, 12, 2, 0), (-0.3404, -0.0569)),
        ((20, 12, 2, 16), (-0.3292, -0.0562)),
        ((0, 0, 0, 54), (-0.0664, 0.0664)),
    ],
)
def test_pairs_have_the_interval_of_newcomb(
    counts: tuple[int, int, int, int], ends: tuple[float, float]
) -> None:
    """The examples of the paper; pairs of which none changed have a width as well."""
    both, lost, won, neither = counts
    before = [1] * both + [1] * lost + [0] * won + [0] * neither
    after = [1] * both + [0] * lost + [1] * won + [0] * neither

    found, _ = intervals.pairs_differ(before, after)

    assert (found.low, found.high) == pytest.approx(ends, abs=1e-4)


def test_the_interval_of_pairs_holds_the_truth_as_often_as_it_says() -> None:
    """Of 20 pairs, a twentieth lost and a fifth won: some 95 in 100 intervals do."""
    rng = np.random.default_rng(0)
    held = 0
    for both, lost, won, neither in rng.multinomial(20, [0.5, 0.05, 0.2, 0.25], 400):
        before = [1] * (both + lost) + [0] * (won + neither)
        after = [1] * both + [0] * lost + [1] * won + [0] * neither
        found, _ = intervals.pairs_differ(before, after)
        held += (found.low or 0) <= 0.15 <= (found.high or 0)

    assert held / 400 >= 0.93
