"""The files that a guarded graph works on: what its nodes do about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage

from loopguard_lg.adapters import touched
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import Work, off_loop
from loopguard_lg.adapters.graph_site import Look, Site
from loopguard_lg.adapters.graph_state import CHANNEL, State, rewritten
from loopguard_lg.adapters.tool_call import Actor, acting, agent_id


def before(site: Site, look: Look) -> Work[Look]:
    """The look of a node that acts on it, with files saved or put back."""
    if site.workspace is None:
        return look
    actor = acting(site.guard.policy, site.guard.agent, look.plan.before)
    plan = yield off_loop(site.workspace.before, actor, look.plan, look.told)
    return replace(look, plan=plan)


def done(site: Site) -> Work[None]:
    """Free the locks of a run that is over."""
    if site.workspace is not None:
        yield off_loop(site.workspace.done, agent_id(site.guard.agent))


def refusal(site: Site, state: State, call: Any) -> Work[ToolMessage | None]:
    """The answer to a call on whose file others work; else its lock is taken."""
    if site.workspace is None:
        return None
    asked = (call, site.tools.get(call["name"]))
    return (yield from site.workspace.refusal(_actor(site, state), asked))


def watched(
    site: Site, state: State, group: Sequence[Ask], work: Work[Any]
) -> Work[Any]:
    """Execute a group of calls, with the files that each changed in its result.

    Args:
        site: The settings of the graph.
        state: The state that the node was given.
        group: The calls.
        work: Executes them; gives what the node returned.
    """
    if site.workspace is None:
        return (yield from work)

    def noted(out: Any, seen: touched.Touched) -> Any:
        return rewritten(out, site.key, lambda m: touched.marked(m, seen))

    asked: Any = [(ask.call, ask.tools.get(ask.call["name"])) for ask in group]
    return (yield from site.workspace.watched(_actor(site, state), asked, work, noted))


def _actor(site: Site, state: State) -> Actor:
    return acting(site.guard.policy, site.guard.agent, state.get(CHANNEL))
