"""How far two raters agree."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.agreement import agreement, compare, strength
from loopguard_lg.analysis.labels import Label

RATINGS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")))


def test_kappa_is_that_of_the_worked_example() -> None:
    """50 proposals: both yes 20, both no 15, 5 and 10 apart; po 0.7, pe 0.5."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15

    found = agreement(pairs)

    assert (found.n, found.same) == (50, pytest.approx(0.7))
    assert found.kappa == pytest.approx(0.4)
    # statsmodels 0.15, cohens_kappa([[20, 5], [10, 15]])
    assert found.low == pytest.approx(0.1510923)
    assert found.high == pytest.approx(0.6489077)
    assert found.confusion["n", "y"] == 10


def test_kappa_of_three_categories_is_the_hand_computed_one() -> None:
    """Po 0.7; pe (4*6 + 3*2 + 3*2) / 100 = 0.36; kappa 0.34 / 0.64."""
    first, second = "aaaabbbccc", "aaaabbcaac"

    found = agreement(zip(first, second, strict=True))

    assert found.same == pytest.approx(0.7)
    assert found.kappa == pytest.approx(0.34 / 0.64)


@given(RATINGS)
def test_kappa_does_not_ask_who_is_first(pairs: list[tuple[str, str]]) -> None:
    """Both raters count alike, and the interval holds the value."""
    found, other = agreement(pairs), agreement((b, a) for a, b in pairs)

    assert found.kappa == other.kappa or found.kappa == pytest.approx(other.kappa)
    if found.kappa is not None:
        assert found.low is not None
        assert -1 <= found.low <= found.kappa <= (found.high or 0) <= 1


@given(st.lists(st.sampled_from("abc"), min_size=2))
def test_who_agrees_on_everything_has_kappa_one(values: list[str]) -> None:
    """Unless there is but one category: then chance agrees as well."""
    found = agreement((value, value) for value in values)

    assert found.kappa == (pytest.approx(1) if len(set(values)) > 1 else None)


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (None, "not known"),
        (-0.1, "poor"),
        (0.0, "slight"),
        (0.2, "slight"),
        (0.41, "moderate"),
        (0.61, "substantial"),
        (1.0, "almost perfect"),
    ],
)
def test_a_kappa_has_a_word(kappa: float | None, word: str) -> None:
    """The scale is that of Landis and Koch."""
    assert strength(kappa) == word


def test_labels_are_compared_where_both_have_one() -> None:
    """Kind, cause and onset count where both see a loop; the rest is listed."""
    mine = {
        "a": Label(loop=True, kind="repeat", onset=3, cause="no_exit"),
        "b": Label(loop=True, kind="churn", onset=1),
        "c": Label(loop=False),
        "mine": Label(loop=True),
    }
    yours = {
        "a": Label(loop=True, kind="repeat", onset=5, cause="other"),
        "b": Label(loop=False),
        "c": Label(loop=False),
    }

    found = compare(mine, yours)

    assert (found.loop.n, found.kind.n, found.cause.n) == (3, 1, 1)
    assert (found.onsets, [*found.apart]) == ([2], ["a", "b"])
    assert found.as_dict()["onset_p50"] == 2
