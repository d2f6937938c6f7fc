from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.compare import Change, Comparison, Margins, compare
from loopguard_lg.analysis.compare_text import markdown
from tests.analysis.made import circles, facts_of, works


def fleet(loops: int, of: int = 20, length: int = 3, **more: Any) -> list[Any]:
    """Facts of runs of `of` tasks; the first ones go in circles."""
    runs = [circles(f"t{n}", 6, task=f"t{n}", **more) for n in range(loops)]
    runs += [works(f"t{n}", length, task=f"t{n}", **more) for n in range(loops, of)]
    return facts_of(*runs)


def change(found: Comparison, figure: str, part: int = 0) -> Change:
    """What became of one figure."""
    return next(c for c in found.slices[part].changes if c.figure == figure)


def test_the_same_runs_are_no_worse() -> None:
    """Nothing changed: no figure fails, and chance explains all."""
    found = compare(fleet(5), fleet(5))

    assert not found.regressed
    assert {c.p for c in found.slices[0].changes} == {1}
    assert "no worse" in markdown(found)


def test_a_loop_rate_beyond_its_margin_fails() -> None:
    """Of 20 tasks eight more loop; McNemar's exact p is 2 / 2**8."""
    found = compare(fleet(2), fleet(10))

    loops = change(found, "loop rate")
    assert (loops.before, loops.after, loops.worse) == (0.1, 0.5, True)
    assert loops.difference.value == pytest.approx(0.4)
    assert (loops.p, loops.test) == (pytest.approx(2 / 256), "McNemar")
    assert found.regressed


@pytest.mark.parametrize(("margin", "worse"), [(0.049, True), (0.05, False)])
def test_what_is_within_the_margin_passes(margin: float, worse: bool) -> None:
    """One more loop in 20 is a rise by exactly 5 %."""
    margins = Margins(loops=margin, success=1)

    assert compare(fleet(2), fleet(3), margins).regressed is worse


def test_success_must_not_drop() -> None:
    """By default a single task that is not solved any more fails; one more does not."""
    lost = compare(fleet(2), fleet(3), Margins(loops=1))
    won = compare(fleet(3), fleet(2))

    assert change(lost, "success").worse
    assert not won.regressed


def test_chance_can_be_asked_to_be_ruled_out() -> None:
    """With `chance` a change that may be luck passes; a large one still fails."""
    margins = Margins(chance=0.05)

    assert not compare(fleet(2), fleet(3), margins).regressed
    assert compare(fleet(2), fleet(12), margins).regressed


def test_steps_and_cost_are_relative() -> None:
    """Twice the steps of a success at the same price a step is twice the cost."""
    before = fleet(0, length=4, each={"cost": 0.5})
    after = fleet(0, length=8, each={"cost": 0.5})

    found = compare(before, after)

    assert change(found, "steps").difference[:3] == (4, 4, 4)
    assert change(found, "cost").difference.value == pytest.approx(2)
    assert [c.figure for c in found.slices[0].changes if c.worse] == ["steps", "cost"]
    roomy = Margins(steps=1, cost=1)
    assert not compare(before, after, roomy).regressed


def test_runs_that_end_on_a_budget_are_a_figure() -> None:
    """A cap that is met more often fails, though nothing loops."""
    before, after = fleet(0), fleet(0)
    capped = [*after[:17], *(replace(run, capped=True) for run in after[17:])]

    assert change(compare(before, capped), "hard caps").worse


def test_different_tasks_are_compared_as_they_are() -> None:
    """Without common tasks the shares are tested by Fisher, amounts by ranks."""
    other = facts_of(*[circles(f"u{n}", 6, task=f"u{n}") for n in range(9)])

    found = compare(fleet(2), other)

    assert not found.slices[0].paired
    assert change(found, "loop rate").test == "Fisher"
    assert change(found, "loop rate").difference.value == pytest.approx(0.9)
    assert change(found, "steps").difference.value is None


def test_several_runs_of_a_task_count_by_their_mean() -> None:
    """Three runs of each task before and after: pairs of shares, tested by Wilcoxon."""
    before = [run for _ in range(3) for run in fleet(2)]
    after = [run for n in (2, 8, 14) for run in fleet(n)]

    found = change(compare(before, after), "loop rate")

    assert found.test == "Wilcoxon, paired"
    assert found.after == pytest.approx(24 / 60)


def test_tasks_of_one_side_are_left_out_and_counted() -> None:
    """Where most are paired, the others do not blur the comparison."""
    extra = facts_of(circles("new", 6, task="new"))

    part = compare(fleet(2), [*fleet(2), *extra]).slices[0]

    assert (part.paired, part.left_out) == (True, 1)
    assert change(compare(fleet(2), [*fleet(2), *extra]), "loop rate").after == 0.1


def test_long_tasks_gate_on_their_own() -> None:
    """Two long tasks of forty get worse: too few for the whole, plain in the slice."""
    short = [works(f"s{n}", 2, task=f"s{n}") for n in range(36)]
    long = [works(f"l{n}", 8, task=f"l{n}") for n in range(4)]
    worse = [circles(f"l{n}", 8, task=f"l{n}") for n in range(2)]
    margins = Margins(loops=0.1, success=0.1)

    found = compare(
        facts_of(*short, *long), facts_of(*short, *worse, *long[2:]), margins
    )

    assert [part.name for part in found.slices] == ["all", "long"]
    assert not any(c.worse for c in found.slices[0].changes)
    assert change(found, "loop rate", 1).worse
    assert found.regressed


def test_luck_does_not_choose_the_long_tasks() -> None:
    """A long task solved in one set alone is in the slice, whichever set it is."""
    won = [works(f"t{n}", 8, task=f"t{n}", success=n < 5) for n in range(10)]
    lost = [works(f"t{n}", 8, task=f"t{n}", success=n >= 5) for n in range(10)]

    found = compare(facts_of(*won), facts_of(*lost))

    success = change(found, "success", 1)
    assert (success.before, success.after) == (0.5, 0.5)


V1 = {"prompt": "1", "tools": "1", "owner": {"prompt": "ann", "tools": "bo"}}


def test_a_regression_is_blamed_on_the_part_that_changed() -> None:
    """The only version that is new is named, with its owner."""
    after = fleet(9, versions={**V1, "prompt": "2"}, model="m")

    found = compare(fleet(2, versions=V1, model="m"), after)

    (cause,) = found.causes
    assert (cause.part, cause.before, cause.after) == ("prompt", ("1",), ("2",))
    assert (cause.owner, cause.explains) == ("ann", True)
    assert "**prompt (owner: ann): 1 → 2, 20 of 20 runs**: worse" in markdown(found)


def test_of_two_changes_the_guilty_one_comes_first() -> None:
    """Both are new in some runs; it is worse only where the tools are."""
    good = fleet(0, versions={**V1, "prompt": "2"})[:10]
    bad = fleet(20, versions={**V1, "tools": "2"})[10:]

    found = compare(fleet(2, versions=V1), [*good, *bad])

    assert [(c.part, c.explains) for c in found.causes] == [
        ("tools", True),
        ("prompt", False),
    ]
    assert "worse only where it is new" in markdown(found)


def test_what_changed_together_is_not_told_apart() -> None:
    """A new model and a new prompt in the same runs are named together."""
    after = fleet(9, versions={**V1, "prompt": "2"}, model="big")

    found = compare(fleet(2, versions=V1, model="small"), after)

    assert {(c.part, c.with_) for c in found.causes} == {
        ("model", ("prompt",)),
        ("prompt", ("model",)),
    }


def test_markdown_holds_no_markup_of_a_recording() -> None:
    """A version with pipes, links, mentions or new lines stays text in its line."""
    evil = "a|b\n# [x](y) <img> `c` **d** @ann https://e.vil www.e.vil"
    after = fleet(9, versions={"prompt": evil, "owner": evil})

    text = markdown(compare(fleet(2, versions={"prompt": "1"}), after))

    (line,) = [line for line in text.splitlines() if "prompt" in line]
    assert r"a\|b \# \[x\]\(y\) \<img\> \`c\` \*\*d\*\*" in line
    assert r"\*\*d\*\* @ ann https:// e.vil www. e.vil" in line


def test_nothing_is_compared_with_nothing() -> None:
    """Without runs there is no figure, and none is worse."""
    found = compare([], [])

    assert not found.regressed
    assert "not known" in markdown(found)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_the_way_back_is_no_regression_of_both(pairs: list[tuple[bool, bool]]) -> None:
    """Changes are opposite when the sets are exchanged; with margins of zero one of
    the two directions fails exactly when the rates differ.
    """
    made = [
        facts_of(*[
            (circles if loops[side] else works)(f"t{n}", 4, success=None, task=f"t{n}")
            for n, loops in enumerate(pairs)
        ])
        for side in (0, 1)
    ]  # fmt: skip
    there, back = (compare(a, b, Margins(loops=0)) for a, b in (made, made[::-1]))

    first, second = change(there, "loop rate"), change(back, "loop rate")
    assert first.difference.value == pytest.approx(-(second.difference.value or 0))
    assert (first.worse or second.worse) == (first.before != first.after)
