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
from dataclasses import dataclass
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
from loopguard_lg.adapters import misspelled
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import Work, adrive, drive
from loopguard_lg.adapters.kept import once
from loopguard_lg.adapters.messages import newest_reply, newest_word, refused
from loopguard_lg.adapters.past import with_host
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.tool_batch import (
    Past,
    carried,
    exit_report,
    history,
    is_first,
    is_refused,
    noted,
    replaced,
    report_of,
    results_in,
    signed,
    told_up_to,
)
from loopguard_lg.adapters.tool_call import Result, ToolCall
from loopguard_lg.adapters.transcript import current_run, events_of, judged
from loopguard_lg.engine import Verdict
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent, Observer
from loopguard_lg.ladder import AskUser, Reflect
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy

_past: ContextVar[Past] = ContextVar("loopguard_tool_node")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call(ToolCall):
    """A call of a node that has no channel."""

    past: Past

    @property
    def is_kept(self) -> bool:
        """Whether its result has to be kept, as it may be made once."""
        settings = self.guard.acts.policy.tools.get(self.request.tool_call["name"])
        return settings is not None and settings.once

    def _made(self, ask: Ask) -> Work[Result]:
        """The same result again where the node runs again, if it may be made once."""
        work = ToolCall._made(self, ask)
        config = self.request.runtime.config
        return once(self.guard.acts.policy, ask, config, self.key, work)

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
        misspelled.warn(policy, [*self.tools_by_name.values()], set())
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
            try:
                out = await super().ainvoke(input, config, **kwargs)
            except Exception:
                if past.running:  # a `ToolNode` leaves them behind
                    await asyncio.wait(past.running)
                raise
            return self._told(past, out)

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
        wrap, call = self._awrap, self._call(request)
        task = asyncio.current_task()
        if call.is_kept and task is not None:
            call.past.running.add(task)
        return await adrive(
            call.work(),
            lambda run: wrap(run.given, execute) if wrap else execute(run.given),
        )

    @contextmanager
    def _looking(self, given: Any, config: RunnableConfig | None) -> Iterator[Past]:
        past = self._before(given, ensure_config(config))
        reset = _past.set(past)
        try:
            yield past
        finally:
            _past.reset(reset)

    def _before(self, given: Any, config: RunnableConfig) -> Past:
        try:
            return self._judged(given, config)
        except LoopHaltedError:
            raise
        except Exception:  # a fault costs what would have been seen, not the calls
            hooks.logger.exception("loopguard: calls can't be judged")
            return Past()

    def _judged(self, given: Any, config: RunnableConfig) -> Past:
        policy = self._guard.policy
        run = current_run(history(given, self._key), policy)
        reply, results = newest_reply(run)
        if reply is None:
            return Past()
        before = run[: next(n for n, m in enumerate(run) if m is reply)]
        over = None if policy.observe_only else report_of(before)
        if over is not None and is_refused(before):
            raise LoopHaltedError(dict(over))
        word = newest_word(run, through=True)
        at = told_up_to(before, self._guard.agent)
        told = with_host(
            self._remembered(before[:at]),
            thread=config.get("configurable", {}).get("thread_id"),
            word=word.id if word is not None else None,
            acts=self._guard.acts.derived(before, self.tools_by_name),
        )
        return Past(
            messages=run,
            memory=self._remembered(before[at:], told),
            told=told,
            since=before[at:],
            over=over,
            tells=is_first(given, reply, results),
        )

    def _remembered(
        self, messages: Sequence[BaseMessage], memory: Memory | None = None
    ) -> Memory:
        guard = self._guard
        return judged(guard.policy, messages, self.tools_by_name, memory, guard.agent)

    def _told(self, past: Past, out: Any) -> Any:
        """What the node returns, with a note where one is due."""
        try:
            return self._with_note(past, out)
        except Exception:  # the calls were made: their results are not lost
            hooks.logger.exception("loopguard: results can't be judged")
            return out

    def _with_note(self, past: Past, out: Any) -> Any:
        if not past.messages:
            return out
        turn = past.turn(results_in(out, self._key))
        out = signed(
            carried(out, self._key), self._key, self._guard.agent, part=turn is None
        )
        if turn is None and not past.tells:
            return out  # sent out one by one: the next batch tells, and one task of it
        return self._annotated(past, turn, out)

    def _annotated(
        self, past: Past, turn: Sequence[BaseMessage] | None, out: Any
    ) -> Any:
        found = results_in(out, self._key)
        verdict, memory = self._fed(past, turn or [])
        after = [*past.messages, *found]
        report = exit_report(verdict, memory, after) or past.over
        text = self._text(verdict, memory, report)
        self._tell(past, verdict, text)
        if not text or not found or self._guard.policy.observe_only:
            return out
        return replaced(out, found[-1], noted(found[-1], text, report), self._key)

    def _text(self, verdict: Verdict, memory: Memory, report: Any) -> str:
        if report is not None:
            return prompts.ending(report["detail"])
        if verdict.finding is None or verdict.action not in ("reflect", "escalate"):
            return ""
        rung = self._guard.policy.ladder.at(verdict.rung)
        tokens = rung.tokens if isinstance(rung, Reflect) else Reflect().tokens
        tools = [*self.tools_by_name]
        return prompts.reflection(verdict.finding, memory["pad"], tools, tokens)

    def _fed(self, past: Past, turn: Sequence[BaseMessage]) -> tuple[Verdict, Memory]:
        """What is decided on a batch, or else on what led to it: turns of other agents.
        Observers hear of all of it.
        """
        guard, verdict, memory = self._guard, Verdict(), past.told
        known = [*past.since, *turn]
        for event in events_of(known, self.tools_by_name, guard.policy, guard.agent):
            found, memory = guard.feed(memory, event, past.thread)
            verdict = verdict if found.action == "continue" else found
        return verdict, memory

    def _tell(self, past: Past, verdict: Verdict, text: str) -> None:
        if verdict.action == "continue" or not text:
            return
        event = GuardEvent(
            name=_EVENTS[verdict.action],
            thread=past.thread,
            agent=self._guard.agent,
            event=None,
            verdict=verdict,
            text=text,
        )
        hooks.notify(self._guard.observers, event)


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
