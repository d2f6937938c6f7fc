"""The acts, on the messages of a host: what helps an agent beside stopping it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp

from loopguard_lg import hooks, prompts
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
from loopguard_lg.acts.advisors import Facts
from loopguard_lg.adapters.driving import CutOffError, Pause, Run, Work
from loopguard_lg.adapters.messages import (
    MARK,
    mark_of,
    newest_reply,
    own_content,
    own_text,
    pair,
    refused,
    role_of,
    step_of,
    with_advice,
)
from loopguard_lg.adapters.past import Scene
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.roles import name_role
from loopguard_lg.steps import Event, Human, Step
from loopguard_lg.tools import ToolPolicy

_RESULTS = 40
"""Results in which paths are looked for, the newest."""

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
            facts = _facts(ask.messages, ask.tools)
            advice = advisors.advise(heard, step, found, facts)
        except Exception:  # an advisor that fails has no advice
            hooks.logger.exception("loopguard: an advisor failed and was left out")
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
        left = self.offered(way, ask.tools) if way.bars else {ask.call["name"]}
        if ask.call["name"] in {*ask.tools} - left:
            names = [name for name in ask.tools if name in left]
            return refused(ask.call, prompts.barred(ask.call["name"], names), "barred")
        if not self._concerns(ask.call["name"], ask.tools):
            return None
        plan = self._plan(ask, ask.call)
        if plan.role == "poll":
            return self._polled(ask, plan)
        if not plan.policy.cache and not plan.policy.once:
            return None
        others = [self._plan(ask, call) for call in ahead]
        batch = _batch(self.policy, None, ask.messages, ask.tools)
        others += [one for one in batch if one.worked]
        if receipts.is_done(ask.acts.get("done", []), plan):
            return _again(ask.call, self._receipt(ask, plan), prompts.done())
        if receipts.is_twin(plan, others):
            return _again(ask.call, None, prompts.twin())
        where = cache.find(ask.acts.get("cache", []), plan, others)
        found = next(
            (m for m in reversed(ask.messages) if where and m.id == where), None
        )
        if not isinstance(found, ToolMessage):
            return None
        return _again(ask.call, found, prompts.cached())

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
        declared = name in self.policy.tools or role_of(tools.get(name)) == "poll"
        return declared or name_role(name)[0] == "poll"

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

    def _receipt(self, ask: Ask, plan: calls.Made) -> ToolMessage | None:
        """The result with which a call worked; `None` if it is no longer there."""
        for reply in (m for m in reversed(ask.messages) if isinstance(m, AIMessage)):
            for call, result in pair(reply, newest_reply(ask.messages, reply.id)[1]):
                if result is None or call["name"] != ask.call["name"]:
                    continue
                one = _made(self.policy, call, result, ask.tools)
                if one.digest == plan.digest and one.executed and one.worked:
                    return result
        return None

    def prepared(self, ask: Ask) -> Mapping[str, Any]:
        """The call as it is to be executed: with its key, where its tool takes one."""
        call, host = ask.call, ask.host
        settings = self.policy.tools.get(call["name"], _DEFAULT)
        if settings.idempotency_key is None or self.policy.observe_only:
            return call
        thread, word = str(host.get("thread")), str(host.get("word"))
        key = receipts.key(thread, word, self._plan(ask, call))
        return {**call, "args": {**call["args"], settings.idempotency_key: key}}

    def is_alone(self, ask: Ask) -> bool:
        """Whether a call has to be executed apart from the others of its batch."""
        concerned = self._concerns(ask.call["name"], ask.tools)
        if self.policy.observe_only or not concerned:
            return False
        plan = self._plan(ask, ask.call)
        pause = polling.pause(ask.acts.get("polls", []), plan)
        return pause > 0 or retries.is_retried(plan)

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
            if retries.is_retried(plan):
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
            yield Pause(again, self.sleep, self.asleep)
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
            yield Pause(seconds, self.sleep, self.asleep)
        return seconds

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
        id_, known = (host.get("open") or {}).get("id"), host.get("acts") or {}
        reply = newest_reply(scene.messages, id_)[0] if id_ else None
        calls = reply.tool_calls if reply is not None else []
        if not known and not any(self._concerns(c["name"], scene.tools) for c in calls):
            return {}
        batch = _batch(self.policy, id_, scene.messages, scene.tools) if calls else []
        said = any(isinstance(event, Human) for event in events)
        return state.after(known, batch, new_word="word" in fresh, answered=said)


def _tried(run: Run) -> Work[tuple[Any, Exception | None]]:
    """What one try gave, or raised."""
    try:
        return (yield run), None
    except (GraphBubbleUp, CutOffError):
        raise
    except Exception as error:
        return None, error


def _again(
    call: Mapping[str, Any], earlier: ToolMessage | None, said: str
) -> ToolMessage:
    """An earlier result as the result of `call`, with what is `said` after it."""
    result = ToolMessage(
        "" if earlier is None else own_content(earlier),
        name=call["name"],
        tool_call_id=call["id"] or "",
        artifact=earlier and earlier.artifact,
        response_metadata={MARK: {"cached": True}},
    )
    return with_advice(result, advisors.MARKER + said)


def _made(
    policy: Policy,
    call: Mapping[str, Any],
    result: ToolMessage,
    tools: Mapping[str, BaseTool],
) -> calls.Made:
    mark = mark_of(result)
    step = step_of(call, result, mark, tools.get(call["name"]))
    return calls.made(step, policy.tools, result.id or "", mark.get("waited", 0.0))


def _batch(
    policy: Policy,
    reply: str | None,
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
) -> list[calls.Made]:
    """The calls of a reply that have a result; `None`: of the newest reply."""
    found, results = newest_reply(messages, reply)
    if found is None:
        return []
    pairs = pair(found, results)
    return [_made(policy, c, r, tools) for c, r in pairs if r is not None]


def _facts(messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]) -> Facts:
    def schema(name: str) -> Mapping[str, Any]:
        function = convert_to_openai_tool(tools[name])["function"]
        found: Mapping[str, Any] = function.get("parameters", {})
        return found

    def paths() -> list[str]:
        results = [m for m in reversed(messages) if isinstance(m, ToolMessage)]
        told = (own_text(m) for m in results[:_RESULTS] if m.status != "error")
        return advisors.paths_in(told)

    return Facts(tools=[*tools], schema=schema, paths=paths)
