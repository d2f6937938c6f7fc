"""Triggers that are no detector's: a held call once more, an agent that gives up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopguard_lg.findings import GAVE_UP, Finding
from loopguard_lg.history import History, Seen
from loopguard_lg.scratchpad import quote
from loopguard_lg.steps import Step, Turn

State = Mapping[str, Any]
"""A ladder's state, as `ladder` says."""


def held_again(state: State, history: History) -> Finding | None:
    """The trigger where a held call was asked for again; a call that a budget refused
    is none.
    """
    if not state.get("rung"):
        return None
    held, files = state.get("holds", ()), state.get("files", ())
    tools = [
        seen.tool
        for seen in history.now
        if seen.blocked and (seen.call in held or _edits(seen, files))
    ]
    return standing(state, history.i, tools[0]) if tools else None


def _edits(seen: Seen, files: Sequence[int]) -> bool:
    return seen.role == "write" and seen.place in files


def standing(state: State, i: int, tool: str = "") -> Finding:
    """The finding that the ladder stands for, as it is at turn `i`."""
    return Finding(
        kind=state["kind"],
        steps=(state["at"], i),
        count=1,
        threshold=1,
        detail=state["detail"],
        key=state["key"],
        tool=tool,
    )


def gave_up(turn: Turn, i: int) -> Finding | None:
    """The trigger where the agent said that it can't go on, with its reason."""
    call = next(filter(leaves, turn.steps), None)
    if call is None:
        return None
    reason = quote(str(call.args.get("reason", "")), 120)
    said = f"the agent gave up: {reason}" if reason else "the agent gave up"
    return Finding(kind=GAVE_UP, steps=(i,), count=1, threshold=1, detail=said)


def leaves(step: Step) -> bool:
    """Is it a call of the guard's own `give_up`, which says its role, that worked?"""
    own = step.tool == "give_up" and step.role == "exit"
    return own and not (step.error or step.blocked)
