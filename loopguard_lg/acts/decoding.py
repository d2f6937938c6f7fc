"""Another way to go on: which of a rung's options hold for the turn that comes.

A reply that is drawn again from the same context at the same temperature is the same
reply. So a rung may warm the model up, ask it for several replies, take tools away or
lift a forced choice (`ladder.Another`); here is what that means for one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loopguard_lg import scratchpad
from loopguard_lg.digests import call_digest
from loopguard_lg.ladder import Another, Escalate, Ladder, State
from loopguard_lg.roles import may_write, name_role
from loopguard_lg.steps import Role
from loopguard_lg.tools import ToolPolicy

_LOOKS = frozenset(("read", "poll", "wait", "plan", "exit"))
_DEFAULT = ToolPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How the next reply is to be made.

    Attributes:
        temperature: The model's temperature; `None` for what it has.
        samples: Replies to ask for.
        verifier: Says how good one is; `None` for `fresh`.
        reads: There are only tools that read.
        hidden: A tool that is left out; empty for none.
        lifts: A tool choice that the app forces may be lifted.
    """

    temperature: float | None = None
    samples: int = 1
    verifier: Callable[..., Any] | None = None
    reads: bool = False
    hidden: str = ""
    lifts: bool = True

    @property
    def bars(self) -> bool:
        """Whether any tool may be left out."""
        return self.reads or bool(self.hidden)


PLAIN = Decoding()
"""Nothing is changed."""


def due(ladder: Ladder, state: State) -> Decoding:
    """What holds for the next turn.

    Args:
        ladder: The rungs with their options.
        state: Where the ladder stands.
    """
    by = state.get("by", 0)
    on = ladder.at(by)
    if not isinstance(on, Another):
        return PLAIN
    since = state.get("since", 0)
    way = Decoding(
        verifier=on.verifier,
        reads=since < on.reading_only,
        hidden=state.get("tool", "") if on.hide_tool and since == 0 else "",
    )
    holds = since == 0
    if isinstance(on, Escalate):
        holds = state.get("rung") == by and state.get("left", 0) > 0
    if not holds:
        return way
    return replace(
        way,
        temperature=on.temperature,
        samples=on.samples,
        lifts=on.lift_tool_choice,
    )


def role(name: str, settings: ToolPolicy | None, said: Role | None) -> Role:
    """What a tool is for, as far as is known before it is called.

    Args:
        name: Its name.
        settings: What the policy says of it.
        said: What it says of itself.
    """
    policy = settings or _DEFAULT
    declared = policy.role or said or ("read" if policy.cache else None)
    if declared is not None:
        return declared
    return "other" if policy.once or may_write(name) else name_role(name)[0]


def offered(way: Decoding, roles: Mapping[str, Role]) -> set[str]:
    """The names of the tools that are left; all of them, where none to act with is.

    Args:
        way: What holds.
        roles: What each tool is for, by its name.
    """
    looks = {name for name, role in roles.items() if role in _LOOKS}
    left = {name for name in roles if name != way.hidden}
    if way.reads:
        left &= looks
    useful = {roles[name] for name in left} - {"exit", "plan", "wait"}
    return left if useful else {*roles}


def fresh(
    pad: scratchpad.Pad,
    holds: Iterable[int],
    calls: Iterable[tuple[str, Mapping[str, Any]]],
    tools: Mapping[str, ToolPolicy],
) -> bool:
    """Whether none of a reply's calls was tried, ruled out or held.

    Args:
        pad: The scratchpad.
        holds: Digests of the calls that are held.
        calls: Name and arguments of each.
        tools: The policy's settings of tools.
    """
    known = {scratchpad.name(digest) for digest in holds} | {*pad.get("tried", ())}
    ruled = {call for call, _ in pad.get("ruled", ())}
    return not any(
        scratchpad.name(call_digest(name, args, tools)) in known
        or scratchpad.describe(name, args) in ruled
        for name, args in calls
    )
