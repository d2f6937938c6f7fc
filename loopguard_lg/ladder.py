"""What is done about a loop: a ladder of rungs, climbed by triggers.

A first trigger reflects, the next one escalates, the last one leaves. Progress takes
a rung down again. State is plain data:

    {"rung": 0.., "key": int, "kind": str, "detail": str, "at": turn of the newest
     intervention, "onset": turn at which the trouble began, "told": keys reflected on,
     "holds": blocked calls, "files": digests of files that are not to be edited,
     "left": turns of escalation, "count": interventions in this
     run, "branches": rungs that were escalated to, "by": rung of the newest
     intervention, "since": turns after it, "tool": whose loop it was about}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding

_TOLD = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Another:
    """Another way to go on: what `Reflect` and `Escalate` can change, in any mix.

    After a `Reflect` it holds for the next turn, after an `Escalate` for its turns.

    Attributes:
        temperature: The model's temperature meanwhile.
        samples: Replies that the model is asked for, of which one is taken; the calls
            of the others are never made, their tokens are paid for.
        verifier: A function of (messages, reply) that returns a number: the reply with
            the highest one is taken. If `None`, the first that repeats nothing.
        reading_only: For so many turns there are only tools that read.
        hide_tool: Leave out the tool of the loop for one turn.
        lift_tool_choice: Lift a tool choice that the app forces.
    """

    temperature: float | None = None
    samples: int = 1
    verifier: Callable[..., Any] | None = None
    reading_only: int = 0
    hide_tool: bool = False
    lift_tool_choice: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        _positive(f"{name}.samples", self.samples)
        _positive(f"{name}.reading_only", self.reading_only, 0)
        for switch in ("hide_tool", "lift_tool_choice"):
            if not isinstance(getattr(self, switch), bool):
                given = f"{name}.{switch}={getattr(self, switch)!r}"
                raise PolicyError(f"{given}: give True or False")
        if not (self.temperature is None or _is_warm(self.temperature)):
            given = f"{name}.temperature={self.temperature!r}"
            raise PolicyError(f"{given}: give a number of at least 0, or None")
        verifier: Any = self.verifier
        if not (verifier is None or callable(verifier)):
            given = f"{name}.verifier={verifier!r}"
            raise PolicyError(f"{given}: give a function of (messages, reply)")

    @property
    def way(self) -> str:
        """Its options in words, for the scratchpad; empty where none is set."""
        named = {
            f"temperature {self.temperature}": self.temperature is not None,
            f"{self.samples} samples": self.samples > 1,
            "reading only": self.reading_only > 0,
            "without its tool": self.hide_tool,
        }
        return ", ".join(text for text, is_set in named.items() if is_set)


_PLAIN: dict[str, Any] = {f.name: f.default for f in fields(Another)}


def _is_warm(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect(Another):
    """Say what was seen and ask for another action, once for each loop.

    Attributes:
        tokens: Most tokens of the message, the scratchpad included.
    """

    tokens: int = 500

    def __post_init__(self) -> None:
        Another.__post_init__(self)
        _positive("Reflect.tokens", self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate(Another):
    """Go back to the last good point and go on from there with a stronger model.

    Attributes:
        model: A chat model or a model string; `None` goes back with the same model.
        turns: Most turns of the stronger model; progress ends it earlier.
        patience: Fresh turns of the loop by which this has failed too. What is gone
            back over is out of view, so that a call of the loop may be due once more.
        files: Put the workspace's files back as well, as they were when a check last
            passed. Needs a guard with a workspace.
        restore: State keys that are put back to what they were at the last good point;
            not the messages. Needs a checkpointer.
    """

    model: Any = None
    turns: int = 5
    patience: int = 2
    files: bool = False
    restore: Sequence[str] = ()

    def __post_init__(self) -> None:
        Another.__post_init__(self)
        object.__setattr__(self, "restore", _keys(self.restore))
        model = self.model
        if not (model is None or isinstance(model, str) or hasattr(model, "invoke")):
            raise PolicyError(
                f"Escalate.model={model!r}: give a chat model, a model string, or None"
            )
        if not isinstance(self.files, bool):
            raise PolicyError(f"Escalate.files={self.files!r}: give True or False")
        _positive("Escalate.turns", self.turns)
        _positive("Escalate.patience", self.patience)


def _keys(given: Any) -> tuple[str, ...]:
    """State keys, as a tuple."""
    found = None if isinstance(given, str) else tuple(given or ())
    if found is None or not all(isinstance(key, str) for key in found):
        raise PolicyError(f"Escalate.restore={given!r}: give a list of state keys")
    own = [k for k in found if k == "messages" or k.startswith("loopguard")]
    if own:
        raise PolicyError(
            f"Escalate.restore={given!r}: {own[0]!r} can't be put back in a run; the "
            "messages are gone back over in the model's view, or by a fork"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """End the run with what there is: partial result, reason, exit report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUser:
    """Ask a person, by an interrupt; `fallback` where nothing can be resumed."""

    fallback: GiveUp = field(default_factory=GiveUp)

    def __post_init__(self) -> None:
        if not isinstance(self.fallback, GiveUp):
            raise PolicyError(f"AskUser.fallback={self.fallback!r}: give a GiveUp()")


Rung: TypeAlias = Reflect | Escalate | AskUser | GiveUp
"""One reaction; the first trigger takes the first one."""


def _positive(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PolicyError(f"{name}={value!r}: give a whole number of at least {least}")


@dataclass(frozen=True, slots=True, init=False)
class Ladder:
    """Rungs in the order in which they are climbed; the last one is an exit.

    Attributes:
        rungs: The rungs.
        most: Interventions in one run after which the next trigger is the exit,
            so that an agent that moves a little after each can't go on for ever.
        block_ignored: Whether the edits of a file that went in circles are blocked
            after a reflection, until a person speaks or the task moves.
    """

    rungs: tuple[Rung, ...]
    most: int
    block_ignored: bool

    def __init__(self, *rungs: Rung, most: int = 8, block_ignored: bool = True) -> None:
        _positive("Ladder.most", most)
        if not isinstance(block_ignored, bool):
            raise PolicyError(
                f"Ladder.block_ignored={block_ignored!r}: give True or False"
            )
        for rung in rungs:
            if not isinstance(rung, Reflect | Escalate | AskUser | GiveUp):
                raise PolicyError(
                    f"Ladder({rung!r}): a rung is a Reflect(...), Escalate(...), "
                    "AskUser() or GiveUp() object"
                )
        ends = [isinstance(rung, AskUser | GiveUp) for rung in rungs]
        if not ends or not ends[-1] or any(ends[:-1]):
            raise PolicyError(
                f"Ladder({', '.join(type(r).__name__ for r in rungs)}): the last rung, "
                "and only that, must be AskUser() or GiveUp()"
            )
        object.__setattr__(self, "rungs", rungs)
        object.__setattr__(self, "most", most)
        object.__setattr__(self, "block_ignored", block_ignored)

    def plain(self) -> Ladder:
        """The ladder without other ways to go on."""
        rungs = [
            replace(r, **_PLAIN) if isinstance(r, Another) else r for r in self.rungs
        ]
        return Ladder(*rungs, most=self.most)

    def at(self, rung: int) -> Rung | None:
        """The rung by number, from 1; `None` at the foot of the ladder.

        Beyond the end it is the exit: a thread may come from a longer ladder.
        """
        return self.rungs[min(rung, len(self.rungs)) - 1] if rung else None


State: TypeAlias = dict[str, Any]


def climb(ladder: Ladder, state: State, finding: Finding, i: int) -> State | None:
    """The state after a trigger at turn `i`; `None` where it is not a new trigger.

    Evidence that an intervention has answered already does not count: it takes
    `finding.again` turns newer than that. A rung reflects on a loop once: where
    progress has led down and the loop is back, that rung is passed over; so is an
    escalation that this run has had, where there is another one above it. An
    escalation starts without held calls, and has its own patience.
    """
    # An intervention of the future is of a history that could not be read.
    if state.get("at", i + 1) <= i and not _is_fresh(ladder, state, finding):
        return None
    up = _next(ladder, state, finding, state.get("count", 0) + 1)
    return _standing_at(up, ladder, state, finding, i)


def handed_up(ladder: Ladder, state: State, finding: Finding, i: int) -> State | None:
    """The state where an agent gives up at turn `i` and a stronger model takes over.

    `None` where this run has had every one that is above, or all its interventions.
    """
    had = {*state.get("branches", ()), *range(1, state.get("rung", 0) + 1)}
    above = (
        up
        for up, on in enumerate(ladder.rungs, 1)
        if up not in had and isinstance(on, Escalate) and on.model is not None
    )
    up = next(above, None)
    if up is None or state.get("count", 0) >= ladder.most:
        return None
    return _standing_at(up, ladder, state, finding, i)


def _standing_at(
    up: int, ladder: Ladder, state: State, finding: Finding, i: int
) -> State:
    """The state after an intervention at turn `i` that leads to the rung `up`."""
    on = ladder.at(up)
    onset = min(finding.onset, state.get("onset", i)) if state.get("rung") else None
    return {
        "rung": up,
        "key": finding.key,
        "kind": finding.kind,
        "detail": finding.detail[:200],
        "at": i,
        "onset": finding.onset if onset is None else onset,
        **_passed_over(on, up, state, finding),
        "holds": [] if isinstance(on, Escalate) else _held(state, finding, "holds"),
        **_blocked_files(ladder, on, state, finding),
        "left": on.turns if isinstance(on, Escalate) else 0,
        "by": up,
        "since": 0,
        "tool": finding.tool[:80],
        "count": state.get("count", 0) + 1,
    }


def _next(ladder: Ladder, state: State, finding: Finding, count: int) -> int:
    """The rung that the trigger number `count` of a run leads to."""
    last = len(ladder.rungs)
    up = last if count > ladder.most else min(state.get("rung", 0) + 1, last)
    told, had = state.get("told", ()), state.get("branches", ())
    while isinstance(ladder.at(up), Reflect) and told.count(finding.key) >= up:
        up += 1
    while up in had and isinstance(ladder.at(up + 1), Escalate):
        up += 1
    return up


def _passed_over(on: Rung | None, up: int, state: State, finding: Finding) -> State:
    """The loops that were reflected on, and the escalations that the run has had."""
    told = [*state.get("told", ()), *[finding.key] * isinstance(on, Reflect)]
    had = {*state.get("branches", ()), *[up] * isinstance(on, Escalate)}
    return {"told": told[-_TOLD:], "branches": sorted(had)}


def switched(ladder: Ladder, state: State, i: int) -> State:
    """The state where a person has the stronger model go on at turn `i`."""
    for up, on in enumerate(ladder.rungs, 1):
        if isinstance(on, Escalate) and on.model is not None:
            fresh = {"at": i, "since": 0, "holds": [], "files": [], "left": on.turns}
            return {**state, **fresh, "rung": up}
    return {}


def _held(state: State, finding: Finding, what: str) -> list[int]:
    """The calls or files that are held, those of the finding last."""
    fresh = getattr(finding, what)
    older = [old for old in state.get(what, ()) if old not in fresh]
    return [*older, *fresh][-_TOLD:]


def _blocked_files(
    ladder: Ladder, on: Rung | None, state: State, finding: Finding
) -> State:
    """The files that are not to be edited; an escalation starts without."""
    files = _held(state, finding, "files")
    blocks = ladder.block_ignored and not isinstance(on, Escalate)
    return {"files": files} if files and blocks else {}


def _is_fresh(ladder: Ladder, state: State, finding: Finding) -> bool:
    """Is there evidence enough that is newer than the newest intervention?"""
    on = ladder.at(state.get("rung", 0))
    needed = max(finding.again, on.patience if isinstance(on, Escalate) else 1)
    fresh = [step for step in finding.steps if step > state["at"]]
    return len(fresh) >= needed


def settle(state: State, *, progress: bool, acted: bool) -> State:
    """The state after a turn without a trigger.

    Args:
        state: The state before.
        progress: The turn moved the task: one rung down, escalation ends.
        acted: The turn changed the world by a call that is not held: what was tried
            in vain before may work now, so held calls are let go.
    """
    since = state.get("since", 0) + 1
    if not state.get("rung"):
        return {**state, "since": since} if state else state
    out = {**state, "left": max(0, state.get("left", 0) - 1), "since": since}
    if acted:
        out["holds"] = []
    if progress:
        out["rung"] = state["rung"] - 1
        out["left"] = 0
        if not out["rung"]:
            out["holds"] = []
            out.pop("files", None)
    return out
