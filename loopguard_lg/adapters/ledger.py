"""What runs inside a tool call: usage of agents in it, and progress that it reports.

Both go by context variables, which follow a call into threads and tasks, so that
children are counted however they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from loopguard_lg import budgets
from loopguard_lg.adapters.estimates import estimated
from loopguard_lg.adapters.messages import tokens_of
from loopguard_lg.budgets import Price
from loopguard_lg.redaction.logs import note_failure
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
    made for each tool call and each turn; few are ever asked what was spent. So the
    newest call is priced when the next one comes, or somebody asks: its tokens may have
    to be estimated from all that was sent.

    Attributes:
        calls: Model calls that were heard of.
        notes: Progress that was reported.
        report: The exit report of the newest agent in it that its guard ended.
        children: Threads of guarded agents that were heard of.
    """

    ignore_agent = True
    ignore_chain = True
    ignore_retriever = True
    ignore_custom_event = True
    run_inline = True  # it never waits: a thread or a task for each event costs more

    def __init__(self, own: Mapping[str, Price]) -> None:
        self.own = own
        self.calls = 0
        self.notes: list[str] = []
        self.report: dict[str, Any] | None = None
        self.children: set[str] = set()
        self._spent: dict[bool, Spent] = {}
        self._sent: dict[UUID, list[BaseMessage]] = {}
        self._newest: tuple[list[BaseMessage], Any] | None = None
        self._lock = Lock()  # children may run in threads

    @property
    def spent(self) -> list[Spent]:
        """What was spent: what the provider said, then what is estimated."""
        with self._lock:
            self._price()
            return [replace(self._spent[key]) for key in sorted(self._spent)]

    def mark(self) -> dict[str, Any]:
        """The entries as plain data; empty where nothing happened."""
        out: dict[str, Any] = {}
        if spent := self.spent:
            out["nested"] = [*map(asdict, spent)]
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
        self._sent[run_id] = [message for part in messages for message in part]

    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Let go of what was sent in vain."""
        self._sent.pop(run_id, None)

    def on_llm_end(
        self,
        response: LLMResult,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Count one model call."""
        sent = self._sent.pop(run_id, [])
        for generations in response.generations:
            for generation in generations[:1]:
                if isinstance(generation, ChatGeneration):
                    self._add(sent, generation.message)

    def _add(self, sent: list[BaseMessage], reply: Any) -> None:
        with self._lock:
            self._price()
            self._newest = sent, reply
            self.calls += 1

    def _price(self) -> None:
        """Add the newest call to what was spent; one that can't be read is left out."""
        newest, self._newest = self._newest, None
        if newest is None:
            return
        sent, reply = newest
        try:
            tokens = tokens_of(reply) or estimated(sent, reply)
            model = reply.response_metadata.get("model_name")
            self._charge(1, tokens, prices.cost(model, tokens, self.own))
        except Exception:  # a model of somebody else's
            note_failure(Ledger, "a model call inside could not be counted")

    def charge(self, calls: int, tokens: Tokens, cost: float | None) -> None:
        """Add what `calls` model calls took together."""
        with self._lock:
            self._charge(calls, tokens, cost)

    def _charge(self, calls: int, tokens: Tokens, cost: float | None) -> None:
        spent = self._spent.setdefault(
            tokens.estimated, Spent(estimated=tokens.estimated)
        )
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


def spent(entry: Ledger, seconds: float) -> dict[str, float]:
    """What a node spent, in the units of a budget."""
    out: dict[str, float] = {"seconds": max(0.0, seconds)}
    for inner in entry.mark().get("nested", ()):
        calls, cost = inner["model_calls"], inner["cost"]
        out = budgets.add(
            out,
            {
                "model_calls": calls,
                "input_tokens": inner["input"],
                "output_tokens": inner["output"],
                "usd": cost or 0,
                "unpriced": calls if cost is None else 0,
                "estimated": calls if inner["estimated"] else 0,
            },
        )
    return {name: amount for name, amount in out.items() if amount}
