"""What runs inside a tool call: usage of agents in it, and progress that it reports.

Both go by context variables, which follow a call into threads and tasks, so that
children are counted however they run. What a child spent before it was interrupted
is only in its own state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from loopguard_lg.adapters.messages import tokens_of
from loopguard_lg.budgets import Price
from loopguard_lg.telemetry import prices


@dataclass(slots=True)
class Ledger:
    """What was spent and reported inside one tool call."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cost: float | None = None
    notes: list[str] = field(default_factory=list)

    def mark(self) -> dict[str, Any]:
        """The entries as plain data; empty where nothing happened."""
        out: dict[str, Any] = {}
        if self.calls:
            spent = {"input": self.input, "output": self.output, "cost": self.cost}
            out["nested"] = [{"model_calls": self.calls, **spent}]
        if self.notes:
            out["progress"] = self.notes[-1]
        return out


_current: ContextVar[Ledger | None] = ContextVar("loopguard_ledger", default=None)
_counter: ContextVar[_Counter | None] = ContextVar("loopguard_counter", default=None)


class _Counter(BaseCallbackHandler):
    """Adds the usage of every model call below it to a ledger; hears nothing else."""

    ignore_agent = True
    ignore_chain = True
    ignore_retriever = True
    ignore_custom_event = True

    def __init__(self, ledger: Ledger, own: Mapping[str, Price]) -> None:
        self.ledger = ledger
        self.own = own
        self.lock = Lock()  # children may run in threads

    def on_llm_end(
        self,
        response: LLMResult,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Count one model call."""
        with self.lock:
            self.ledger.calls += 1
            for generations in response.generations:
                for generation in generations[:1]:
                    self._add(generation)

    def _add(self, generation: Any) -> None:
        if not isinstance(generation, ChatGeneration):
            return
        message: Any = generation.message
        tokens = tokens_of(message)
        if tokens is None:
            return
        self.ledger.input += tokens.input
        self.ledger.output += tokens.output
        model = message.response_metadata.get("model_name")
        spent = prices.cost(model, tokens, self.own)
        if spent is not None:
            self.ledger.cost = (self.ledger.cost or 0) + spent


register_configure_hook(_counter, inheritable=True)


@contextmanager
def ledger(own: Mapping[str, Price]) -> Iterator[Ledger]:
    """Count what runs inside; `own` are prices over those of the table."""
    entry = Ledger()
    outer = _current.set(entry)
    counter = _counter.set(_Counter(entry, own))
    try:
        yield entry
    finally:
        _counter.reset(counter)
        _current.reset(outer)


def report_progress(note: str = "") -> None:
    """Tell the guard, from inside a tool, that the task moved.

    The ladder comes down as with progress that the guard sees by itself. Outside a
    guarded tool call nothing happens.
    """
    entry = _current.get()
    if entry is not None:
        entry.notes.append(note or "progress")
