"""`GuardedToolNode`: a `ToolNode` with the guard inside, for hand-written graphs.

The node has no channel of its own. What the guard remembers is derived from the
messages each time: it costs as much as the run is long, and holds wherever the
messages hold, on resume, on another machine and in a fork.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import (
    AsyncToolCallWrapper,
    ToolCallRequest,
    ToolCallWrapper,
)

from loopguard_lg import hooks, prompts
from loopguard_lg.adapters import exits
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import adrive, drive
from loopguard_lg.adapters.graph_state import rewritten, written
from loopguard_lg.adapters.messages import (
    mark_of,
    newest_reply,
    newest_word,
    pair,
    refused,
    with_advice,
)
from loopguard_lg.adapters.past import with_host
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.tool_call import Result, ToolCall, read
from loopguard_lg.adapters.transcript import (
    current_run,
    events_of,
    judged,
    since_batch,
)
from loopguard_lg.engine import Verdict
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent, Observer
from loopguard_lg.ladder import AskUser, Reflect
from loopguard_lg.memory import Memory, fresh
from loopguard_lg.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What was known when the node began.

    Attributes:
        messages: Those of the run, up to the reply whose calls are to be executed.
        memory: What the guard makes of them, that reply left out.
        told: What it made of those that observers have been told of.
        since: The others before the reply: since the batch before it.
        over: The exit report, if the run should have ended before.
    """

    messages: Sequence[BaseMessage] = ()
    memory: Memory = field(default_factory=fresh)
    told: Memory = field(default_factory=fresh)
    since: Sequence[BaseMessage] = ()
    over: Mapping[str, Any] | None = None


_past: ContextVar[_Past] = ContextVar("loopguard_tool_node")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call(ToolCall):
    """A call of a node that has no channel."""

    past: _Past

    @property
    def _memory(self) -> Any:
        return self.past.memory

    @property
    def _messages(self) -> Sequence[BaseMessage]:
        return self.past.messages

    def _answer(self, ask: Ask) -> ToolMessage | None:
        over, call = self.past.over, self.request.tool_call
        if over is None:
            return ToolCall._answer(self, ask)
        return refused(call, prompts.refused(call["name"], over["detail"]), "over")


class GuardedToolNode(ToolNode):
    """A `ToolNode` that notices when the model goes in circles.

    A first trigger adds a note to the last result of the batch. From the second on the
    repeated call is not executed. The last one says that the run is over: calls after
    that are refused, and a model that calls once more is stopped by an error. The exit
    report is in `response_metadata["loopguard_exit"]` of the last result, for a router
    that ends the graph. A stronger model and questions to a person need `guard_graph`.

    Args:
        tools: The tools, as for `ToolNode`.
        policy: The settings; the default policy is safe for production.
        observers: Are told what the guard saw and did.
        wrap_tool_call: As for `ToolNode`; runs inside the guard.
        awrap_tool_call: The same on an event loop.
        messages_key: As for `ToolNode`.
        clock: Seconds from any start, to time calls.
        sleep: Lets seconds pass between two tries of a call, or two polls.
        asleep: The same on an event loop.
        settings: Everything else that `ToolNode` takes.

    Raises:
        LoopHaltedError: On invocation, when the model goes on calling after the end.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        policy: Policy | None = None,
        *,
        observers: Sequence[Observer] | Observer = (),
        wrap_tool_call: ToolCallWrapper | None = None,
        awrap_tool_call: AsyncToolCallWrapper | None = None,
        messages_key: str = "messages",
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Any] = time.sleep,
        asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        **settings: Any,
    ) -> None:
        blocking = wrap_tool_call is not None and awrap_tool_call is None
        super().__init__(
            tools,
            messages_key=messages_key,
            wrap_tool_call=self._around,
            awrap_tool_call=None if blocking else self._aaround,
            **settings,
        )
        self._key = messages_key
        self._wrap = wrap_tool_call
        self._awrap = awrap_tool_call
        self._clock = clock
        policy = Policy.checked(policy)
        if missing := [*_missing(policy)]:
            hooks.logger.warning(
                "loopguard: GuardedToolNode can't keep %s; guard_graph can",
                ", ".join(missing),
            )
        self._guard = Guard(
            policy=policy,
            agent=self.name or "",
            observers=hooks.checked(observers),
            sleep=sleep,
            asleep=asleep,
        )

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Execute the calls that may be executed, and say what is seen."""
        with self._looking(input, config) as past:
            return self._told(past, super().invoke(input, config, **kwargs))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Execute the calls that may be executed, and say what is seen."""
        with self._looking(input, config) as past:
            return self._told(past, await super().ainvoke(input, config, **kwargs))

    def _call(self, request: ToolCallRequest) -> _Call:
        return _Call(
            guard=self._guard,
            request=request,
            channel="",
            clock=self._clock,
            key=self._key,
            past=_past.get(),
        )

    def _around(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Result]
    ) -> Result:
        wrap = self._wrap
        return drive(
            self._call(request).work(),
            lambda run: wrap(run.given, execute) if wrap else execute(run.given),
        )

    async def _aaround(
        self,
        request: ToolCallRequest,
        execute: Callable[[ToolCallRequest], Awaitable[Result]],
    ) -> Result:
        wrap = self._awrap
        return await adrive(
            self._call(request).work(),
            lambda run: wrap(run.given, execute) if wrap else execute(run.given),
        )

    @contextmanager
    def _looking(self, given: Any, config: RunnableConfig | None) -> Iterator[_Past]:
        past = self._before(given, ensure_config(config))
        reset = _past.set(past)
        try:
            yield past
        finally:
            _past.reset(reset)

    def _before(self, given: Any, config: RunnableConfig) -> _Past:
        try:
            return self._judged(_history(given, self._key), config)
        except LoopHaltedError:
            raise
        except Exception:  # a fault costs what would have been seen, not the calls
            hooks.logger.exception("loopguard: calls can't be judged")
            return _Past()

    def _judged(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> _Past:
        policy = self._guard.policy
        run = current_run(messages, policy)
        reply, _ = newest_reply(run)
        if reply is None:
            return _Past()
        before = run[: next(n for n, m in enumerate(run) if m is reply)]
        at = since_batch(before)
        told = self._remembered(before[:at])
        over = None if policy.observe_only else _report(before)
        if over is not None and _is_refused(before):
            raise LoopHaltedError(dict(over))
        word = newest_word(run, through=True)
        told = with_host(
            told,
            thread=config.get("configurable", {}).get("thread_id"),
            word=word.id if word is not None else None,
            acts=self._guard.acts.derived(before, self.tools_by_name),
        )
        return _Past(
            messages=run,
            memory=self._remembered(before[at:], told),
            told=told,
            since=before[at:],
            over=over,
        )

    def _remembered(
        self, messages: Sequence[BaseMessage], memory: Memory | None = None
    ) -> Memory:
        guard = self._guard
        return judged(guard.policy, messages, self.tools_by_name, memory, guard.agent)

    def _told(self, past: _Past, out: Any) -> Any:
        """What the node returns, with a note where one is due."""
        try:
            return self._with_note(past, out)
        except Exception:  # the calls were made: their results are not lost
            hooks.logger.exception("loopguard: results can't be judged")
            return out

    def _with_note(self, past: _Past, out: Any) -> Any:
        found = [m for m in written(out, self._key) if isinstance(m, ToolMessage)]
        reply, earlier = newest_reply(past.messages)
        if reply is None or any(
            result is None for _, result in pair(reply, [*earlier, *found])
        ):
            return out  # sent out one by one: the next batch sees it
        verdict, memory = self._fed(past, [reply, *earlier, *found])
        after = [*past.messages, *found]
        report = _exit(verdict, memory, after) or past.over
        text = self._text(verdict, memory, report)
        self._tell(past, verdict, text)
        if not text or not found or self._guard.policy.observe_only:
            return out
        return _with(out, found[-1], _noted(found[-1], text, report), self._key)

    def _text(self, verdict: Verdict, memory: Memory, report: Any) -> str:
        if report is not None:
            return prompts.ending(report["detail"])
        if verdict.finding is None or verdict.action not in ("reflect", "escalate"):
            return ""
        rung = self._guard.policy.ladder.at(verdict.rung)
        tokens = rung.tokens if isinstance(rung, Reflect) else Reflect().tokens
        tools = [*self.tools_by_name]
        return prompts.reflection(verdict.finding, memory["pad"], tools, tokens)

    def _fed(self, past: _Past, turn: Sequence[BaseMessage]) -> tuple[Verdict, Memory]:
        """What is decided on a batch; observers hear of it, and of what led to it."""
        guard, verdict, memory = self._guard, Verdict(), past.told
        known = [*past.since, *turn]
        for event in events_of(known, self.tools_by_name, guard.policy, guard.agent):
            verdict, memory = guard.feed(memory, event, _thread(past))
        return verdict, memory

    def _tell(self, past: _Past, verdict: Verdict, text: str) -> None:
        if verdict.action == "continue" or not text:
            return
        event = GuardEvent(
            name=_EVENTS[verdict.action],
            thread=_thread(past),
            agent=self._guard.agent,
            event=None,
            verdict=verdict,
            text=text,
        )
        hooks.notify(self._guard.observers, event)


def _thread(past: _Past) -> str:
    """What events are reported under: the thread, else the run's human word."""
    host = past.told["host"]
    return str(host.get("thread") or host.get("word") or "")


def _missing(policy: Policy) -> Iterator[str]:
    """What a policy asks for that takes a graph or the model."""
    for rung in policy.acting.ladder.rungs:
        kind = type(rung).__name__
        if isinstance(rung, AskUser):
            yield f"{kind} (it ends like GiveUp)"
        for name in ("model", "restore", "files", "temperature"):
            if getattr(rung, name, None):
                yield f"{kind}.{name}"
        if getattr(rung, "samples", 1) > 1:
            yield f"{kind}.samples"


_EVENTS: Mapping[str, hooks.Name] = {
    "reflect": "reflected",
    "escalate": "escalated",
    "exit": "exited",
}


def _history(given: Any, key: str) -> list[BaseMessage]:
    """The conversation in what a `ToolNode` is given; nothing for bare calls."""
    if isinstance(given, Mapping) and "tool_call" in given:
        given = given.get("state")
    found = given if isinstance(given, list) else read(given, key)
    return [m for m in found or () if isinstance(m, BaseMessage)]


def _report(messages: Sequence[BaseMessage]) -> Mapping[str, Any] | None:
    """The exit report of a run that should have ended before this."""
    last = messages[-1] if messages else None
    if not isinstance(last, ToolMessage):
        return None
    found: Mapping[str, Any] | None = last.response_metadata.get(exits.KEY)
    inside = found is not None and found.get("inside")  # of an agent in the call
    return None if inside else found


def _is_refused(messages: Sequence[BaseMessage]) -> bool:
    """Whether the model has called once already after the end."""
    last = messages[-1]
    return isinstance(last, ToolMessage) and mark_of(last).get("blocked") == "over"


def _exit(
    verdict: Verdict, memory: Memory, messages: Sequence[BaseMessage]
) -> Mapping[str, Any] | None:
    if verdict.action != "exit":
        return None
    reason = "loop" if verdict.exceeded is None else "budget"
    why = verdict.exceeded or (verdict.finding and verdict.finding.detail)
    return exits.report(reason, str(why), memory, messages, verdict)


def _noted(
    result: ToolMessage, text: str, report: Mapping[str, Any] | None
) -> ToolMessage:
    """A result with the note after it, and the report if the run is over."""
    told = with_advice(result, f"\n{text}")
    if report is None:
        return told
    metadata = {**told.response_metadata, exits.KEY: dict(report)}
    return told.model_copy(update={"response_metadata": metadata})


def _with(out: Any, old: ToolMessage, new: ToolMessage, key: str) -> Any:
    """What the node returns, with `new` in the place of `old`, wherever that is."""
    if out is old:
        return new
    if isinstance(out, list):
        return [_with(part, old, new, key) for part in out]
    return rewritten(out, key, lambda found: [new if m is old else m for m in found])
