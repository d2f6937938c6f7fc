from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loopguard_lg import Budget, Policy, Repeat
from loopguard_lg.analysis.calibrate import (
    Calibration,
    Cap,
    calibrate,
    needed,
    of_model,
    stop_line,
)
from loopguard_lg.analysis.calibrate_text import policy_file
from loopguard_lg.analysis.facts import RunFacts
from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.replay import check
from loopguard_lg.analysis.thresholds import choose, with_threshold
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, circles, facts_of, works


def runs(*steps: int, **more: Any) -> list[RunFacts]:
    """Facts of successful runs that used so many steps."""
    return [
        RunFacts(id=f"r{n}", **{"success": True, **more}, used={"steps": used})
        for n, used in enumerate(steps)
    ]


def cap_of(found: Calibration, limit: str = "steps") -> Cap:
    """One of the caps."""
    return next(cap for cap in found.caps if cap.limit == limit)


def test_a_cap_lets_the_quantile_through() -> None:
    """Of 1 to 200 the p99 is 198: a budget of 199 is out when 199 are used."""
    cap = cap_of(calibrate(runs(*range(1, 201))))

    assert (cap.line.value, cap.cap) == (198, 199)
    assert str(cap.cuts["all"]) == "2 of 200"
    assert cap.line.low is not None
    assert cap.line.high is not None
    assert cap.line.low < 198 <= cap.line.high


def test_a_run_that_uses_as_much_as_the_line_is_not_cut() -> None:
    """The engine agrees: under the cap a run of so many steps does not trip."""
    data = [works(f"r{n}", 3 + n % 4) for n in range(120)]
    cap = cap_of(calibrate(facts_of(*data)))

    assert cap.cap == 7
    policy = Policy(budget=Budget(steps=int(cap.cap)))
    assert not any(check(policy, from_dict(run)).tripped for run in data)


@pytest.mark.parametrize(
    ("used", "cap"), [(0.0123, 0.0124), (0.5, 0.501), (12.34, 12.4), (873.0, 874)]
)
def test_dollars_and_seconds_are_rounded_up(used: float, cap: float) -> None:
    """Three digits, and always above what was used."""
    good = [RunFacts(id="r", success=True, used={"usd": used})] * 3

    assert cap_of(calibrate(good), "usd").cap == pytest.approx(cap)


def test_few_runs_are_warned_about() -> None:
    """With fewer than 100 successes, and where few of many say what they used."""
    many = [*runs(*[3] * 150)]
    some = [RunFacts(id="t", success=True, used={"steps": 3, "total_tokens": 9})] * 5

    assert "only 99 successful runs" in calibrate(runs(*[3] * 99)).warnings[0]
    assert calibrate(many).warnings == ()
    assert "of total_tokens" in calibrate([*many, *some]).warnings[0]


def test_models_are_not_mixed_without_a_word() -> None:
    """One model is named; several are warned about, and can be chosen from."""
    mixed = [*runs(*[3] * 100, model="a"), *runs(*[9] * 100, model="b")]

    found = calibrate(mixed)

    assert found.model is None
    assert "2 models (a, b): calibrate each" in found.warnings[0]
    assert calibrate(of_model(mixed, "b")).model == "b"


def test_hard_and_long_runs_are_told_apart() -> None:
    """What a cap cuts is said of tasks that mostly fail, and of the longest quarter."""
    easy = [run for n in range(99) for run in runs(n % 4 + 1, task=f"e{n}")]
    hard = [*runs(40, task="h"), *[RunFacts(id="x", success=False, task="h")] * 2]

    cuts = cap_of(calibrate([*easy, *hard])).cuts

    assert {name: str(cut) for name, cut in cuts.items()} == {
        "all": "1 of 100",
        "hard": "1 of 1",
        "long": "1 of 100",
    }


@pytest.mark.parametrize(
    ("n", "share", "line"),
    [(99, 0.01, 99), (98, 0.01, math.inf), (199, 0.05, 190), (19, 0.05, 19)],
)
def test_a_stop_line_is_an_order_statistic(n: int, share: float, line: float) -> None:
    """The ceil((n + 1)(1 - a))-th of the values 1 to n; none where they are too few."""
    assert stop_line([*range(1, n + 1)], share) == line


@given(st.floats(1e-4, 0.5))
def test_so_many_runs_are_needed(share: float) -> None:
    """With `needed` runs there is a line, with one fewer there is none."""
    n = needed(share)

    assert math.isfinite(stop_line([0.0] * n, share))
    assert math.isinf(stop_line([0.0] * (n - 1), share))


@pytest.mark.parametrize("shape", ["exponential", "pareto", "few values"])
@pytest.mark.parametrize(("n", "share"), [(39, 0.05), (150, 0.01), (150, 0.1)])
def test_a_further_good_run_is_stopped_as_rarely_as_promised(
    shape: str, n: int, share: float
) -> None:
    """Over 4,000 samples, the share of next runs beyond the line keeps the promise."""
    rng = np.random.default_rng(7)
    size = (4_000, n + 1)
    drawn = {
        "exponential": lambda: rng.exponential(10, size),
        "pareto": lambda: rng.pareto(1.1, size),
        "few values": lambda: rng.integers(1, 6, size),
    }[shape]()
    beyond = [row[-1] > stop_line(row[:-1].tolist(), share) for row in drawn]

    noise = 3 * math.sqrt(share / 4_000)
    assert np.mean(beyond) <= share + noise


def test_the_promise_is_of_all_caps_together() -> None:
    """Two limits share it: each line is at half the probability."""
    good = [
        RunFacts(id="r", success=True, used={"steps": n, "usd": float(n)})
        for n in range(1, 100)
    ]

    assert calibrate(good, 0.02).caps[0].line.value == 99
    short = calibrate(good, 0.01)
    assert short.caps == ()
    assert "takes at least 199 good runs" in short.warnings[1]


@given(st.lists(st.integers(1, 50), min_size=20, max_size=60), st.integers(0, 3))
def test_a_mistaken_stop_only_raises_the_line(used: list[int], stopped: int) -> None:
    """Runs that a budget had ended count as if they had gone on for ever."""
    ended = [RunFacts(id="s", capped=True, used={"steps": 1})] * stopped

    plain = calibrate(runs(*used), 0.1).caps[0].line.value
    with_ended = calibrate([*runs(*used), *ended], 0.1)

    if with_ended.caps:
        assert (with_ended.caps[0].line.value or 0) >= (plain or 0)
    else:
        assert "no line for steps" in " ".join(with_ended.warnings)


def test_the_file_is_a_policy(tmp_path: Path) -> None:
    """It loads, holds the caps and the model, and its evidence is in comments."""
    found = calibrate(runs(*range(1, 201), model="gpt-x"))
    text = policy_file(found, date="2026-01-02")
    path = tmp_path / "loopguard.toml"
    path.write_text(text)

    policy = Policy.load(path, env={})

    assert (policy.budgets[0].steps, policy.calibrated_for) == (199, "gpt-x")
    assert "200 successful runs (of 200) of gpt-x, 2026-01-02" in text
    assert "# p99 198 [" in text
    assert "would have cut 2 of 200 successes" in text


@given(st.text(min_size=1), st.floats(1e-9, 1e12))
def test_whatever_the_model_is_called_the_file_is_toml(name: str, used: float) -> None:
    """Quotes, new lines and control characters neither break out nor get lost."""
    name = name.encode("utf-8", "replace").decode()
    good = RunFacts(
        id="r", success=True, model=name, used={"seconds": used, "steps": 9}
    )

    data = tomllib.loads(policy_file(calibrate([good]), date=name))

    assert data["calibrated_for"] == name
    assert data["budget"]["steps"] == 10
    assert data["budget"]["seconds"] > used


def test_a_promise_is_in_the_file() -> None:
    """With a guarantee the file says what it is of, and that it is no quantile."""
    text = policy_file(calibrate(runs(*range(1, 200)), 0.01))

    assert "probability of at most 0.01" in text
    assert "# stop line 198 over 199 runs" in text


def test_no_success_is_no_budget() -> None:
    """Failures alone say nothing of what is enough."""
    found = calibrate(facts_of(circles("a")))

    assert (found.caps, found.runs, found.of) == ((), 0, 1)


def labelled(honest_repeats: int) -> list[tuple[Any, Label]]:
    """Thirty loops of six repeats, thirty honest runs of some repeats."""
    loops = [(from_dict(circles(f"l{n}", 6)), Label(loop=True)) for n in range(30)]
    honest = [from_dict(circles(f"h{n}", honest_repeats)) for n in range(30)]
    return [*loops, *((run, Label(loop=False)) for run in honest)]


def test_a_threshold_that_agrees_better_is_chosen() -> None:
    """Where people repeat a call three times for good reason, four make a loop."""
    (choice,) = choose(FREE, labelled(3))

    assert (choice.kind, choice.knob, choice.was, choice.value) == (
        "repeat", "times", 3, 4,
    )  # fmt: skip
    assert (choice.before.fp, choice.after.fp) == (30, 0)
    changed = with_threshold(FREE, choice.kind, choice.value)
    assert next(d for d in changed.detectors if d.kind == "repeat").times == 4  # type: ignore[attr-defined]


def test_thresholds_that_agree_stay() -> None:
    """Nothing is changed without a gain, nor for a few labels."""
    assert choose(FREE, labelled(2)) == ()
    assert choose(FREE, labelled(3)[:45]) == ()
    unclear = [(run, Label(loop="unclear")) for run, _ in labelled(3)]
    assert choose(FREE, unclear) == ()


def test_a_chosen_threshold_is_in_the_file() -> None:
    """With how well it agreed before and after, on the labels it was chosen on."""
    text = policy_file(calibrate(runs(*[3] * 100)), choose(FREE, labelled(3)))

    assert tomllib.loads(text)["detectors"] == {"repeat": {"times": 4}}
    assert "# F1 1.000, with 3 0.667; 0 false trips, before 30" in text


def test_a_gain_is_told_from_the_policy_s_own_threshold() -> None:
    """Where a second value does better than a first, both are held against the old."""
    honest = [from_dict(circles(f"h{n}", 4 if n < 20 else 3)) for n in range(30)]
    loops = [run for run in labelled(3) if run[1].loop]

    policy = FREE.replace(detectors=[Repeat()])
    (choice,) = choose(policy, [*loops, *((run, Label(loop=False)) for run in honest)])

    assert (choice.was, choice.value) == (3, 5)
    assert (choice.before.fp, choice.after.fp) == (30, 0)
