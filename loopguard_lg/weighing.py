"""What a call added to what was known: nothing, a little, or news.

This decides between work and a loop. New are lines never seen, a state never seen, a
new file, fewer failing tests than ever, one more item of the plan ticked off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from loopguard_lg.commands import Use
from loopguard_lg.digests import squeeze
from loopguard_lg.editlog import Edit, edits_of
from loopguard_lg.patches import patch_in
from loopguard_lg.progress import LITTLE, MUCH, NOTHING, Outcome, todos_done
from loopguard_lg.sketches import likeness, units
from loopguard_lg.spots import edited, place_in, reported
from loopguard_lg.steps import Step, clip
from loopguard_lg.suites import Suites
from loopguard_lg.window import COMPACTION, HUMAN, Mark, key_of

if TYPE_CHECKING:
    from loopguard_lg.history import History

SLOTS = 480
"""Lines that are remembered, in pairs: a new one takes the older one's place."""

_PAIRS = SLOTS // 2

ANSWER = 40
"""Bytes of a result up to which it is an answer rather than content."""


@dataclass(slots=True)
class Call:
    """A call as far as it is read before it is weighed; see `Seen` for most of it.

    Attributes:
        step: The call itself.
        use: What it is for.
        outcome: How it ended.
        data: Its calm result, without blanks.
        call: Its identity.
        near: The same, less strictly.
        result: Digest of its result.
        words: Sketch of its words.
        shape: Digest of the call without the values that it asks for; 0 where the
            result is more than a short answer.
        state: Digest of the state that it left.
        sure: The state was told, not guessed from what an edit put in place.
        again: Nearly the same call was made before, within the window.
    """

    step: Step
    use: Use
    outcome: Outcome
    data: bytes
    call: int
    near: int
    result: int
    words: int
    shape: int
    state: int
    sure: bool
    again: bool


_REPORT = 80
"""Bytes from which on words that go with a hand-over are a report."""


class Scale:
    """Weighs the calls of one turn against the past.

    Attributes:
        seen: The lines seen, those of this turn included.
        done: Items of the plan ticked off.
        checks: The fewest failures of each check.
        edits: What its calls did to files.
        spots: Where failures were reported.
        suites: What tests hold.
    """

    def __init__(self, past: History) -> None:
        self.past = past
        self.seen = past.seen.copy() or [0] * SLOTS
        self.done = past.known.done
        self.checks = past.known.checks.copy()
        self.edits: list[Edit] = []
        self.spots = past.known.spots
        self.suites = Suites(past.known.suites, past.known.ran)

    def talk(self, text: str) -> int:
        """What a reply without calls says that was not said before; never more than a
        little, for words alone move nothing.
        """
        said = clip(text).lower().encode("utf-8", "surrogatepass")
        parts = units(squeeze(said))
        if not parts:
            return LITTLE
        return LITTLE if self.novelty(parts, 0.25) == MUCH else NOTHING

    def report(self, text: str) -> int:
        """What is handed over with a text: a report that says much that is new is news
        for whoever gets it, a line of talk is not.
        """
        said = clip(text).lower().encode("utf-8", "surrogatepass")
        if len(said) < _REPORT:
            return NOTHING
        return self.novelty(units(squeeze(said)), 0.25)

    def call(self, call: Call) -> int:
        """What a call added."""
        fresh = self._fresh(call)
        if call.step.blocked:
            return NOTHING
        if call.outcome.ok is not None:
            return self._check(call)
        if call.outcome.failed:
            return NOTHING if call.outcome.error in self.past.rows.error else LITTLE
        if call.use.role == "plan":
            return self._plan(call.step)
        if call.again and self._repeats(call):
            return LITTLE if self._forgotten(call.call) else NOTHING
        return self._worked(call, fresh)

    def moved(self, call: Call) -> bool:
        """Does a check that failed report another place than it did before?"""
        place = place_in(call.step.result)
        if place is None:
            return False
        self.spots, moved = reported(self.spots, *place)
        return moved

    def wrote(self, step: Step, path: str, *, timed: bool) -> None:
        """Note what a write did to files."""
        if self.spots:
            for part in patch_in(step.args):
                texts = {"old": part.old, "new": part.new}
                self.spots = edited(self.spots, part.path, texts)
            if not patch_in(step.args):
                self.spots = edited(self.spots, path, step.args)
        if timed:
            self.edits += edits_of(step, path)

    def _worked(self, call: Call, fresh: int) -> int:
        """What a call that went well and is no repetition added."""
        if call.outcome.formal and call.use.role != "write":
            return LITTLE
        if call.use.role == "write" and (call.outcome.formal or not call.outcome.empty):
            return self._written(call, fresh)
        return self._looked(call, fresh)

    def _fresh(self, call: Call) -> int:
        """What the lines of a result add; a little where all that is new in them is the
        argument that they repeat.
        """
        fresh = self.novelty(units(call.data), 0.25)
        if fresh == MUCH and len(call.data) <= _ECHOES:
            rest = _without_echo(call)
            if rest != call.data and self.novelty(units(rest), 0.25) == NOTHING:
                return LITTLE
        return fresh

    def novelty(self, parts: list[int], share: float) -> int:
        """What lines add to those seen; they count as seen from now on.

        Args:
            parts: Digests of lines.
            share: From which share of new ones on it is news.
        """
        seen = self.seen
        new = 0
        for part in parts:
            slot = part % _PAIRS * 2
            tag = part // _PAIRS & 0xFFFF
            newest = seen[slot]
            if newest != tag:
                if seen[slot + 1] != tag:
                    new += 1
                seen[slot + 1] = newest
                seen[slot] = tag
        if not parts:
            return LITTLE
        return MUCH if new >= share * len(parts) else LITTLE if new else NOTHING

    def _repeats(self, call: Call) -> bool:
        """Did the same call bring the same result within the window?"""
        rows = self.past.rows
        return any(
            c == call.call and r == call.result
            for c, r in zip(rows.call, rows.result, strict=True)
        )

    def _forgotten(self, call: int) -> bool:
        """Was the call last made before a compaction or another word of a person's?
        Once more is free then.
        """
        rows = self.past.rows
        last = max(i for i, c in zip(rows.i, rows.call, strict=True) if c == call)
        return last < max(self.past.last(COMPACTION), self.past.last(HUMAN))

    def _plan(self, step: Step) -> int:
        """Plans are progress when an item more is ticked off; thoughts that say what
        was thought before are nothing.
        """
        done = todos_done(step.args)
        if done > self.done:
            self.done = done
            return MUCH
        if done < 0:
            return self.talk(" ".join(v for v in step.args.values() if type(v) is str))
        return LITTLE

    def _check(self, call: Call) -> int:
        """Checks are progress when fewer tests fail than ever; other failures with a
        known result teach nothing.
        """
        key = call.call & 0xFFFFFFFF
        best = self._best(key)
        count = 0 if call.outcome.ok else call.outcome.failures
        count = 9_999 if count < 0 else count
        self.checks += [key, count if best < 0 else min(best, count)]
        del self.checks[:-8]
        if count < best or best < 0 and call.outcome.ok:
            return MUCH
        return NOTHING if call.result in self.past.rows.result else LITTLE

    def _best(self, key: int) -> int:
        """The fewest failures of a check, taken out of the list; -1 if unknown."""
        for at in range(0, len(self.checks), 2):
            if self.checks[at] == key:
                best = self.checks[at + 1]
                del self.checks[at : at + 2]
                return best
        return -1

    def _written(self, call: Call, fresh: int) -> int:
        """Writes are progress with a new artefact, a state never seen, or news; a
        gesture that shows a known page is nothing.
        """
        if call.state and call.state in self.past.rows.state:
            return NOTHING
        if call.sure or self._makes(call.use.path):
            return MUCH
        if call.outcome.formal:
            return LITTLE
        same = call.use.acts and fresh == NOTHING and len(call.data) > ANSWER
        return NOTHING if same else max(LITTLE, fresh)

    def _makes(self, path: str) -> bool:
        """Is this the first write to a path?"""
        if not path:
            return False
        return self.novelty([key_of(f"artefact\0{path}")], 1.0) == MUCH

    def _looked(self, call: Call, fresh: int) -> int:
        """Other calls are progress by the lines of their results.

        Formalities, another answer to the same call, and short answers to a question
        that is asked of one item after the other are a little at least.
        """
        if call.use.role == "wait":
            return LITTLE
        covered = self._covered(call)
        if covered < MUCH:
            return min(fresh, covered)
        another = self._another(call)
        if call.outcome.empty:
            return LITTLE if another else self._nothing_found(call.words)
        if another:
            return max(fresh, LITTLE)
        if len(call.data) <= ANSWER and call.use.role not in ("read", "poll"):
            return max(fresh, LITTLE)
        return fresh

    def _another(self, call: Call) -> bool:
        """Was the call itself made before, or was the same asked of other items, and of
        this one for the first time?
        """
        rows = self.past.rows
        if call.again:
            return call.call in rows.call
        return bool(call.shape) and call.shape in rows.shape

    def _nothing_found(self, words: int) -> int:
        """Finding nothing is a little news; again for a like call it is none."""
        rows = self.past.rows
        like = any(
            marks & Mark.EMPTY and likeness(words, other) >= 0.5
            for marks, other in zip(rows.marks, rows.words, strict=True)
        )
        return NOTHING if like else LITTLE

    def _covered(self, call: Call) -> int:
        """What a read of a range adds to those read since the file was last changed;
        `MUCH` without a range, and where the tool cut its answer short.
        """
        path, rows = call.use.path, self.past.rows
        lines = line_range(call.step.args) if path and call.use.role == "read" else None
        if lines is None or "truncat" in clip(call.step.result):
            return MUCH
        place = key_of(path)
        changes = (
            i
            for i, p, m in zip(rows.i, rows.path, rows.marks, strict=True)
            if p == place and m & Mark.CHANGED
        )
        since = max(changes, default=-1)
        parts = [crc32(b"%d:%d:%d" % (place, since, at)) for at in lines]
        return self.novelty(sorted(parts)[:_RANGES], 0.5)


def _without_echo(call: Call) -> bytes:
    """A result without the arguments that it repeats, unless it is made of them."""
    data = call.data
    for value in call.step.args.values():
        if isinstance(value, str) and 3 <= len(value) <= 200:
            asked = squeeze(value.encode("utf-8", "surrogatepass"))
            data = data.replace(asked, b"\n") if asked else data
    return data if len(data) * 2 > len(call.data) else call.data


_ECHOES = 400
"""Bytes of a result up to which arguments are looked for in it."""
_RANGES = 40
"""Pieces of a range that are remembered."""
_PIECE = 10
"""Lines of one piece."""
_FIRST = ("start_line", "startline", "line_start", "start", "offset", "from_line")
_LAST = ("end_line", "endline", "line_end", "end", "to_line")
_LENGTH = ("limit", "length", "num_lines", "count", "lines")


def line_range(args: Mapping[str, Any]) -> range | None:
    """The pieces of a file that a read asks for, if it asks for a range of at most
    2,000 lines.
    """
    first = _whole(args, _FIRST)
    if first is None:
        return None
    last = _whole(args, _LAST)
    if last is None:
        last = first + (_whole(args, _LENGTH) or 200) - 1
    if last - first > 2_000:
        return None
    return range(first // _PIECE, max(first, last) // _PIECE + 1)


def _whole(args: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first whole number among arguments of these names."""
    for name in names:
        value = args.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(0, min(value, 10**9))
    return None
