"""The hand-over of a thread, whether its run has ended or goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopguard_lg import memory as memories
from loopguard_lg.adapters.exits import ended, report
from loopguard_lg.workspace.handover import Handover


def hand_over(
    state: Mapping[str, Any], *, reason: str = "", channel: str = "loopguard"
) -> Handover:
    """The hand-over document of a thread at any moment, for example at a bloat.

    Args:
        state: The values of the thread's state: `graph.get_state(config).values`.
        reason: Why it is handed over.
        channel: The state key of the guard's memory.
    """
    memory, messages = memories.load(state.get(channel)), state.get("messages") or []
    files = memory["host"].get("workspace") or {}
    found = ended(state) or report("handed_over", reason, memory, messages)
    workspace = found.get("workspace") or {"snapshot": files.get("good")}
    return Handover.of({**found, "workspace": workspace})
