"""What runs inside a tool call: usage of agents in it, and progress that it reports.

Both go by context variables, which follow a call into threads and tasks, so that
children are counted however they run. What a child spent before it was interrupted
is only in its own state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from loopguard_lg.adapters.messages import estimated, tokens_of
from loopguard_lg.budgets import Price
from loopguard_lg.steps import Tokens
from loopguard_lg.telemetry import prices


@dataclass(slots=True)
class Spent:
    """What some model calls took together."""

    model_calls: int = 0
    input: int = 0
    output: int = 0
    cost: float | None = None
    estimated: bool = False

    def add(self, tokens: Tokens, cost: float | None) -> None:
        """Add one call."""
        self.model_calls += 1
        self.input += tokens.input
        self.output += tokens.output
        if cost is not None:
            self.cost = (self.cost or 0) + cost


@dataclass(slots=True)
class Ledger:
    """What was spent and reported inside one tool call.

    Attributes:
        said: Calls whose provider said what they took.
        guessed: Calls whose tokens are estimated.
        notes: Progress that was reported.
    """

    said: Spent = field(default_factory=Spent)
    guessed: Spent = field(default_factory=lambda: Spent(estimated=True))
    notes: list[str] = field(default_factory=list)

    def mark(self) -> dict[str, Any]:
        """The entries as plain data; empty where nothing happened."""
        out: dict[str, Any] = {}
        nested = [asdict(s) for s in (self.said, self.guessed) if s.model_calls]
        if nested:
            out["nested"] = nested
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
        self.sent: dict[UUID, list[BaseMessage]] = {}
        self.lock = Lock()  # children may run in threads

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Keep what is sent until the reply says what it took."""
        self.sent[run_id] = [message for part in messages for message in part]

    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Let go of what was sent in vain."""
        self.sent.pop(run_id, None)

    def on_llm_end(
        self,
        response: LLMResult,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Count one model call."""
        sent = self.sent.pop(run_id, [])
        for generations in response.generations:
            for generation in generations[:1]:
                if isinstance(generation, ChatGeneration):
                    self._add(sent, generation.message)

    def _add(self, sent: list[BaseMessage], reply: Any) -> None:
        tokens = tokens_of(reply) or estimated(sent, reply)
        model = reply.response_metadata.get("model_name")
        cost = prices.cost(model, tokens, self.own)
        with self.lock:
            spent = self.ledger.guessed if tokens.estimated else self.ledger.said
            spent.add(tokens, cost)


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

    The ladder comes down as with progress that the guard sees by itself, and `note`
    becomes a fact of the scratchpad. Outside a guarded tool call nothing happens.
    """
    entry = _current.get()
    if entry is not None:
        entry.notes.append(note or "progress")
