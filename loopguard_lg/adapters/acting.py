"""The acts, on the messages of a host: what helps an agent beside stopping it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from loopguard_lg import prompts
from loopguard_lg.acts import (
    advisors,
    cache,
    calls,
    decoding,
    polling,
    receipts,
    retries,
    state,
)
from loopguard_lg.adapters import remembered
from loopguard_lg.adapters.driving import CutOffError, Do, Run, Work
from loopguard_lg.adapters.messages import (
    is_idempotent,
    is_word,
    mark_of,
    newest_reply,
    pair,
    refused,
    role_of,
    step_of,
    with_advice,
)
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.transcript import results_after
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.redaction.logs import note_failure
from loopguard_lg.roles import name_role
from loopguard_lg.steps import Event, Human, Step
from loopguard_lg.tools import ToolPolicy

_DEFAULT = ToolPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call that a host is about to execute, and what is known then.

    Attributes:
        call: The call.
        memory: The guard's memory.
        messages: The messages of the state.
        tools: The tools by name, as far as the host knows them.
        left: Seconds left in the budget; `None` for no limit.
    """

    call: Mapping[str, Any]
    memory: Memory
    messages: Sequence[BaseMessage]
    tools: Mapping[str, BaseTool]
    left: float | None = None

    @property
    def host(self) -> Mapping[str, Any]:
        """What the adapter keeps in the guard's memory."""
        host: Mapping[str, Any] = self.memory["host"]
        return host

    @property
    def acts(self) -> Mapping[str, Any]:
        """What the acts remember."""
        return self.host.get("acts") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """The acts of one guard.

    Attributes:
        policy: The settings.
        sleep: Lets seconds pass.
        asleep: The same on an event loop.
    """

    policy: Policy
    sleep: Callable[[float], Any]
    asleep: Callable[[float], Awaitable[Any]]

    def advised(self, ask: Ask, result: ToolMessage) -> ToolMessage:
        """The result of a call, with advice after it where an advisor has some.

        Another guard may have advised already.
        """
        policy, mark = self.policy, mark_of(result)
        settings = policy.tools.get(ask.call["name"], _DEFAULT)
        if not settings.advise or policy.observe_only or "advised" in mark:
            return result
        try:
            step = step_of(ask.call, result, mark, ask.tools.get(ask.call["name"]))
            found = advisors.result_of(step, settings.role)
            heard = advisors.DEFAULTS if policy.advisors is None else policy.advisors
            facts = remembered.facts(ask.messages, ask.tools)
            advice = advisors.advise(heard, step, found, facts)
        except Exception:  # an advisor that fails has no advice
            note_failure(policy, "an advisor failed and was left out")
            return result
        return with_advice(result, advice) if advice else result

    def answered(
        self, ask: Ask, ahead: Sequence[Mapping[str, Any]]
    ) -> ToolMessage | None:
        """The answer to a call that need not or must not be made now.

        Args:
            ask: The call.
            ahead: Calls of its batch that stand before it and have no result yet.
        """
        way = decoding.due(self.policy.ladder, ask.memory["ladder"])
        barred = self._barred(ask, way) if way.bars else None
        if barred or not self._concerns(ask.call["name"], ask.tools):
            return barred
        plan = self._plan(ask, ask.call)
        if plan.role == "poll":
            return self._polled(ask, plan)
        if not plan.policy.cache and not plan.policy.once:
            return None
        return self._kept(ask, plan, ahead)

    def _barred(self, ask: Ask, way: decoding.Decoding) -> ToolMessage | None:
        """The answer to a call of a tool that is left out for now."""
        name, left = ask.call["name"], self.offered(way, ask.tools)
        if name in left or name not in ask.tools:
            return None
        names = [other for other in ask.tools if other in left]
        return refused(ask.call, prompts.barred(name, names), "barred")

    def _kept(
        self, ask: Ask, plan: calls.Made, ahead: Sequence[Mapping[str, Any]]
    ) -> ToolMessage | None:
        """What came of the same call earlier, where that stands in its place."""
        others = [self._plan(ask, call) for call in ahead]
        reply, results = newest_reply(ask.messages)
        batch = remembered.batch(self.policy, reply, results, ask.tools)
        others += [one for one in batch if one.worked]
        if receipts.is_done(ask.acts.get("done", []), plan):
            return remembered.again(
                ask.call,
                remembered.receipt(self.policy, ask.messages, ask.tools, plan),
                prompts.done(),
            )
        if receipts.is_lost(ask.acts.get("lost", []), plan):
            return remembered.again(ask.call, None, prompts.lost())
        if receipts.is_twin(plan, others):
            return remembered.again(ask.call, None, prompts.twin())
        where = cache.find(ask.acts.get("cache", []), plan, others)
        found = where and remembered.there(ask.messages, *where)
        return remembered.again(ask.call, found, prompts.cached()) if found else None

    def made(
        self, ask: Ask, ahead: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any]]:
        """Those of the calls ahead that are made, and not answered from memory."""
        known = [self.policy.tools.get(call["name"], _DEFAULT) for call in ahead]
        if not any(settings.cache or settings.once for settings in known):
            return ahead
        return [
            call
            for n, call in enumerate(ahead)
            if self.answered(replace(ask, call=call), ahead[:n]) is None
        ]

    def asked(
        self, reply: AIMessage, tools: Mapping[str, BaseTool]
    ) -> dict[str, list[int]]:
        """The calls of a reply that are made at most once, for `noted`."""
        known, calls_ = self.policy.tools, reply.tool_calls
        once = [c for c in calls_ if known.get(c["name"], _DEFAULT).once]
        steps = (step_of(call, None, {}, tools.get(call["name"])) for call in once)
        digests = [calls.planned(step, known).digest for step in steps]
        return {"once": digests} if digests else {}

    def offered(self, way: decoding.Decoding, tools: Mapping[str, Any]) -> set[str]:
        """The names of the tools that are left for a turn."""
        known = self.policy.tools
        roles = {
            name: decoding.role(name, known.get(name), role_of(tool))
            for name, tool in tools.items()
        }
        return decoding.offered(way, roles)

    def _concerns(self, name: str, tools: Mapping[str, BaseTool]) -> bool:
        """Whether an act may have something to do with calls of a tool."""
        if name in self.policy.tools:
            return True
        polls = role_of(tools.get(name)) == "poll" or name_role(name)[0] == "poll"
        return polls and "poll" not in self.policy.acts_off

    def _concerned(
        self, reply: AIMessage | None, tools: Mapping[str, BaseTool]
    ) -> bool:
        """Whether an act may have something to do with a call of the reply."""
        calls_ = reply.tool_calls if reply is not None else ()
        return any(self._concerns(call["name"], tools) for call in calls_)

    def _plan(self, ask: Ask, call: Mapping[str, Any]) -> calls.Made:
        step = step_of(call, None, {}, ask.tools.get(call["name"]))
        return calls.planned(step, self.policy.tools)

    def _polled(self, ask: Ask, plan: calls.Made) -> ToolMessage | None:
        polls = ask.acts.get("polls", [])
        late = ask.left is not None and polling.pause(polls, plan) >= max(
            ask.left, 0.01
        )
        if not late and not polling.is_over(polls, plan):
            return None
        name, times = ask.call["name"], polling.times(polls, plan)
        return refused(ask.call, prompts.polled(name, times, [*ask.tools]), "poll")

    def prepared(self, ask: Ask) -> Mapping[str, Any]:
        """The call as it is to be executed: with its key, where its tool takes one."""
        call, host = ask.call, ask.host
        settings = self.policy.tools.get(call["name"], _DEFAULT)
        if settings.idempotency_key is None or self.policy.observe_only:
            return call
        thread, word = host.get("thread"), host.get("word")
        if not (thread or word):  # a call by itself: the key of any other one like it
            return call
        key = receipts.key(str(thread), str(word), self._plan(ask, call))
        return {**call, "args": {**call["args"], settings.idempotency_key: key}}

    def is_alone(self, ask: Ask) -> bool:
        """Whether a call has to be executed apart from the others of its batch.

        One that is made at most once is: where a call beside it raises or interrupts,
        nobody would see that it has worked.
        """
        concerned = self._concerns(ask.call["name"], ask.tools)
        if self.policy.observe_only or not concerned:
            return False
        plan = self._plan(ask, ask.call)
        pause = polling.pause(ask.acts.get("polls", []), plan)
        return plan.policy.once or pause > 0 or _is_retried(ask, plan)

    def executed(
        self,
        ask: Ask,
        run: Callable[[float | None], Run],
        step: Callable[[Any], Step | None],
        passed: Callable[[], float],
        mark: dict[str, Any],
    ) -> Work[Any]:
        """Execute a call after the pause that is due, and again where it may pass.

        Args:
            ask: The call.
            run: Makes what is to be run, from the seconds left.
            step: Reads what came out.
            passed: Seconds since the call began.
            mark: Is told of pauses and tries.

        Raises:
            Exception: What the newest try raised.
        """
        if not self.is_alone(ask):
            return (yield run(ask.left))
        plan = self._plan(ask, ask.call)
        idle = yield from self._paused(ask, plan, mark)
        attempt, slept, start = 0, 0.0, idle
        while True:
            attempt += 1
            left = None if ask.left is None else max(0.0, ask.left - passed())
            out, error = yield from _tried(run(left))
            again = None
            if _is_retried(ask, plan):
                again = retries.pause(
                    plan,
                    attempt,
                    passed() - start,
                    idle=slept,
                    left=left,
                    step=None if error else step(out),
                    error=error,
                )
            if again is None:
                break
            slept += again
            mark["attempts"] = attempt + 1
            yield self._pause(again)
        if error is not None:
            raise error
        return out

    def _paused(self, ask: Ask, plan: calls.Made, mark: dict[str, Any]) -> Work[float]:
        """Wait as long as a poll has to; the time that the model took counts."""
        due = polling.pause(ask.acts.get("polls", []), plan)
        thought = (ask.host.get("open") or {}).get("seconds") or 0
        seconds = max(0.0, due - thought)
        if due > 0:
            mark["waited"] = due
        if seconds > 0:
            yield self._pause(seconds)
        return seconds

    def _pause(self, seconds: float) -> Do:
        return Do(partial(self.sleep, seconds), partial(self.asleep, seconds))

    def noted(
        self,
        host: Mapping[str, Any],
        scene: Scene,
        fresh: Mapping[str, Any],
        events: Sequence[Event],
    ) -> dict[str, Any]:
        """What the acts remember, now that a reply's calls have their results.

        Args:
            host: What the adapter knew before.
            scene: What the host knows.
            fresh: What the adapter knows now.
            events: What has happened since.
        """
        opened, known = host.get("open") or {}, host.get("acts") or {}
        reply, results, lost = _ended(opened, scene.messages)
        if not (known or lost or self._concerned(reply, scene.tools)):
            return {}
        batch = remembered.batch(self.policy, reply, results, scene.tools)
        said = any(isinstance(event, Human) for event in events)
        new = "word" in fresh and fresh["word"] != host.get("forked")
        return state.after(known, batch, new_word=new, answered=said, lost=lost)

    def derived(
        self, messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]
    ) -> dict[str, Any]:
        """What the acts remember of a run that is known by its messages alone.

        Args:
            messages: The conversation, or the newest run of it.
            tools: The tools by name.
        """
        acts: dict[str, Any] = {}
        for at, message in enumerate(messages):
            if is_word(message):
                acts = {}
            elif isinstance(message, AIMessage) and (
                acts
                or any(self._concerns(c["name"], tools) for c in message.tool_calls)
            ):
                results = [*results_after(messages[at + 1 :])]
                batch = remembered.batch(self.policy, message, results, tools)
                acts = state.after(acts, batch, answered=_has_asked(message, results))
        return acts


def _ended(
    opened: Mapping[str, Any], messages: Sequence[BaseMessage]
) -> tuple[AIMessage | None, list[ToolMessage], Sequence[int] | None]:
    """The reply whose calls were under way, and their results.

    Where it is gone, the calls of it that are made at most once in place of both.
    """
    if not (id_ := opened.get("id")):
        return None, [], None
    reply, results = newest_reply(messages, id_)
    return reply, results, opened.get("once", []) if reply is None else None


def _is_retried(ask: Ask, plan: calls.Made) -> bool:
    idempotent = is_idempotent(ask.tools.get(ask.call["name"]))
    return retries.is_retried(plan, idempotent=idempotent)


def _has_asked(reply: AIMessage, results: Sequence[ToolMessage]) -> bool:
    """Whether a person has answered a question in the reply."""
    return any(
        call["name"] == "ask_user" and found is not None and found.status != "error"
        for call, found in pair(reply, results)
    )


def _tried(run: Run) -> Work[tuple[Any, Exception | None]]:
    """What one try gave, or raised."""
    try:
        return (yield run), None
    except (GraphBubbleUp, CutOffError):
        raise
    except Exception as error:
        return None, error
