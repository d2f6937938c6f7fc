"""Reads the calls of a turn: what each was for, how it ended, what it added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

from loopguard_lg.commands import Use
from loopguard_lg.digests import (
    likeness,
    result_digest,
    settle,
    short,
    sketch,
    step_digests,
    units,
)
from loopguard_lg.progress import (
    LITTLE,
    MUCH,
    NOTHING,
    Outcome,
    read_outcome,
    state_in,
    todos_done,
)
from loopguard_lg.roles import read_use
from loopguard_lg.steps import Step, Turn, clip
from loopguard_lg.testfiles import content_after, is_test, weakens
from loopguard_lg.tools import ToolPolicy
from loopguard_lg.window import COMPACTION, HUMAN, ROLE_MARKS, Known, Mark, Seen, key_of

if TYPE_CHECKING:
    from loopguard_lg.history import History

SLOTS = 400
"""Lines that are remembered; the newest take the place of others."""


_NO_POLICY = ToolPolicy()


class Reader:
    """Reads one turn against the past, and collects what is known after it."""

    def __init__(self, past: History, turn: Turn, known: Known) -> None:
        self.past = past
        self.turn = turn
        self.known = known
        self.seen = past.seen.copy() or [0] * SLOTS
        self.done = known.done
        self.checks = list(known.checks)

    def read(self, tools: Mapping[str, ToolPolicy]) -> tuple[Seen, ...]:
        """The distinct calls of the turn, in order."""
        found: dict[tuple[int, int], Seen] = {}
        for step in self.turn.steps:
            seen = self.call(step, tools.get(step.tool, _NO_POLICY))
            found.setdefault((seen.call, seen.result), seen)
        return tuple(found.values())

    def talk(self, text: str) -> int:
        """What a reply without calls says that was not said before; never more than a
        little, for words alone move nothing.
        """
        parts = units(clip(text).lower().encode("utf-8", "surrogatepass"))
        return min(LITTLE, max(NOTHING, self.novelty(parts, 0.25) - 1 if parts else 1))

    def call(self, step: Step, policy: ToolPolicy) -> Seen:
        """One call."""
        call, near, spelled = step_digests(step, policy.volatile)
        use = read_use(step, policy.role)
        data = settle(step)
        outcome = read_outcome(step, use, data)
        result = result_digest(step, data)
        words = sketch(spelled)
        state, sure = self.state(step, use, outcome)
        drift = self.covers(step, use) if use.path and use.role == "read" else MUCH
        gain = self.weigh(step, use, outcome, data, (call, result, words, state, sure))
        gain = min(gain, drift)
        changed = _changed(step, use, outcome)
        return Seen(
            step.tool,
            use.role,
            call,
            near,
            result,
            outcome.error,
            outcome.kin,
            use.path,
            state,
            words,
            NOTHING if step.blocked else gain,
            self.marks(step, use, outcome, changed, drift),
            changed,
            outcome.ok,
            step.blocked,
            policy.off,
        )

    def state(self, step: Step, use: Use, outcome: Outcome) -> tuple[int, bool]:
        """Digest of the state after a call, and whether it is more than a guess from
        what an edit put in place.
        """
        if use.role not in ("write", "other") and step.state is None:
            return 0, False
        told = step.state or state_in(step.result)
        if told:
            return key_of(f"{use.path}\0{told}"), True
        after = content_after(step) if use.path and not outcome.failed else None
        if after is None:
            return 0, False
        return short(
            f"{use.path}\0{clip(after)}".encode("utf-8", "surrogatepass")
        ), False

    def covers(self, step: Step, use: Use) -> int:
        """What a read of a range adds to the ranges read before; `MUCH` without one, or
        where the tool cut its answer short.
        """
        lines = line_range(step.args)
        if lines is None or "truncat" in clip(step.result):
            return MUCH
        first, last = lines
        stride = max(10, (last - first) // 24)
        parts = {
            crc32(f"{use.path}:{stride > 10}:{at}".encode("utf-8", "surrogatepass"))
            for at in range(first // stride, last // stride + 1)
        }
        return self.novelty(list(parts)[:40], 0.5)

    def novelty(self, parts: list[int], share: float) -> int:
        """What lines add to those seen; they count as seen from now on."""
        seen = self.seen
        new = 0
        for part in parts:
            slot, tag = part % SLOTS, part // SLOTS & 0xFFFF
            if seen[slot] != tag:
                seen[slot] = tag
                new += 1
        if not parts:
            return LITTLE
        return MUCH if new >= share * len(parts) else LITTLE if new else NOTHING

    def weigh(
        self,
        step: Step,
        use: Use,
        outcome: Outcome,
        data: bytes,
        digests: tuple[int, int, int, int, bool],
    ) -> int:
        """What a call added."""
        call, result, words, state, sure = digests
        fresh = self.novelty(units(data), 0.25)
        rows = self.past.rows
        if outcome.failed and outcome.ok is None:
            return NOTHING if outcome.error in rows.error else LITTLE
        if use.role == "plan":
            return self.plan(step)
        if outcome.ok is not None:
            return self.check(call, result, outcome)
        if call in rows.call and self.repeats(call, result):
            return LITTLE if self.forgotten(call) else NOTHING
        if use.role == "write" and (outcome.formal or not outcome.empty):
            return self.written(use, outcome, fresh, (state, sure))
        if outcome.empty:
            return LITTLE if outcome.formal else self.nothing_found(words)
        if outcome.formal or use.role == "wait":
            return LITTLE
        curt = len(data) < 40 and use.role not in ("read", "poll")
        return max(fresh, LITTLE) if curt else fresh

    def repeats(self, call: int, result: int) -> bool:
        """Did the same call bring the same result within the window?"""
        rows = self.past.rows
        return any(
            c == call and r == result
            for c, r in zip(rows.call, rows.result, strict=True)
        )

    def forgotten(self, call: int) -> bool:
        """Was the call last made before a compaction or another word of a person's?
        Once more is free then.
        """
        rows = self.past.rows
        last = max(i for i, c in zip(rows.i, rows.call, strict=True) if c == call)
        return last < max(self.past.last(COMPACTION), self.past.last(HUMAN))

    def plan(self, step: Step) -> int:
        """Plans are progress when an item more is ticked off."""
        done = todos_done(step.args)
        if done > self.done:
            self.done = done
            return MUCH
        return LITTLE

    def check(self, call: int, result: int, outcome: Outcome) -> int:
        """Checks are progress when fewer tests fail than ever; other failures with a
        known result teach nothing.
        """
        known = self.checks
        key = call & 0xFFFFFFFF
        best = -1
        for at in range(0, len(known), 2):
            if known[at] == key:
                best = known[at + 1]
                del known[at : at + 2]
                break
        count = (
            0 if outcome.ok else outcome.failures if outcome.failures >= 0 else 9_999
        )
        known += [key, count if best < 0 else min(best, count)]
        del known[:-8]
        if count < best or best < 0 and outcome.ok:
            return MUCH
        return NOTHING if result in self.past.rows.result else LITTLE

    def written(
        self, use: Use, outcome: Outcome, fresh: int, state: tuple[int, bool]
    ) -> int:
        """Writes are progress with a new artefact, a state never seen, or news."""
        digest, sure = state
        if digest and digest in self.past.rows.state:
            return NOTHING
        if digest and sure:
            return MUCH
        if use.path and self.novelty([key_of(f"artefact\0{use.path}")], 1.0) == MUCH:
            return MUCH
        return LITTLE if outcome.formal else max(LITTLE, fresh)

    def nothing_found(self, words: int) -> int:
        """Finding nothing is a little news; again for a like call it is none."""
        rows = self.past.rows
        like = any(
            marks & Mark.EMPTY and likeness(words, other) >= 0.5
            for marks, other in zip(rows.marks, rows.words, strict=True)
        )
        return NOTHING if like else LITTLE

    def marks(
        self, step: Step, use: Use, outcome: Outcome, changed: bool | None, drift: int
    ) -> int:
        """The bits of a call."""
        bits = ROLE_MARKS.get(use.role, 0)
        bits |= Mark.FAILED * outcome.failed | Mark.CHANGED * (changed is True)
        bits |= Mark.BLOCKED * step.blocked | Mark.FORMAL * outcome.formal
        bits |= Mark.EMPTY * outcome.empty | Mark.TRANSIENT * outcome.transient
        bits |= Mark.PENDING * outcome.pending | Mark.INVALID * outcome.invalid
        ran = use.role == "other" and use.silent
        bits |= Mark.PASSED * (outcome.ok is True)
        bits |= Mark.RED * (outcome.ok is False or ran and outcome.failed)
        bits |= Mark.DRIFT * (drift < MUCH) | Mark.GESTURE * use.acts
        bits |= Mark.WAITED * (use.waits or self.waited(step))
        if use.role in ("write", "check"):
            bits |= Mark.TESTS * is_test(use.path) | Mark.WEAKENS * weakens(step, use)
        return bits

    def waited(self, step: Step) -> bool:
        """Did time pass before or during a call that a poll may be forgiven for?"""
        known, past = self.known, self.past.known
        growing = known.gap >= 10 and known.gap >= 1.3 * past.gap > 0
        marks = self.past.rows.marks
        rested = bool(marks) and bool(marks[-1] & Mark.WAIT)
        return rested or known.gap >= 30 or growing or (step.seconds or 0) >= 10


def _changed(step: Step, use: Use, outcome: Outcome) -> bool | None:
    """Did a call change the outside world, as far as one can tell?"""
    if step.changed_state is not None:
        return step.changed_state
    if use.role == "write":
        return not outcome.failed or outcome.ok is False
    return None if use.role == "other" else False


_FIRST = ("start_line", "startline", "line_start", "start", "offset", "from_line")
_LAST = ("end_line", "endline", "line_end", "end", "to_line")
_LENGTH = ("limit", "length", "num_lines", "count", "lines")


def line_range(args: Mapping[str, Any]) -> tuple[int, int] | None:
    """The first and the last line that a read asks for, if it asks for a range."""
    first = _whole(args, _FIRST)
    if first is None:
        return None
    last = _whole(args, _LAST)
    length = _whole(args, _LENGTH)
    if last is None:
        last = first + (200 if length is None else length) - 1
    return first, max(first, min(last, first + 100_000))


def _whole(args: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first whole number among arguments of these names."""
    for name in names:
        value = args.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(0, min(value, 10**9))
    return None
