"""A call that was made, as far as the acts remember and compare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopguard_lg.acts.advisors import result_of
from loopguard_lg.digests import call_digest, short
from loopguard_lg.roles import read_use
from loopguard_lg.steps import Role, Step
from loopguard_lg.tools import ToolPolicy

_HARMLESS = frozenset(("read", "poll", "wait", "plan", "exit"))
_DEFAULT = ToolPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call, and how it ended if it did.

    Attributes:
        policy: The settings of its tool.
        digest: 32 bits of its identity.
        role: What it is for.
        place: 32 bits of the file that it is about, 0 where there is none.
        executed: The tool itself answered.
        worked: It did so without an error.
        pending: It said that something is still going on.
        waited: Seconds that the guard let pass before it.
        message: Id of the message with the result.
    """

    policy: ToolPolicy
    digest: int
    role: Role
    place: int = 0
    executed: bool = False
    worked: bool = False
    pending: bool = False
    waited: float = 0.0
    message: str = ""

    @property
    def touches(self) -> bool:
        """Whether it may have changed what another call reads."""
        return self.role not in _HARMLESS


def planned(step: Step, tools: Mapping[str, ToolPolicy]) -> Made:
    """A call that has not been made yet."""
    policy = tools.get(step.tool, _DEFAULT)
    use = read_use(step, policy.role)
    return Made(
        policy=policy,
        digest=call_digest(step.tool, step.args, tools) & 0xFFFFFFFF,
        role="read" if policy.cache and use.role == "other" else use.role,
        place=short(use.path.encode("utf-8", "surrogatepass")) if use.path else 0,
    )


def made(
    step: Step, tools: Mapping[str, ToolPolicy], message: str, waited: float = 0.0
) -> Made:
    """A call with its result, which is in the message with this id."""
    before = planned(step, tools)
    outcome = result_of(step, before.policy.role).outcome
    return Made(
        policy=before.policy,
        digest=before.digest,
        role=before.role,
        place=before.place,
        executed=not step.blocked and not step.cached,
        worked=not outcome.failed,
        pending=outcome.pending,
        waited=waited,
        message=message,
    )
