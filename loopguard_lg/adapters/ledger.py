"""What runs inside a tool call: usage of agents in it, and progress that it reports.

Both go by context variables, which follow a call into threads and tasks, so that
children are counted however they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
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

    def add(self, tokens: Tokens, cost: float | None, calls: int = 1) -> None:
        """Add one call, or several."""
        self.model_calls += calls
        self.input += tokens.input
        self.output += tokens.output
        if cost is not None:
            self.cost = (self.cost or 0) + cost


class Ledger(BaseCallbackHandler):
    """What was spent and reported inside one tool call.

    It adds up the usage of every model call below it, and hears nothing else. One is
    made for each tool call, so that what few of them need is made when it is needed.

    Attributes:
        spent: What was spent, by whether it is estimated or the provider said it.
        notes: Progress that was reported.
        report: The exit report of the newest agent in it that its guard ended.
        children: Threads of guarded agents that were heard of.
    """

    ignore_agent = True
    ignore_chain = True
    ignore_retriever = True
    ignore_custom_event = True

    def __init__(self, own: Mapping[str, Price]) -> None:
        self.own = own
        self.spent: dict[bool, Spent] = {}
        self.notes: list[str] = []
        self.report: dict[str, Any] | None = None
        self.children: set[str] = set()
        self.sent: dict[UUID, list[BaseMessage]] = {}
        self.lock = Lock()  # children may run in threads

    def mark(self) -> dict[str, Any]:
        """The entries as plain data; empty where nothing happened."""
        out: dict[str, Any] = {}
        if self.spent:
            out["nested"] = [asdict(self.spent[key]) for key in sorted(self.spent)]
        if self.notes:
            out["progress"] = self.notes[-1]
        if self.report:
            out["exit"] = self.report
        return out

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
        self.charge(1, tokens, cost)

    def charge(self, calls: int, tokens: Tokens, cost: float | None) -> None:
        """Add what `calls` model calls took together."""
        guessed = tokens.estimated
        with self.lock:
            spent = self.spent.setdefault(guessed, Spent(estimated=guessed))
            spent.add(tokens, cost, calls)


_current: ContextVar[Ledger | None] = ContextVar("loopguard_ledger", default=None)

register_configure_hook(_current, inheritable=True)


@contextmanager
def ledger(own: Mapping[str, Price]) -> Iterator[Ledger]:
    """Count what runs inside; `own` are prices over those of the table."""
    entry = Ledger(own)
    outer = _current.set(entry)
    try:
        yield entry
    finally:
        _current.reset(outer)


def report_progress(note: str = "") -> None:
    """Tell the guard, from inside a tool, that the task moved.

    The ladder comes down as with progress that the guard sees by itself, and `note`
    becomes a fact of the scratchpad. Outside a guarded tool call nothing happens.
    """
    entry = _current.get()
    if entry is not None:
        entry.notes.append(note or "progress")
