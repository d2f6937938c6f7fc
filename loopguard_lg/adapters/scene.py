"""What a host knows before it calls its model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from loopguard_lg.budgets import Used


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a host knows before it calls its model.

    Attributes:
        messages: The messages of the state.
        seen: The messages as the request has them, after other middlewares.
        tools: The tools by name, in the request's order.
        model: Name of the model, where known.
        thread: The thread, where there is one.
        resumable: Whether a question to a person can be answered later.
        remaining: Supersteps left before the recursion limit, this one included,
            where known.
        step: Number of this superstep, where known.
        named_later: The model's name is not known before its first reply.
        beside: What was spent beside the model's turns since it was counted, by scope.
        counted_beside: What is remembered once it is counted.
        made: Ids of human messages that are no person's words.
        checkpoint: Id of the checkpoint that the superstep began with, where known.
        shared: Other agents reply in the same messages.
        counted: Another middleware counts the messages after the guard, so that no
            more of them may be left out.
        looked: The guard has looked at this run before; for a host without a channel,
            whose memory has no `rev`.
    """

    messages: Sequence[BaseMessage]
    seen: Sequence[BaseMessage]
    tools: Mapping[str, BaseTool] = field(default_factory=dict)
    model: str | None = None
    thread: str = ""
    resumable: bool = False
    remaining: int | None = None
    step: int | None = None
    named_later: bool = False
    beside: Mapping[str, Used] = field(default_factory=dict)
    counted_beside: Any = None
    made: Collection[str] = ()
    checkpoint: str | None = None
    shared: bool = False
    counted: bool = False
    looked: bool = False

    @property
    def first(self) -> str | None:
        """The id of the first message that the model is shown."""
        return self.seen[0].id if self.seen else None

    @property
    def _stop(self) -> int | None:
        """The superstep at which the recursion limit is reached."""
        if self.step is None or self.remaining is None:
            return None
        return self.step + self.remaining

    def goes_on(self, host: Mapping[str, Any]) -> bool:
        """Whether the graph runs on since the last look: new input moves its last
        step.
        """
        stop = self._stop
        return stop is not None and stop == host.get("stop") and not host.get("over")

    def pace(self, host: Mapping[str, Any]) -> dict[str, Any]:
        """How many supersteps a turn takes: hooks of other middlewares are nodes."""
        if self.step is None:
            return {}
        lap = self.step - host["step"] if self.goes_on(host) else None
        return {"step": self.step, "lap": lap, "stop": self._stop}

    def out_of_steps(self, host: Mapping[str, Any]) -> bool:
        """Whether another turn could pass the recursion limit on its way to the end.

        A turn, and the way out through the hooks after it, take two laps at most.
        """
        if self.remaining is None:
            return False
        lap = host.get("lap")
        return self.remaining <= 2 if lap is None else self.remaining < 2 * lap
