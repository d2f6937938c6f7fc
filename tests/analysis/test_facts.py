from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loopguard_lg import Budget, Policy
from loopguard_lg.analysis.facts import facts, outline, versions_of
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, circles, facts_of, run, works


def test_a_step_that_repeats_a_call_is_marked() -> None:
    """The same tool and arguments again, whatever came back; another tool is not."""
    calls = [
        ("a", 1, "one thing"),
        ("b", 1, "other"),
        ("a", 1, "a third"),
        ("a", 2, ""),
    ]

    (found,) = facts_of(run("r", *calls))

    assert [row.repeat for row in found.rows] == [False, False, True, False]


def test_a_step_that_adds_nothing_is_idle() -> None:
    """The same empty answer tells nothing the second time."""
    (found,) = facts_of(circles("r", 3))

    assert [row.idle for row in found.rows] == [False, True, True]
    assert (found.steps, found.wasted) == (3, 2)


def test_the_loop_is_named_with_its_steps() -> None:
    """Kind, tool and first step of the trip, and which rows make it."""
    (found,) = facts_of(circles("r", 5))

    assert (found.kind, found.tool, found.step) == ("repeat", "search", 2)
    assert [row.i for row in found.rows if row.loop] == [0, 1, 2]


def test_a_budget_is_no_loop() -> None:
    """A run that ends on a budget is capped, and trips nothing before."""
    (found,) = facts_of(works("r", 6), policy=Policy(budget=Budget(steps=4)))

    assert (found.capped, found.looped, found.step) == (True, False, 3)


@pytest.mark.parametrize(
    ("name", "reason", "capped", "left"),
    [
        ("exited", "budget", True, False),
        ("exited", None, False, True),
        ("reflected", None, False, False),
    ],
)
def test_what_the_guard_did_is_taken_from_the_recording(
    name: str, reason: str | None, capped: bool, left: bool
) -> None:
    """A recorded end counts, whatever the replay would have done; one on a budget is
    no word about a loop.
    """
    data = works("r")
    data["steps"].append({"event": "intervention", "name": name, "reason": reason})

    (found,) = facts_of(data)

    assert (found.capped, found.left) == (capped, left)


def test_the_cost_of_a_turn_is_shared_by_its_calls() -> None:
    """A turn without calls is a row as well; nothing of the cost is lost."""
    data = run("r", ("a", 1, "x"), each={"cost": 0.6, "tokens": 90})
    data["steps"][0]["calls"] *= 3
    data["steps"].append({"i": 1, "agent": "main", "text": "done", "cost": 0.1})

    (found,) = facts_of(data)

    assert [row.cost for row in found.rows] == pytest.approx([0.2, 0.2, 0.2, 0.1])
    assert [row.tokens for row in found.rows] == [30, 30, 30, None]
    assert (found.steps, found.cost) == (3, pytest.approx(0.7))


def test_usage_is_that_of_the_largest_user_turn() -> None:
    """A budget of a run starts afresh with a new word, and so does what is counted."""
    data = works("r", 5)
    data["steps"].insert(4, {"agent": "user", "text": "go on", "i": 3.5})
    for i, step in enumerate(data["steps"]):
        step["i"] = i

    (found,) = facts_of(data)

    assert (found.used["steps"], found.spent["steps"]) == (4, 5)


@pytest.mark.parametrize(
    ("found", "owners"),
    [
        ({"prompt": "7", "owner": {"prompt": "ann"}}, {"prompt": "ann"}),
        ({"prompt": {"version": 7, "owner": "ann"}}, {"prompt": "ann"}),
        ({"prompt": "7", "owner": "ann"}, dict.fromkeys(
            ("agent", "prompt", "tools", "policy"), "ann"
        )),
        ({"prompt": "7"}, {}),
    ],
)  # fmt: skip
def test_a_version_has_an_owner(found: dict[str, Any], owners: dict[str, str]) -> None:
    """Owners stand with the version, beside it by part, or one for all."""
    assert versions_of(found) == ({"prompt": "7"}, owners)


def test_a_loop_before_the_budget_does_not_hide_it() -> None:
    """A run that got out of a loop, and ends on a budget later, is capped as well."""
    data = circles("r", 3)
    later = works("w", 6)["steps"]
    data["steps"] += [{**step, "i": 3 + n} for n, step in enumerate(later)]

    (found,) = facts_of(data, policy=Policy(budget=Budget(steps=8)))

    assert (found.kind, found.step) == ("repeat", 2)
    assert (found.capped, found.left) == (True, False)


def test_an_outline_has_the_figures_without_the_rows() -> None:
    """What is kept of many runs does not grow with their steps."""
    run = from_dict(circles("r", 3))

    found, whole = outline(FREE, run), facts(FREE, run)

    assert (found.steps, found.wasted, found.rows) == (3, 2, ())
    assert found == replace(whole, rows=())
