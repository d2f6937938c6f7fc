"""What happened: the plain, frozen facts that the engine is fed.

A `Turn` is one model reply with the outcome of the calls it asked for (a parallel
batch is one turn); each call is a `Step`. The other events say that a person spoke,
that the model's view was cut, or that the agent itself reports progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal[
    "read", "write", "check", "poll", "wait", "plan", "handoff", "exit", "other"
]
"""What a call is for: looking, changing, testing, waiting for others, waiting itself,
planning, handing over, leaving; `other` where nothing tells."""

TEXT_LIMIT = 4_000
"""Characters of a text that detectors look at; digests cover all of it."""

_MARK = "\n[... {} characters left out ...]\n"


def clip(text: str, limit: int = TEXT_LIMIT) -> str:
    """Shorten `text` to its head and tail, with a mark; short text is returned as is.

    Idempotent, so that a live run and its recording are judged from the same text.
    """
    if len(text) <= limit:
        return text
    mark = _MARK.format(len(text) - limit)
    head = (limit - len(mark)) * 3 // 4
    return text[:head] + mark + text[head + len(mark) - limit :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tool call with its outcome.

    Attributes:
        tool: Name of the tool.
        args: The arguments, as the model gave them.
        result: What came back, as text.
        error: Did it fail; `None` where only the result can tell.
        id: The call's id; may be missing or used twice.
        state: Digest of the outside world after the call, where known.
        changed_state: Whether the call changed the outside world, where known.
        seconds: How long it took.
        blocked: The guard answered instead of the tool.
        cached: The answer came from the guard's cache.
        attempts: Tries behind this one call.
        args_hash: Digest of the untrimmed arguments, where a recording carries it.
        result_hash: Digest of the untrimmed result, likewise.
        result_bytes: Size of the untrimmed result, likewise.
        role: What the call is for, where the tool's metadata says so.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    error: bool | None = None
    id: str = ""
    state: str | None = None
    changed_state: bool | None = None
    seconds: float | None = None
    blocked: bool = False
    cached: bool = False
    attempts: int = 1
    args_hash: str | None = None
    result_hash: str | None = None
    result_bytes: int | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one model call; `cached` is the part of `input` read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A change of a file that a watcher saw, by its modification time.

    It goes on the turn during which it happened. Beside a call of that turn that edits
    the same file it is no second edit: a file counts once for each such call, or once
    for each touch, whichever are more.

    Attributes:
        path: The file, relative to the workspace or as the tools spell it.
        t: When, in seconds since the run began; `None`: as the turn.
        agent: Who holds the file's lock; empty: whose turn it is.
        size: Bytes of the file afterwards, where known: a file that grows is work.
    """

    path: str
    t: float | None = None
    agent: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model reply and what came of its calls.

    Attributes:
        agent: Who acts.
        text: What was said.
        steps: The calls of this turn in order; empty for a text-only turn.
        model: The model that answered.
        tokens: What the model call took, where known.
        cost: US dollars of the model call, where known.
        seconds: How long the model call took, where known.
        t: Seconds since the run began, where known.
        i: Position in the recording; the engine counts by itself where `None`.
        nested: Usage of agents that ran inside this turn's calls.
        progress: What a tool reported by which the task moved; empty for nothing.
        touched: Changes of files that a watcher saw while its calls ran.
    """

    agent: str = ""
    text: str = ""
    steps: tuple[Step, ...] = ()
    model: str | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    seconds: float | None = None
    t: float | None = None
    i: int | None = None
    nested: tuple[Nested, ...] = ()
    progress: str = ""
    touched: tuple[Touch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Usage of one agent that ran inside a tool call."""

    model_calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Human:
    """A person spoke. `answer`: to a question of the agent's, within the same run.

    `raised`: limits of the run's budget, by name, and what they were raised to.
    """

    text: str = ""
    answer: bool = False
    raised: Mapping[str, float] = field(default_factory=dict)
    i: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What came before is gone from the model's view.

    `tokens`: size of the context afterwards, where known.
    """

    agent: str = ""
    tokens: int | None = None
    i: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The agent, or the app around it, says that the task moved."""

    note: str = ""
    i: int | None = None


Event: TypeAlias = Turn | Human | Compaction | Progress
"""Everything that the engine can be told."""
