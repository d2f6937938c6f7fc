"""The shared scratchpad in a guarded graph: what its nodes have to ask of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

from loopguard_lg.adapters import shared_pad
from loopguard_lg.adapters.driving import Do, Work
from loopguard_lg.adapters.graph_site import Look, Site
from loopguard_lg.adapters.plan import Plan


def before(site: Site, look: Look, config: RunnableConfig) -> Work[Look]:
    """The look before a model call, or the exit, with what other runs know."""
    shared = site.shared
    if shared is None:
        return look
    whose = shared_pad.Run(config, get_runtime(), look.scene.messages)
    return (yield from _served(shared.before, shared.abefore, look, whose))


def after(
    site: Site, look: Look, config: RunnableConfig, messages: Sequence[BaseMessage]
) -> Work[Look]:
    """The look of the model call that ended the run, with what was new kept."""
    shared = site.shared
    if shared is None:
        return look
    whose = shared_pad.Run(config, get_runtime(), messages)
    return (yield from _served(shared.after, shared.aafter, look, whose))


def _served(
    act: Callable[..., Plan],
    aact: Callable[..., Awaitable[Plan]],
    look: Look,
    whose: shared_pad.Run,
) -> Work[Look]:
    given = (look.plan, whose)
    plan = yield Do(partial(act, *given), partial(aact, *given))
    return replace(look, plan=plan)
