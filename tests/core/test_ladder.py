"""What is done about a loop, trigger by trigger."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.ladder import (
    AskUser,
    Escalate,
    GiveUp,
    Ladder,
    Reflect,
    State,
    climb,
    settle,
)

PLAIN = Ladder(Reflect(), Escalate(turns=3, patience=1), GiveUp())


def loop(*steps: int, key: int = 1, again: int = 1, **more: Any) -> Finding:
    """A finding with its evidence at `steps`."""
    return Finding(
        kind="repeat",
        steps=steps,
        count=len(steps),
        threshold=3,
        detail="seen",
        key=key,
        again=again,
        **more,
    )


def climbed(state: State, finding: Finding, ladder: Ladder = PLAIN) -> State:
    """The state after a finding that must be a trigger, at its newest turn."""
    after = climb(ladder, state, finding, finding.steps[-1])
    assert after is not None
    return after


def test_the_first_trigger_reflects() -> None:
    """It takes the first rung, and is remembered with its loop."""
    after = climbed({}, loop(1, 2, 3))

    assert (after["rung"], after["key"], after["at"]) == (1, 1, 3)
    assert PLAIN.at(after["rung"]) == Reflect()


def test_each_further_trigger_takes_the_next_rung() -> None:
    """Reflect, escalate, leave; and it stays at the exit."""
    state: State = {}
    rungs = []
    for turn in (3, 4, 5, 6):
        state = climbed(state, loop(1, 2, turn))
        rungs.append(state["rung"])

    assert rungs == [1, 2, 3, 3]


def test_evidence_that_was_answered_is_no_trigger() -> None:
    """The same finding again, without a newer turn, changes nothing."""
    state = climbed({}, loop(1, 2, 3))

    assert climb(PLAIN, state, loop(1, 2, 3), 4) is None


def test_a_finding_may_ask_for_more_fresh_evidence() -> None:
    """With `again=2` the second newer turn is the trigger."""
    state = climbed({}, loop(1, 2, 3, again=2))

    assert climb(PLAIN, state, loop(2, 3, 4, again=2), 4) is None
    assert climb(PLAIN, state, loop(3, 4, 5, again=2), 5) is not None


def test_answered_evidence_stays_answered_after_progress() -> None:
    """Progress leads down; it does not make old turns new."""
    state = settle(climbed({}, loop(1, 2, 3)), progress=True, acted=False)

    assert state["rung"] == 0
    assert climb(PLAIN, state, loop(1, 2, 3), 5) is None


def test_a_loop_is_reflected_on_once() -> None:
    """When it is back after progress, the next rung takes it."""
    state = settle(climbed({}, loop(1, 2, 3)), progress=True, acted=False)

    assert climbed(state, loop(1, 2, 3, 5))["rung"] == 2


def test_another_loop_is_reflected_on_for_itself() -> None:
    """After progress a loop with another key begins at the foot."""
    state = settle(climbed({}, loop(1, 2, 3)), progress=True, acted=False)

    assert climbed(state, loop(5, 6, 7, key=2))["rung"] == 1


def test_two_rungs_that_reflect_both_reflect() -> None:
    """A ladder may speak twice before it escalates, but not a third time."""
    twice = Ladder(Reflect(), Reflect(), Escalate(), GiveUp())
    state = climbed({}, loop(1, 2, 3), twice)
    state = climbed(state, loop(1, 2, 4), twice)
    assert state["rung"] == 2

    state = settle(state, progress=True, acted=False)
    state = settle(state, progress=True, acted=False)
    assert climbed(state, loop(1, 2, 9), twice)["rung"] == 3


def test_an_escalation_lasts_its_turns() -> None:
    """Each turn without a trigger takes one, down to none."""
    state = climbed(climbed({}, loop(1, 2, 3)), loop(2, 3, 4))
    left = [state["left"]]
    for _ in range(4):
        state = settle(state, progress=False, acted=False)
        left.append(state["left"])

    assert left == [3, 2, 1, 0, 0]


def test_progress_ends_an_escalation() -> None:
    """The cheaper model goes on, one rung further down."""
    state = climbed(climbed({}, loop(1, 2, 3)), loop(2, 3, 4))

    after = settle(state, progress=True, acted=False)

    assert (after["rung"], after["left"]) == (1, 0)


def test_every_escalation_is_another_branch() -> None:
    """One that the run has had is passed over, whatever lies between."""
    twice = Ladder(Escalate(), Escalate(), GiveUp())
    state = climbed({}, loop(1, 2, 3), twice)
    state = settle(state, progress=True, acted=False)
    state = climbed(state, loop(5, 6, 7), twice)

    assert (state["rung"], state["branches"]) == (2, [1, 2])
    state = settle(settle(state, progress=True, acted=False), progress=True, acted=True)
    assert climbed(state, loop(11, 12, 13), twice)["rung"] == 2


def test_after_the_most_interventions_the_exit_is_next() -> None:
    """An agent that moves a little after each does not go on for ever."""
    ladder = Ladder(Reflect(), Escalate(), GiveUp(), most=2)
    state: State = {}
    rungs = []
    for turn in range(3):
        state = climbed(state, loop(turn, key=turn), ladder)
        rungs.append(state["rung"])
        state = settle(state, progress=True, acted=False)

    assert rungs == [1, 1, 3]


def test_a_change_of_the_world_lets_held_calls_go() -> None:
    """What was tried in vain may work now."""
    state = climbed({}, loop(1, 2, 3, holds=(7, 8)))

    assert settle(state, progress=False, acted=False)["holds"] == [7, 8]
    assert settle(state, progress=False, acted=True)["holds"] == []


def test_an_escalation_has_patience_and_holds_nothing() -> None:
    """What it goes back over is out of view: one look of its own is no trigger."""
    ladder = Ladder(Reflect(), Escalate(), GiveUp())
    state = climbed(climbed({}, loop(1, 2, 3)), loop(2, 3, 4, holds=(7,)), ladder)

    assert state["holds"] == []
    assert climb(ladder, state, loop(3, 4, 5), 5) is None
    assert climbed(state, loop(4, 5, 6), ladder)["rung"] == 3


def test_the_newest_holds_are_kept() -> None:
    """Their number is bounded; the oldest go first, whatever their digests."""
    state: State = {}
    ladder = Ladder(*[Reflect()] * 50, GiveUp(), most=50)
    for turn in range(40):
        finding = loop(turn, holds=(1000 - turn, 1000 - turn))
        state = climbed(state, finding, ladder)

    assert state["holds"][-1] == 1000 - 39
    assert len(state["holds"]) <= 16


def test_a_state_of_a_longer_ladder_is_at_the_exit() -> None:
    """A thread may have begun under another policy."""
    assert Ladder(Reflect(), GiveUp()).at(4) == GiveUp()


@pytest.mark.parametrize(
    ("rungs", "problem"),
    [
        ((), "the last rung"),
        ((Reflect(),), r"Ladder\(Reflect\): the last rung, and only that"),
        ((GiveUp(), Reflect(), GiveUp()), "the last rung, and only that"),
        ((Reflect(), Escalate), r"Ladder\(<class .*Escalate'>\): a rung is a"),
        ((5, GiveUp()), r"Ladder\(5\): a rung is a"),
        (([Reflect(), GiveUp()],), "a rung is a"),
    ],
)
def test_a_ladder_has_rungs_and_one_exit_at_its_end(rungs: Any, problem: str) -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(PolicyError, match=problem):
        Ladder(*rungs)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", None])
def test_settings_of_rungs_are_whole_numbers(wrong: Any) -> None:
    """The error names the setting and its value."""
    with pytest.raises(PolicyError, match=r"Reflect\.tokens=.*: give a whole number"):
        Reflect(tokens=wrong)
    with pytest.raises(PolicyError, match=r"Escalate\.turns="):
        Escalate(turns=wrong)
    with pytest.raises(PolicyError, match=r"Ladder\.most="):
        Ladder(GiveUp(), most=wrong)


def test_a_stronger_model_is_a_model_or_its_name() -> None:
    """Whatever can't be asked anything is refused."""
    with pytest.raises(PolicyError, match=r"Escalate\.model=5: give a chat model"):
        Escalate(model=5)


def test_a_question_falls_back_to_giving_up() -> None:
    """There is no other end where nobody can answer."""
    with pytest.raises(PolicyError, match=r"AskUser\.fallback=None: give a GiveUp"):
        AskUser(fallback=None)  # type: ignore[arg-type]


class Climbing(RuleBasedStateMachine):
    """A run of loops, progress and ordinary turns, in any order."""

    ladder = Ladder(Reflect(), Escalate(turns=2, patience=1), AskUser(), most=5)

    def __init__(self) -> None:
        super().__init__()
        self.state: State = {}
        self.turn = 0
        self.reflected: list[int] = []
        self.triggers = 0

    @property
    def rung(self) -> int:
        """Where the run stands."""
        return int(self.state.get("rung", 0))

    @precondition(lambda self: self.rung < 3)
    @rule(key=st.integers(0, 3), age=st.integers(0, 3), again=st.integers(1, 2))
    def turn_with_a_finding(self, key: int, age: int, again: int) -> None:
        """A trigger goes up to a rung that has not reflected on this loop yet."""
        self.turn += 1
        before = self.rung
        steps = tuple(range(max(0, self.turn - 2 - age), self.turn + 1 - age))
        after = climb(
            self.ladder, self.state, loop(*steps, key=key, again=again), self.turn
        )
        fresh = sum(step > self.state.get("at", -1) for step in steps)
        assert (after is None) == ("at" in self.state and fresh < again)
        if after is None:
            self.state = settle(self.state, progress=False, acted=False)
            return
        self.triggers += 1
        self.state = after
        passed = before == 0 and key in self.reflected
        assert self.rung == (3 if self.triggers > 5 else before + 1 + passed)
        if self.rung == 1:
            self.reflected.append(key)

    @rule(progress=st.booleans(), acted=st.booleans())
    def turn_without_a_finding(self, progress: bool, acted: bool) -> None:
        """Progress leads one rung down, and nothing else moves."""
        self.turn += 1
        before = self.rung
        self.state = settle(self.state, progress=progress, acted=acted)
        assert self.rung == max(0, before - progress)

    @invariant()
    def is_bounded(self) -> None:
        """No loop is reflected on twice, and nothing grows."""
        assert len(self.reflected) == len(set(self.reflected))
        assert 0 <= self.rung <= 3
        assert 0 <= self.state.get("left", 0) <= 2
        assert len(self.state.get("told", ())) <= 16


TestClimbing = Climbing.TestCase
