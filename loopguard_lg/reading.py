"""Reads the calls of a turn: what each was for, how it ended, what it added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopguard_lg.commands import Use
from loopguard_lg.digests import (
    result_digest,
    settle,
    shape,
    short,
    sketch,
    squeeze,
    step_digests,
)
from loopguard_lg.progress import MUCH, NOTHING, Outcome, read_outcome, state_in
from loopguard_lg.roles import read_use, thinks
from loopguard_lg.steps import Step, Turn, clip
from loopguard_lg.testfiles import content_after, is_test, weakens
from loopguard_lg.tools import ToolPolicy
from loopguard_lg.weighing import ANSWER, Call, Scale, line_range
from loopguard_lg.window import ROLE_MARKS, Known, Mark, Seen

if TYPE_CHECKING:
    from loopguard_lg.history import History

_NO_POLICY = ToolPolicy()


class Reader:
    """Reads one turn against the past.

    Attributes:
        scale: What its calls were weighed on, and what is known after them.
    """

    def __init__(self, past: History, turn: Turn, known: Known) -> None:
        self.past = past
        self.turn = turn
        self.known = known
        self.scale = Scale(past)

    def read(self, tools: Mapping[str, ToolPolicy]) -> tuple[Seen, ...]:
        """The distinct calls of the turn, in order."""
        found: dict[tuple[int, int], Seen] = {}
        for step in self.turn.steps:
            seen = self._seen(step, tools.get(step.tool, _NO_POLICY))
            found.setdefault((seen.call, seen.result), seen)
        return tuple(found.values())

    def _seen(self, step: Step, policy: ToolPolicy) -> Seen:
        """One call."""
        call = _read(step, policy)
        use, outcome = call.use, call.outcome
        gain = self.scale.call(call)
        changed = _changed(step, use, outcome)
        return Seen(
            step.tool,
            use.role,
            call.call,
            call.near,
            call.result,
            outcome.error,
            outcome.kin,
            use.path,
            call.state,
            call.words,
            call.shape,
            gain,
            _marks(call, changed, gain) | Mark.WAITED * self._waited(call),
            changed,
            outcome.ok,
            step.blocked,
            policy.off,
        )

    def _waited(self, call: Call) -> bool:
        """Did time pass before or during a call, for which a poll may be forgiven?

        Of calls that look like no poll only waits tell; that a model was slow does not.
        """
        known, past = self.known, self.past
        if call.use.waits or past.rows.marks and past.rows.marks[-1] & Mark.WAIT:
            return True
        if call.use.role != "poll" and not call.outcome.pending:
            return False
        if known.gap >= 30 or (call.step.seconds or 0) >= 10:
            return True
        return known.gap >= 10 and known.gap >= 1.3 * past.known.gap > 0


def _read(step: Step, policy: ToolPolicy) -> Call:
    """A call before it is weighed."""
    call, near, spelled = step_digests(step, policy.volatile)
    use = read_use(step, policy.role)
    calmed = settle(step)
    outcome = read_outcome(step, use, calmed)
    data = squeeze(calmed)
    state, sure = _state(step, use, outcome)
    return Call(
        step,
        use,
        outcome,
        data,
        call,
        near,
        result_digest(step, data),
        sketch(spelled),
        shape(step) if len(data) <= ANSWER else 0,
        state,
        sure,
    )


def _state(step: Step, use: Use, outcome: Outcome) -> tuple[int, bool]:
    """Digest of the state after a call, and whether it was told: else it is a guess
    from what an edit put in place.
    """
    told = step.state or (state_in(step.result) if use.role == "write" else "")
    if told:
        return short(f"{use.path}\0{told}".encode("utf-8", "surrogatepass")), True
    if use.role != "write" or not use.path or outcome.failed:
        return 0, False
    after = content_after(step)
    if after is None:
        return 0, False
    return short(f"{use.path}\0{clip(after)}".encode("utf-8", "surrogatepass")), False


def _changed(step: Step, use: Use, outcome: Outcome) -> bool | None:
    """Did a call change the outside world, as far as one can tell?"""
    if step.changed_state is not None:
        return step.changed_state
    if use.role == "write":
        return not outcome.failed or outcome.ok is False
    return None if use.role == "other" else False


def _marks(call: Call, changed: bool | None, gain: int) -> int:
    """The bits of a call."""
    use, outcome, step = call.use, call.outcome, call.step
    bits = 0 if thinks(step) and gain > NOTHING else ROLE_MARKS.get(use.role, 0)
    bits |= Mark.CHANGED * (changed is True) | Mark.BLOCKED * step.blocked
    bits |= Mark.GESTURE * use.acts | Mark.DRIFT * _drifts(call, gain)
    bits |= _outcome_marks(outcome)
    if use.role == "other" and use.silent and outcome.failed:
        bits |= Mark.RED
    if use.role in ("write", "check"):
        bits |= Mark.TESTS * is_test(use.path) | Mark.WEAKENS * weakens(step, use)
    return bits


def _drifts(call: Call, gain: int) -> bool:
    """Did a read of a range bring little new?"""
    looked = gain < MUCH and call.use.role == "read" and not call.outcome.failed
    return looked and bool(call.use.path) and line_range(call.step.args) is not None


def _outcome_marks(outcome: Outcome) -> int:
    """The bits of how a call ended."""
    return (
        Mark.FAILED * outcome.failed
        | Mark.FORMAL * outcome.formal
        | Mark.EMPTY * outcome.empty
        | Mark.TRANSIENT * outcome.transient
        | Mark.PENDING * outcome.pending
        | Mark.INVALID * outcome.invalid
        | Mark.PASSED * (outcome.ok is True)
        | Mark.RED * (outcome.ok is False)
    )
