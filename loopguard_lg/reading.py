"""Reads the calls of a turn: what each was for, how it ended, what it added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING

from loopguard_lg.commands import Use
from loopguard_lg.digests import (
    result_digest,
    settle_both,
    shape,
    short,
    step_digests,
)
from loopguard_lg.progress import MUCH, NOTHING, PLAIN, Outcome, read_outcome, state_in
from loopguard_lg.roles import read_use, thinks
from loopguard_lg.sketches import sketch
from loopguard_lg.steps import Step, Turn, clip
from loopguard_lg.testfiles import content_after, of_tests, weakens
from loopguard_lg.tools import ToolPolicy
from loopguard_lg.weighing import ANSWER, Call, Scale, line_range
from loopguard_lg.window import ROLE_MARKS, Mark, Seen, key_of

if TYPE_CHECKING:
    from loopguard_lg.history import History

_NO_POLICY = ToolPolicy()


def read_turn(
    past: History,
    turn: Turn,
    gap: float,
    scale: Scale,
    tools: Mapping[str, ToolPolicy],
    tests: Sequence[str],
) -> tuple[Seen, ...]:
    """The distinct calls of a turn, in order.

    Args:
        past: The history before the turn.
        turn: The turn.
        gap: Seconds between it and the turn before, where known.
        scale: What its calls are weighed on.
        tools: What the policy says of tools.
        tests: Globs of files that hold tests, beside those known by convention.
    """
    found: dict[tuple[int, int], Seen] = {}
    for step in turn.steps:
        policy = tools.get(step.tool, _NO_POLICY)
        call = _read(step, policy, past.rows.near)
        gain = scale.call(call)
        waited = Mark.WAITED if _waited(call, policy, gap, past) else 0
        if call.outcome.ok is False and scale.moved(call):
            waited |= Mark.MOVED
        if scale.suites.weaker(step, call.use, call.outcome, call.call, tests):
            waited |= _weakened(call, past)
        seen = _weighed(call, gain, waited, policy, tests)
        if seen.changed and seen.path and seen.role == "write":
            scale.wrote(step, seen.path, timed=turn.t is not None)
        found.setdefault((seen.call, seen.result), seen)
    return tuple(found.values())


def _weakened(call: Call, past: History) -> int:
    """The bits of a call that leaves fewer tests; of a check only where tests were
    edited since one failed: else it is another choice of them.
    """
    if call.outcome.ok is None:
        return Mark.WEAKENS
    for marks in reversed(past.rows.marks):
        if marks & Mark.RED:
            break
        if marks & _TESTS_EDITED == _TESTS_EDITED:
            return Mark.WEAKENS | Mark.TESTS
    return 0


_TESTS_EDITED = Mark.TESTS | Mark.WRITE | Mark.CHANGED


def _weighed(
    call: Call, gain: int, waited: int, policy: ToolPolicy, tests: Sequence[str]
) -> Seen:
    """A call as the detectors see it."""
    step, use, outcome = call.step, call.use, call.outcome
    changed = _changed(step, use, outcome)
    return Seen(
        call.call,
        call.near,
        call.result,
        outcome.error,
        outcome.kin,
        key_of(use.path),
        call.state,
        call.words,
        call.shape,
        key_of(step.tool),
        gain,
        _marks(call, changed, gain, tests) | waited,
        step.tool,
        use.role,
        use.path,
        changed,
        outcome.ok,
        step.blocked,
        policy.off,
    )


def _waited(call: Call, policy: ToolPolicy, gap: float, past: History) -> bool:
    """Did time pass before or during a call, for which a poll may be forgiven?

    Of calls that look like no poll only waits tell; that a model was slow does not.
    """
    if call.use.waits or past.rows.newest("marks") & Mark.WAIT:
        return True
    polls = call.use.role == "poll"
    if not polls and not call.outcome.pending:
        return False
    if polls and policy.slow and policy.wait is not None:  # paced by the guard
        return True
    return (call.step.seconds or 0) >= 10 or _paused(gap, past.known.gap)


def _paused(gap: float, before: float) -> bool:
    """Did a turn come late, or markedly later than the one before?"""
    return gap >= 30 or gap >= 10 and gap >= 1.3 * before > 0


def _read(step: Step, policy: ToolPolicy, made: list[int]) -> Call:
    """A call before it is weighed; `made`: the `near_digest` of those before it."""
    call, near, spelled = step_digests(step, policy.volatile)
    use = read_use(step, policy.role)
    calmed, data = settle_both(step)
    outcome = read_outcome(step, use, calmed)
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
        near in made,
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


def _marks(call: Call, changed: bool | None, gain: int, tests: Sequence[str]) -> int:
    """The bits of a call."""
    use, outcome, step = call.use, call.outcome, call.step
    bits = 0 if outcome is PLAIN else _ending(outcome)
    if gain == NOTHING or not thinks(step):
        bits |= ROLE_MARKS.get(use.role, 0)
    if changed:
        bits |= Mark.CHANGED
    bits |= Mark.AGAIN * call.again
    bits |= Mark.BLOCKED * step.blocked | Mark.GESTURE * use.acts
    if use.role == "read":
        return bits if gain == MUCH else bits | Mark.DRIFT * _drifts(call)
    if use.role == "other":
        return bits | Mark.RED * (use.silent and outcome.failed)
    return bits | _test_marks(step, use, tests)


def _ending(outcome: Outcome) -> int:
    """The bits of how a call ended."""
    bits = sum(compress(_BITS, _ENDINGS(outcome)))
    if outcome.ok is None:
        return bits
    return bits | (Mark.PASSED if outcome.ok else Mark.RED)


_NAMES = ("failed", "empty", "formal", "pending", "transient", "invalid")
_ENDINGS = attrgetter(*_NAMES)
_BITS: list[int] = [getattr(Mark, name.upper()) for name in _NAMES]


def _drifts(call: Call) -> bool:
    """Did a read that brought little new ask for a range?"""
    if call.outcome.failed or not call.use.path:
        return False
    return line_range(call.step.args) is not None


def _test_marks(step: Step, use: Use, tests: Sequence[str]) -> int:
    """The bits of a call that edits or runs tests."""
    if use.role not in ("write", "check"):
        return 0
    test = of_tests(step, use, tests)
    return Mark.TESTS * test | Mark.WEAKENS * weakens(step, use, tests)
