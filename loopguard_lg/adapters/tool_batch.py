"""What a `GuardedToolNode` reads in its input, and how it changes its output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from loopguard_lg.adapters import exits
from loopguard_lg.adapters.graph_state import leaves_graph, parts, rewritten, written
from loopguard_lg.adapters.messages import (
    mark_of,
    newest_reply,
    pair,
    with_advice,
    with_mark,
)
from loopguard_lg.adapters.tool_call import read
from loopguard_lg.adapters.transcript import results_after
from loopguard_lg.adapters.view import completed
from loopguard_lg.engine import Verdict
from loopguard_lg.memory import Memory, fresh

_NODE = "node"
"""The mark of results that a node has made: its name."""

_PART = "part"
"""The mark of those that came one by one: nobody saw their batch as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was known when the node began.

    Attributes:
        messages: Those of the run, up to the reply whose calls are to be executed.
        memory: What the guard makes of them, that reply left out.
        told: What it made of those that observers have been told of.
        since: The others before the reply.
        over: The exit report, if the run should have ended before.
        tells: It is this task that tells of `since`, if others execute calls as well.
        running: Tasks of an event loop that must come to their end before the node.
    """

    messages: Sequence[BaseMessage] = ()
    memory: Memory = field(default_factory=fresh)
    told: Memory = field(default_factory=fresh)
    since: Sequence[BaseMessage] = ()
    over: Mapping[str, Any] | None = None
    tells: bool = True
    running: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def thread(self) -> str:
        """What events are reported under: the thread, else the run's human word."""
        host = self.told["host"]
        return str(host.get("thread") or host.get("word") or "")

    def turn(self, found: Sequence[ToolMessage]) -> list[BaseMessage] | None:
        """The reply with all its results; `None` while others have some of them.

        Args:
            found: The results that the node has now.
        """
        reply, earlier = newest_reply(self.messages)
        results = [*earlier, *found]
        if reply is None or any(r is None for _, r in pair(reply, results)):
            return None
        return [reply, *results]


def history(given: Any, key: str) -> list[BaseMessage]:
    """The conversation in what a `ToolNode` is given; nothing for bare calls."""
    if isinstance(given, Mapping) and "tool_call" in given:
        given = given.get("state")
    found = given if isinstance(given, list) else read(given, key)
    return [m for m in found or () if isinstance(m, BaseMessage)]


def is_first(given: Any, reply: AIMessage, results: Sequence[ToolMessage]) -> bool:
    """Whether what a node is given has the first call of a reply that has no result.

    Args:
        given: The node's input: all calls, or one that was sent to it.
        reply: The reply that they stand in.
        results: Those that are there already.
    """
    sent = given.get("tool_call") if isinstance(given, Mapping) else None
    open_ = [call["id"] for call, found in pair(reply, results) if found is None]
    return sent is None or sent.get("id") in open_[:1]


def told_up_to(messages: Sequence[BaseMessage], node: str) -> int:
    """Where that begins which a node has not told its observers of: after the newest
    batch that it executed, or with it, if its results came one by one.
    """
    for at in reversed(range(len(messages))):
        if getattr(messages[at], "tool_calls", None):
            results = [*results_after(messages[at + 1 :])]
            marks = [mark_of(result) for result in results]
            mine = [mark for mark in marks if mark.get(_NODE) == node]
            if mine:
                parts = any(mark.get(_PART) for mark in mine)
                return at if parts else at + 1 + len(results)
    return 0


def signed(out: Any, key: str, node: str, *, part: bool) -> Any:
    """What a node returns, with its results marked as its own.

    Args:
        out: What it returns.
        key: The state key of the messages.
        node: Its name.
        part: They are not all of their batch.
    """
    mark = {_NODE: node, **({_PART: True} if part else {})}

    def each(found: Sequence[Any]) -> list[Any]:
        return [with_mark(m, mark) if isinstance(m, ToolMessage) else m for m in found]

    if isinstance(out, list):
        return [
            each([one])[0]
            if isinstance(one, ToolMessage)
            else rewritten(one, key, each)
            for one in out
        ]
    return rewritten(out, key, each)


def report_of(messages: Sequence[BaseMessage]) -> Mapping[str, Any] | None:
    """The exit report of a run that should have ended before this."""
    for message in _last_results(messages):
        found: Mapping[str, Any] | None = message.response_metadata.get(exits.KEY)
        if found is not None and not found.get("inside"):  # of an agent in the call
            return found
    return None


def is_refused(messages: Sequence[BaseMessage]) -> bool:
    """Whether the model has called once already after the end."""
    return any(mark_of(m).get("blocked") == "over" for m in _last_results(messages))


def _last_results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """The results that a conversation ends on."""
    ends = takewhile(lambda m: isinstance(m, ToolMessage), reversed(messages))
    return cast(list[ToolMessage], [*ends][::-1])


def exit_report(
    verdict: Verdict, memory: Memory, messages: Sequence[BaseMessage]
) -> Mapping[str, Any] | None:
    """The exit report, if the run should end."""
    if verdict.action != "exit":
        return None
    reason = "loop" if verdict.exceeded is None else "budget"
    why = verdict.exceeded or (verdict.finding and verdict.finding.detail)
    return exits.report(reason, str(why), memory, messages, verdict)


def noted(
    result: ToolMessage, text: str, report: Mapping[str, Any] | None
) -> ToolMessage:
    """A result with the note after it, and the report if the run is over."""
    told = with_advice(result, f"\n{text}")
    if report is None:
        return told
    metadata = {**told.response_metadata, exits.KEY: dict(report)}
    return told.model_copy(update={"response_metadata": metadata})


def replaced(out: Any, old: ToolMessage, new: ToolMessage, key: str) -> Any:
    """What the node returns, with `new` in the place of `old`, wherever that is."""
    if out is old:
        return new
    if isinstance(out, list):
        return [replaced(part, old, new, key) for part in out]
    return rewritten(out, key, lambda found: [new if m is old else m for m in found])


def carried(out: Any, key: str) -> Any:
    """What a node returns, with an answer for each call beside a hand-over to a parent.

    The parent is told of nothing but the command that hands over, so that the results
    of the other calls have to be in there.
    """
    found = parts(out)
    if not leaves_graph(out):
        return out
    beside = [
        m for part in found if not leaves_graph(part) for m in results_in(part, key)
    ]
    known = {message.tool_call_id for message in beside}

    def whole(messages: list[BaseMessage]) -> list[BaseMessage]:
        kept = [m for m in messages if getattr(m, "tool_call_id", None) not in known]
        return [*completed([*kept, *beside])]

    return [rewritten(p, key, whole) if leaves_graph(p) else p for p in found]


def results_in(part: Any, key: str) -> list[ToolMessage]:
    """The results of calls that a node wrote."""
    return [m for m in written(part, key) if isinstance(m, ToolMessage)]
