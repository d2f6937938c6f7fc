"""The files that a call has changed, in the metadata of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, ToolMessage

from loopguard_lg.adapters.messages import with_mark
from loopguard_lg.adapters.tool_call import Result

if TYPE_CHECKING:
    from loopguard_lg.workspace.watch import Change

Touched: TypeAlias = Mapping[str, list[list[Any]]]
"""Path, seconds since the run began, and size of each change, by the call's id."""

_MOST = 50
"""Most changes that are noted of one call."""


def rows(seen: Mapping[str, Sequence[Change]], began: float | None) -> Touched:
    """What is noted of changes.

    Args:
        seen: The changes by the id of the call that made them.
        began: When the run began, in seconds since the epoch.
    """
    return {
        id_: [[c.path, _since(began, c.at), c.size] for c in changes[:_MOST]]
        for id_, changes in seen.items()
        if changes
    }


def _since(began: float | None, at: float) -> float | None:
    return None if began is None else round(max(0.0, at - began), 3)


def marked(found: Sequence[BaseMessage], touched: Touched) -> list[BaseMessage]:
    """Messages, with what each call has changed noted in its result."""
    return [
        with_mark(m, {"touched": touched[m.tool_call_id]})
        if isinstance(m, ToolMessage) and m.tool_call_id in touched
        else m
        for m in found
    ]


def noted(result: Result, touched: Touched) -> Result:
    """What a call gave, with what it has changed; a command keeps all else."""
    if isinstance(result, ToolMessage):
        return cast(ToolMessage, marked([result], touched)[0])
    update = getattr(result, "update", None)
    if not isinstance(update, dict) or not isinstance(update.get("messages"), list):
        return result
    messages = marked(update["messages"], touched)
    return replace(result, update={**update, "messages": messages})
