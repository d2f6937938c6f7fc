"""A call that was made, as far as the acts remember and compare it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from loopguard_lg.acts.advisors import result_of
from loopguard_lg.digests import args_hash, call_digest, short
from loopguard_lg.redaction.logs import note_failure
from loopguard_lg.roles import may_write, read_use
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
        content: 32 bits of the result, where it is cached.
        doubtful: It may write, by its name, and nobody says that it does not.
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
    content: int = 0
    doubtful: bool = False

    @property
    def done(self) -> bool:
        """Whether the tool itself answered, without an error."""
        return self.executed and self.worked

    @property
    def touches(self) -> bool:
        """Whether it may have changed what another call reads."""
        return self.role not in _HARMLESS or self.doubtful


def planned(step: Step, tools: Mapping[str, ToolPolicy]) -> Made:
    """A call that has not been made yet."""
    policy = tools.get(step.tool, _DEFAULT)
    use = read_use(step, policy.role)
    declared = policy.role or step.role or policy.cache
    return Made(
        policy=policy,
        digest=_digest(step, policy, tools),
        role=_role(policy, use.role),
        doubtful=not declared and may_write(step.tool),
        place=short(use.path.encode("utf-8", "surrogatepass")) if use.path else 0,
    )


def _role(policy: ToolPolicy, role: Role) -> Role:
    """What a call is for, where the settings say more than its name."""
    if policy.once and policy.role is None and role in ("read", "poll", "other"):
        return "write"
    return "read" if policy.cache and role == "other" else role


def _digest(step: Step, policy: ToolPolicy, tools: Mapping[str, ToolPolicy]) -> int:
    """Which calls are one: to the letter where an answer is given in place of it."""
    if not policy.once and not policy.cache:
        return call_digest(step.tool, step.args, tools) & 0xFFFFFFFF
    args = {k: v for k, v in step.args.items() if k not in policy.volatile}
    try:
        text = json.dumps(args, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # odd keys, a cycle
        text = args_hash(args)
    return short(f"{step.tool} {text}".encode("utf-8", "surrogatepass"))


def made(
    step: Step, tools: Mapping[str, ToolPolicy], message: str, waited: float = 0.0
) -> Made:
    """A call with its result, which is in the message with this id."""
    before = planned(step, tools)
    policy, outcome = before.policy, result_of(step, before.policy.role).outcome
    return Made(
        policy=policy,
        digest=before.digest,
        role=before.role,
        place=before.place,
        doubtful=before.doubtful,
        executed=not step.blocked and not step.cached,
        worked=_worked(step, policy, failed=outcome.failed),
        pending=outcome.pending,
        waited=waited,
        message=message,
        content=text_digest(step.result) if policy.cache else 0,
    )


Key = TypeVar("Key")


def newest(entries: Mapping[Key, tuple[Any, ...]], most: int) -> list[Any]:
    """The newest entries in a flat list, each key before what is kept under it."""
    return [part for key, kept in [*entries.items()][-most:] for part in (key, *kept)]


def text_digest(text: str) -> int:
    """32 bits of a result."""
    return short(text.encode("utf-8", "surrogatepass"))


def _worked(step: Step, policy: ToolPolicy, *, failed: bool) -> bool:
    """Did a call work: the policy's own function says so, else the host, else flags in
    the result, else its first words.
    """
    if policy.worked is not None:
        try:
            return bool(policy.worked(step))
        except Exception:  # somebody else's function
            note_failure(policy.worked, "a `worked` function failed and was left out")
    if step.error:
        return False
    flag = _flag(step.result)
    return not failed if flag is None else flag


_GOOD = frozenset(("ok", "success", "succeeded", "done", "completed", "sent"))
_BAD = frozenset(("error", "failed", "failure", "rejected"))


def _flag(result: str) -> bool | None:
    """What a result in JSON says of its success; `None` for nothing."""
    if not result.lstrip().startswith("{"):
        return None
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        return None
    flags = (data.get(name) for name in ("success", "ok", "succeeded"))
    said = next((flag for flag in flags if isinstance(flag, bool)), None)
    return _status(data) if said is None else said


def _status(data: Mapping[str, Any]) -> bool | None:
    """What errors and a status in a result say; a list of none is a good sign."""
    status = str(data.get("status")).lower()
    errors = [data[name] for name in ("error", "errors") if name in data]
    if any(errors) or status in _BAD:
        return False
    return True if errors or status in _GOOD else None
