"""A checkpoint of the thread that runs, as the graph's checkpointer has it.

LangGraph hands the checkpointer, and the ids of the checkpoints that the superstep
began with, to every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels import LastValue
from langgraph.checkpoint.base import CheckpointTuple
from tenacity import retry, retry_if_result, stop_after_delay, wait_exponential

_PATIENCE = 10
"""Seconds to wait for a checkpoint: LangGraph writes them beside the run."""


def checkpoint_of(config: RunnableConfig) -> str | None:
    """The id of the checkpoint that this superstep began with, where there is one."""
    settings = config.get("configurable", {})
    if settings.get("__pregel_checkpointer") is None:
        return None
    found: str | None = (settings.get("checkpoint_map") or {}).get(_namespace(settings))
    return found


def channels(config: RunnableConfig) -> Mapping[str, Any]:
    """The channels of the graph that runs; LangGraph hands them to every task."""
    read = config.get("configurable", {}).get("__pregel_read")
    found = [part for part in getattr(read, "args", ()) if isinstance(part, Mapping)]
    return found[0] if found else {}


def unreduced(config: RunnableConfig) -> set[str]:
    """The state keys of the graph that runs which have no reducer."""
    found = channels(config).items()
    return {name for name, channel in found if isinstance(channel, LastValue)}


def _namespace(settings: Mapping[str, Any]) -> str:
    """The graph's own namespace: that of the task without its last part."""
    return str(settings.get("checkpoint_ns") or "").rpartition("|")[0]


@dataclass(frozen=True, slots=True)
class Saved:
    """One checkpoint of the graph that runs.

    Attributes:
        config: The configuration of the task that asks.
        point: The id of the checkpoint.
    """

    config: RunnableConfig
    point: str

    @property
    def saver(self) -> Any:
        """The checkpointer."""
        return self.config["configurable"]["__pregel_checkpointer"]

    @property
    def where(self) -> RunnableConfig:
        """The configuration that names it."""
        settings = self.config["configurable"]
        where = {
            "thread_id": settings["thread_id"],
            "checkpoint_ns": _namespace(settings),
            "checkpoint_id": self.point,
        }
        return {"configurable": where}

    def read(self) -> CheckpointTuple | None:
        """The checkpoint as it is kept; `None` if it is not, or not any more."""
        found: CheckpointTuple | None = self._patiently(self.saver.get_tuple)(
            self.where
        )
        return found

    async def aread(self) -> CheckpointTuple | None:
        """The same on an event loop."""
        found: CheckpointTuple | None = await self._patiently(self.saver.aget_tuple)(
            self.where
        )
        return found

    @property
    def _patiently(self) -> Any:
        """Reads until there is something; once, where all is written at the end."""
        durability = self.config["configurable"].get("__pregel_durability")
        return retry(
            retry=retry_if_result(lambda found: found is None),
            wait=wait_exponential(0.02, max=1),
            stop=stop_after_delay(0 if durability == "exit" else _PATIENCE),
            retry_error_callback=lambda state: None,
        )
