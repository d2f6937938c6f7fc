"""Results of calls that are made at most once, kept until their node has ended.

A node that executes several calls loses every result where one of them asks a person or
raises, or where the process dies: LangGraph then runs the whole node again. So the
result of a call that is made at most once is kept as soon as it is there, as a write
beside the checkpoint that the node began with, and is handed out when the node runs
again. It takes a checkpointer, as going on does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig

from loopguard_lg import hooks
from loopguard_lg.adapters import remembered
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import Do, Work
from loopguard_lg.adapters.graph_site import is_answered
from loopguard_lg.adapters.graph_state import written
from loopguard_lg.adapters.saved import Saved, checkpoint_of
from loopguard_lg.policy import Policy

_CHANNEL = "loopguard_once"

T = TypeVar("T")


def once(
    policy: Policy, ask: Ask, config: RunnableConfig, key: str, work: Work[T]
) -> Work[T]:
    """What executing a call gives, or gave when its node ran before.

    Nothing more is kept after a person has answered in the node: the call itself may
    have asked, and LangGraph tells the answers of a node apart by their order.

    Args:
        policy: The settings.
        ask: The call.
        config: The node's.
        key: The state key of the messages.
        work: Executes it.
    """
    settings, point = policy.tools.get(ask.call["name"]), checkpoint_of(config)
    if settings is None or not settings.once or policy.observe_only or point is None:
        return (yield from work)
    digest = remembered.made(policy, ask.call, None, ask.tools).digest
    place = _Place(Saved(config, point), f"{ask.call['id']} {digest}")
    found: T | None = yield from place.read()
    if found is not None:
        return found
    out = yield from work
    if _has_worked(policy, ask, written(out, key)) and not is_answered(config):
        yield from place.write(out)
    return out


def _has_worked(policy: Policy, ask: Ask, found: Sequence[Any]) -> bool:
    for result in found:
        if isinstance(result, ToolMessage) and result.tool_call_id == ask.call["id"]:
            made = remembered.made(policy, ask.call, result, ask.tools)
            return made.executed and made.worked
    return False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the result of one call of a node is kept.

    Attributes:
        at: The checkpoint that the node began with.
        name: Of the call in its node.
    """

    at: Saved
    name: str

    @property
    def _task(self) -> str:
        """What stands for a task: LangGraph leaves alone what none of its own wrote."""
        node = self.at.config["configurable"]["checkpoint_ns"]
        return str(uuid5(NAMESPACE_OID, f"{node} {self.name}"))

    def read(self) -> Work[Any]:
        """What is kept; `None` for nothing."""
        try:
            saved = yield Do(self.at.read, self.at.aread)
        except Exception:  # not known is not made: the receipts in the messages hold
            hooks.logger.exception("loopguard: what a call gave can't be read back")
            return None
        pending = (saved.pending_writes if saved is not None else None) or ()
        mine = (v for task, channel, v in pending if (task, channel) == self._names)
        return next(mine, None)

    def write(self, out: Any) -> Work[None]:
        """Keep what a call gave."""
        task, channel = self._names
        asked = (self.at.where, [(channel, out)], task)
        saver = self.at.saver
        try:
            yield Do(
                lambda: saver.put_writes(*asked), lambda: saver.aput_writes(*asked)
            )
        except Exception:
            hooks.logger.exception("loopguard: what a call gave can't be kept")

    @property
    def _names(self) -> tuple[str, str]:
        return self._task, _CHANNEL
