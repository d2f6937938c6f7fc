"""Names of tools in a policy that no tool has, but that one nearly has."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from langchain_core.tools import BaseTool

from loopguard_lg import hooks
from loopguard_lg.policy import Policy

_NEAR = 0.75
"""Alike as `lokup` and `lookup`. Other names may be tools that are offered later, or
those of another agent with the same policy, which is no mistake."""


def warn(policy: Policy, tools: Sequence[Any], looked: set[str]) -> None:
    """Log once for each name in the policy that looks like a slip for a tool's.

    Args:
        policy: The settings.
        tools: What the model is offered: tools, or providers' descriptions of them.
        looked: Names that were looked at before; those of now are added, so that it
            holds no more than the policy names.
    """
    fresh = {*policy.tools, *policy.watched_tools} - looked
    if not fresh:
        return
    looked |= fresh
    known = [name for tool in tools if (name := _name(tool))]
    for name in sorted(fresh.difference(known)):
        if near := get_close_matches(name, known, 1, _NEAR):
            hooks.logger.warning(
                "loopguard: the policy names a tool %r, but the agent has none of "
                "that name: did you mean %r?",
                name,
                near[0],
            )


def _name(tool: Any) -> str:
    if isinstance(tool, BaseTool):
        return tool.name
    named = tool.get("name") if isinstance(tool, dict) else None
    return named if isinstance(named, str) else ""
