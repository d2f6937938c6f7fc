"""The shared scratchpad in a guarded graph: what its nodes have to ask of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

from loopguard_lg.adapters import shared_pad
from loopguard_lg.adapters.driving import Run, Work
from loopguard_lg.adapters.graph_site import Look, Site
from loopguard_lg.adapters.plan import Plan


@dataclass(frozen=True, slots=True)
class _Asked:
    """A look into the store, as something that a node runs."""

    act: Callable[..., Plan]
    aact: Callable[..., Awaitable[Plan]]

    def invoke(self, given: Sequence[Any], config: Any, **_: Any) -> Plan:
        return self.act(*given)

    async def ainvoke(self, given: Sequence[Any], config: Any, **_: Any) -> Plan:
        return await self.aact(*given)


def before(site: Site, look: Look, config: RunnableConfig) -> Work[Look]:
    """The look before a model call, or the exit, with what other runs know."""
    shared = site.shared
    if shared is None:
        return look
    asked = _Asked(shared.before, shared.abefore)
    return (yield from _served(asked, look, config, look.scene.messages))


def after(
    site: Site, look: Look, config: RunnableConfig, messages: Sequence[BaseMessage]
) -> Work[Look]:
    """The look of the model call that ended the run, with what was new kept."""
    shared = site.shared
    if shared is None:
        return look
    asked = _Asked(shared.after, shared.aafter)
    return (yield from _served(asked, look, config, messages))


def _served(
    asked: _Asked, look: Look, config: RunnableConfig, messages: Sequence[BaseMessage]
) -> Work[Look]:
    whose = shared_pad.Run(config, get_runtime(), messages)
    plan = yield Run((look.plan, whose), what=asked)
    return replace(look, plan=plan)
