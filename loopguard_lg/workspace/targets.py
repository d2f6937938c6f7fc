"""When files are worth coming back to: a pure fold over what happened.

Files are good when a check has passed on them and no test was tampered with. State is
plain data:

    {"good": id of the newest good snapshot, "tampered": whether tests were tampered
     with since a person spoke, "edits": digests of the edits since that snapshot}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from zlib import crc32

from loopguard_lg.progress import read_check
from loopguard_lg.roles import read_use
from loopguard_lg.scratchpad import Pad, describe
from loopguard_lg.steps import Event, Human, Step, Turn
from loopguard_lg.tools import ToolPolicy

State: TypeAlias = dict[str, Any]

_NO_POLICY = ToolPolicy()
_EDITS = 24
"""Edits that are remembered; the scratchpad has room for fewer writes."""


def after(
    state: Mapping[str, Any],
    event: Event | None,
    kinds: Iterable[str],
    tools: Mapping[str, ToolPolicy],
) -> tuple[State, bool]:
    """The state after an event, and whether the files are good now.

    Args:
        state: As it was.
        event: What happened.
        kinds: Of what detectors found in it, shadowed ones included.
        tools: What the policy says of tools.
    """
    tampered = state.get("tampered", False) or "tampering" in kinds
    if isinstance(event, Human):
        return {**state, "tampered": False}, False
    if not isinstance(event, Turn):
        return {**state, "tampered": tampered}, False
    edits = [*state.get("edits", ()), *_edits(event, tools)][-_EDITS:]
    good = is_passing(event, tools) and not tampered
    return {**state, "tampered": tampered, "edits": edits}, good


def _edits(turn: Turn, tools: Mapping[str, ToolPolicy]) -> list[int]:
    """Digests of the edits of a turn, as the scratchpad spells them."""
    return [
        _digest(describe(step.tool, step.args))
        for step in turn.steps
        if names_file(step, tools)[0] and not step.blocked
    ]


def _digest(call: str) -> int:
    return crc32(call.encode("utf-8", "replace"))


def undone(state: Mapping[str, Any], pad: Pad, text: str) -> tuple[Pad, str]:
    """The scratchpad, and a note made of it, without edits that were put back.

    Other writes than to files stay: they are not undone.
    """
    made = set(state.get("edits", ()))
    for call, receipt in pad.get("writes", ()):
        if _digest(call) in made:
            line = f"- done, not undone: {call} -> {receipt}\n"
            text = text.replace(line, "", 1)
    kept = [entry for entry in pad.get("writes", ()) if _digest(entry[0]) not in made]
    return {**pad, "writes": kept}, text


def asks_back(event: Event | None) -> bool:
    """Whether a person has chosen to go back, when the run asked how to go on."""
    if not isinstance(event, Human) or not event.answer:
        return False
    return event.text.partition(":")[0].strip().lower() == "rollback"


def is_passing(turn: Turn, tools: Mapping[str, ToolPolicy]) -> bool:
    """Whether a check has passed in a turn, on the files as they are after it.

    A check that feeds a pipe has not, nor one beside which another call of the same
    turn failed a check or wrote: nobody knows which came first.
    """
    verdicts = [_verdict(step, tools) for step in turn.steps]
    return "pass" in verdicts and not {"fail", "write"} & {*verdicts}


def _verdict(step: Step, tools: Mapping[str, ToolPolicy]) -> str:
    use = read_use(step, tools.get(step.tool, _NO_POLICY).role)
    if step.blocked or step.cached or step.changed_state is False:
        return ""
    passed, _ = read_check(step, use, step.result.encode("utf-8", "replace"))
    if passed is not None:
        return "pass" if passed else "fail"
    return "write" if use.role == "write" else ""


def names_file(step: Step, tools: Mapping[str, ToolPolicy]) -> tuple[str, bool]:
    """The file that a call writes, if it names one, and whether it may write any."""
    use = read_use(step, tools.get(step.tool, _NO_POLICY).role)
    changes = use.role in ("write", "check", "other")
    return use.path if use.role == "write" else "", changes
