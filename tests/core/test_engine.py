"""What is decided, event by event."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings, strategies as st

from loopguard_lg import Budget, Policy, Repeat, decide
from loopguard_lg.engine import standing
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.ladder import AskUser, Escalate, Ladder
from loopguard_lg.memory import Memory
from loopguard_lg.steps import Compaction, Event, Human, Progress, Step, Turn

from . import wild
from .wild import actions, call, fresh_reads, last, run

PLAIN = Policy()
EMPTY = call("[]", query="x")
WORD = Human(text="go on")


@dataclass(frozen=True)
class Always:
    """Finds a loop in every turn."""

    kind: ClassVar[str] = "always"
    shadow: bool = False

    def observe(self, history: History) -> Finding | None:
        """One more turn of it."""
        return Finding(
            kind=self.kind, steps=(history.i,), count=1, threshold=1, detail="again"
        )


@dataclass(frozen=True)
class Broken:
    """Fails on every turn."""

    kind: ClassVar[str] = "broken"
    shadow: bool = False

    def observe(self, history: History) -> Finding | None:
        """Divide by nothing."""
        raise ZeroDivisionError("by nothing")


def says_yes(turn: Turn) -> bool:
    """A signal for tests: every turn moves the task."""
    return True


def says_nothing(turn: Turn) -> bool:
    """A signal that fails."""
    raise KeyError("missing")


@settings(max_examples=60)
@given(st.lists(wild.events, min_size=1, max_size=14))
def test_nothing_that_goes_in_is_changed(events: list[Event]) -> None:
    """Memory stays as it was, and the same input gives the same output."""
    memory: Memory = {}
    for event in events:
        before = deepcopy(memory)
        first = decide(PLAIN, memory, event)
        assert memory == before
        assert decide(PLAIN, before, event) == first
        memory = first[1]


@settings(max_examples=60)
@given(st.lists(wild.events, min_size=1, max_size=14))
def test_no_event_is_too_much(events: list[Event]) -> None:
    """Nothing fails inside, whatever tools and models send."""
    assert [v.faults for v in run(*events)[0] if v.faults] == []


@settings(max_examples=60)
@given(st.lists(wild.events, min_size=1, max_size=14))
def test_a_good_point_has_progress_and_nothing_open(events: list[Event]) -> None:
    """The run may come back to it."""
    for verdict in run(*events)[0]:
        if verdict.good:
            assert verdict.progress
            assert verdict.finding is None
            assert verdict.rung == 0


def test_a_loop_is_reflected_on_then_escalated_then_left() -> None:
    """The third repetition is the first trigger; the escalation gets one look."""
    verdicts, _ = run(*[EMPTY] * 6)

    assert [v.action for v in verdicts[2:]] == [
        "reflect",
        "escalate",
        "continue",
        "exit",
    ]
    assert verdicts[2].finding is not None
    assert verdicts[2].finding.kind == "repeat"
    assert [v.rung for v in verdicts] == [0, 0, 1, 2, 2, 3]


def test_a_ladder_of_your_own_is_climbed() -> None:
    """Whatever its rungs are."""
    ladder = Ladder(Escalate(patience=1), AskUser())

    assert actions(*[EMPTY] * 4, policy=Policy(ladder=ladder))[2:] == [
        "escalate",
        "exit",
    ]


def test_a_detector_that_fails_costs_only_its_own_vote() -> None:
    """It is named, its failures are counted, and the others go on."""
    policy = Policy(detectors=[Broken(), Repeat()])

    verdicts, memory = run(*[EMPTY] * 3, policy=policy)

    assert verdicts[-1].faults == (("broken", "ZeroDivisionError: by nothing"),)
    assert verdicts[-1].action == "reflect"
    assert memory["faults"] == {"broken": 3}


def test_a_subclass_that_looks_for_itself_is_asked_about_every_event() -> None:
    """What the class above it hears says nothing of it."""
    asked: list[int] = []

    class Own(Repeat):
        def observe(self, history: History) -> Finding | None:
            asked.append(history.i)
            return None

    run(*fresh_reads(4), policy=Policy(detectors=[Own()]))

    assert asked == [0, 1, 2, 3]


def test_a_shadowed_detector_only_tells() -> None:
    """Its findings are listed; nothing is done, and nothing is open."""
    policy = Policy(detectors=[Repeat(shadow=True)])

    verdict = last(*[EMPTY] * 3, policy=policy)

    assert [finding.kind for finding in verdict.findings] == ["repeat"]
    assert (verdict.action, verdict.finding, verdict.rung) == ("continue", None, 0)


def test_a_shadowed_detector_does_not_hide_another() -> None:
    """The one that acts is the finding, whatever the other one says."""
    policy = Policy(detectors=[Always(shadow=True), Repeat()])

    verdict = last(*[EMPTY] * 3, policy=policy)

    assert len(verdict.findings) == 2
    assert verdict.finding is not None
    assert verdict.finding.kind == "repeat"


def test_a_signal_that_fails_is_no_progress() -> None:
    """It is named; the next one is asked all the same."""
    broken = Policy(progress=[says_nothing])
    mended = Policy(progress=[says_nothing, says_yes])

    verdict = last(EMPTY, policy=broken)

    assert verdict.faults == (("says_nothing", "KeyError: 'missing'"),)
    assert not verdict.progress
    assert last(EMPTY, policy=mended).progress


@pytest.mark.parametrize("how", ["signal", "turn"])
def test_reported_progress_outweighs_findings(how: str) -> None:
    """A repetition that the app calls progress is none."""
    policy = Policy(progress=[says_yes]) if how == "signal" else PLAIN
    turn = replace(EMPTY, progress="found it" if how == "turn" else "")

    assert set(actions(*[turn] * 6, policy=policy)) == {"continue"}


def test_a_turn_of_reported_progress_is_noted_like_others() -> None:
    """Its writes are remembered, its hand-overs charged, and the report is a fact."""
    steps = (
        Step(tool="send_email", args={"to": "me"}, result="sent", changed_state=True),
        Step(tool="transfer_to_billing", result="handed over"),
    )

    _, memory = run(Turn(steps=steps, progress="half way"))

    assert memory["pad"]["writes"] == [['send_email(to="me")', "sent"]]
    assert memory["pad"]["facts"] == ["half way"]
    assert memory["used"]["run"]["handoffs"] == 1


def test_every_call_of_a_batch_is_noted_as_what_it_was() -> None:
    """Also where two of them are the same."""
    read = Step(tool="read_file", args={"path": "a"}, result="")
    write = Step(tool="send_email", args={}, result="sent", changed_state=True)

    _, memory = run(Turn(steps=(read, read, write)))

    assert memory["pad"]["writes"] == [["send_email()", "sent"]]
    assert [entry[:2] for entry in memory["pad"]["tried"].values()] == [
        ['read_file(path="a")', 2]
    ]


def test_progress_leads_down_and_the_run_recovers() -> None:
    """From the first rung to the foot, and that is a good point again."""
    verdicts, memory = run(*[EMPTY] * 3, *fresh_reads(1))

    assert [v.rung for v in verdicts] == [0, 0, 1, 0]
    assert verdicts[-1].recovered
    assert verdicts[-1].good
    assert memory["ladder"]["holds"] == []


def test_on_the_way_down_a_point_is_not_good_yet() -> None:
    """Progress on the second rung leaves the first one open."""
    verdict = last(*[EMPTY] * 4, *fresh_reads(1))

    assert (verdict.progress, verdict.rung) == (True, 1)
    assert not verdict.good
    assert not verdict.recovered


def test_an_escalation_is_not_shortened_by_a_compaction() -> None:
    """Its turns are turns of the model."""
    _, memory = run(*[EMPTY] * 4, Compaction())
    assert memory["ladder"]["left"] == 5

    _, memory = run(call("[]", query="y"), memory=memory)
    assert memory["ladder"]["left"] == 4


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_s_word_brings_the_ladder_down(answer: bool) -> None:
    """Whether asked or not: the next loop begins with a reflection."""
    word = Human(text="try y", answer=answer)

    verdicts, memory = run(*[EMPTY] * 4, word)
    assert (verdicts[-1].rung, memory["ladder"]) == (0, {})

    assert actions(*[EMPTY] * 4, word, *[EMPTY] * 3)[-3:] == [
        "continue",
        "continue",
        "reflect",
    ]


def blocked(turn: Turn) -> Turn:
    """The same turn, with its calls answered by the guard."""
    steps = tuple(replace(s, blocked=True, error=True) for s in turn.steps)
    return replace(turn, steps=steps)


def test_a_held_call_asked_for_again_is_the_next_trigger() -> None:
    """It was not executed, and it was tried all the same."""
    verdict = last(*[EMPTY] * 3, blocked(EMPTY))

    assert verdict.action == "escalate"
    assert verdict.finding is not None
    assert verdict.finding.tool == "search"


def test_a_call_that_a_budget_refused_is_no_trigger() -> None:
    """Only what is held makes a loop."""
    other = blocked(call("no room", "read_file", path="b"))

    assert actions(*[EMPTY] * 3, other)[-1] == "continue"


def test_a_broken_history_is_replaced() -> None:
    """The fault is told once, and detection goes on."""
    _, memory = run(*[EMPTY] * 2)

    verdicts, _ = run(*[EMPTY] * 3, memory={**memory, "history": {"i": "x"}})

    assert [fault[0] for fault in verdicts[0].faults] == ["history"]
    assert verdicts[1].faults == ()
    assert verdicts[-1].action == "reflect"


def test_a_turn_that_cannot_be_read_is_left_out() -> None:
    """What breaks the contract costs its own turn; it is charged, and named."""
    broken: Any = Step(tool="search", result=None)  # type: ignore[arg-type]

    verdicts, memory = run(EMPTY, Turn(steps=(broken,)), EMPTY, EMPTY)

    assert verdicts[1].faults[0][0] == "history"
    assert memory["used"]["run"]["tool_calls"] == 4
    assert verdicts[-1].action == "reflect"


def test_a_trigger_that_was_not_acted_on_still_stands() -> None:
    """And a budget that is out stays out."""
    _, looped = run(*[EMPTY] * 4)
    policy = Policy(budget=Budget(steps=1))
    _, spent = run(EMPTY, policy=policy)

    due = standing(PLAIN, looped, due=True)
    assert (due.action, due.rung) == ("escalate", 2)
    assert due.finding is not None
    assert standing(PLAIN, looped, due=False).action == "continue"
    assert standing(policy, spent, due=False).action == "exit"


def test_a_recording_s_own_numbers_are_used() -> None:
    """Verdicts and findings point at the recording's events."""
    turns = [replace(EMPTY, i=n) for n in (10, 20, 30)]

    verdict = last(*turns)

    assert verdict.i == 30
    assert verdict.finding is not None
    assert verdict.finding.steps == (10, 20, 30)


def test_an_event_of_progress_leads_down() -> None:
    """The app around the agent may say so, too."""
    assert last(*[EMPTY] * 3, Progress(note="done")).recovered
