"""The acts, on the messages of a host: what helps an agent beside stopping it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from loopguard_lg import hooks, prompts
from loopguard_lg.acts import advisors, cache, calls, receipts, state
from loopguard_lg.acts.advisors import Facts
from loopguard_lg.adapters.messages import (
    MARK,
    newest_reply,
    own_content,
    own_text,
    pair,
    step_of,
    with_advice,
)
from loopguard_lg.adapters.past import Scene
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event, Human
from loopguard_lg.tools import ToolPolicy

_RESULTS = 40
"""Results in which paths are looked for, the newest."""

_DEFAULT = ToolPolicy()


def advised(
    policy: Policy,
    result: ToolMessage,
    call: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
) -> ToolMessage:
    """The result of a call, with advice after it where an advisor has some.

    Args:
        policy: The settings.
        result: The tool's result; another guard may have advised already.
        call: The call.
        messages: The messages of the state.
        tools: The tools by name.
    """
    settings = policy.tools.get(call["name"], _DEFAULT)
    mark = result.response_metadata.get(MARK) or {}
    if not settings.advise or policy.observe_only or "advised" in mark:
        return result
    try:
        step = step_of(call, result, mark, tools.get(call["name"]))
        found = advisors.result_of(step, settings.role)
        heard = advisors.DEFAULTS if policy.advisors is None else policy.advisors
        advice = advisors.advise(heard, step, found, _facts(messages, tools))
    except Exception:  # an advisor that fails has no advice
        hooks.logger.exception("loopguard: an advisor failed and was left out")
        return result
    return with_advice(result, advice) if advice else result


def recalled(
    policy: Policy,
    acts: Mapping[str, Any] | None,
    call: Mapping[str, Any],
    ahead: Sequence[Mapping[str, Any]],
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
) -> ToolMessage | None:
    """The earlier result of a call that need not or must not be made again.

    Args:
        policy: The settings.
        acts: What the acts remember.
        call: The call.
        ahead: Calls of its batch that stand before it and have no result yet.
        messages: The messages of the state.
        tools: The tools by name.
    """
    settings = policy.tools.get(call["name"], _DEFAULT)
    if not settings.cache and not settings.once:
        return None
    plan = calls.planned(step_of(call, None, {}, tools.get(call["name"])), policy.tools)
    others = [
        calls.planned(step_of(c, None, {}, tools.get(c["name"])), policy.tools)
        for c in ahead
    ]
    others += [one for one in _batch(policy, None, messages, tools) if one.worked]
    known = acts or {}
    if receipts.is_done(known.get("done", []), plan):
        return _again(call, _receipt(policy, plan, messages, tools), prompts.done())
    if receipts.is_twin(plan, others):
        return _again(call, None, prompts.twin())
    where = cache.find(known.get("cache", []), plan, others)
    found = next((m for m in reversed(messages) if where and m.id == where), None)
    if not isinstance(found, ToolMessage):
        return None
    return _again(call, found, prompts.cached())


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


def _receipt(
    policy: Policy,
    plan: calls.Made,
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
) -> ToolMessage | None:
    """The result with which a call worked; `None` if it is no longer there."""
    replies = [m for m in reversed(messages) if isinstance(m, AIMessage)]
    for reply in replies:
        for call, result in pair(reply, newest_reply(messages, reply.id)[1]):
            if result is None or call["name"] not in policy.tools:
                continue
            one = _made(policy, call, result, tools)
            if one.digest == plan.digest and one.executed and one.worked:
                return result
    return None


def _made(
    policy: Policy,
    call: Mapping[str, Any],
    result: ToolMessage,
    tools: Mapping[str, BaseTool],
) -> calls.Made:
    mark = result.response_metadata.get(MARK) or {}
    step = step_of(call, result, mark, tools.get(call["name"]))
    return calls.made(step, policy.tools, result.id or "")


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


def keyed(
    policy: Policy,
    host: Mapping[str, Any],
    call: Mapping[str, Any],
    tools: Mapping[str, BaseTool],
) -> Mapping[str, Any]:
    """The call with its idempotency key, where its tool takes one."""
    settings = policy.tools.get(call["name"], _DEFAULT)
    if settings.idempotency_key is None:
        return call
    plan = calls.planned(step_of(call, None, {}, tools.get(call["name"])), policy.tools)
    key = receipts.key(str(host.get("thread")), str(host.get("word")), plan)
    return {**call, "args": {**call["args"], settings.idempotency_key: key}}


def noted(
    policy: Policy,
    host: Mapping[str, Any],
    scene: Scene,
    fresh: Mapping[str, Any],
    events: Sequence[Event],
) -> dict[str, Any]:
    """What the acts remember, now that a reply's calls have their results.

    Args:
        policy: The settings.
        host: What the adapter knew before.
        scene: What the host knows.
        fresh: What the adapter knows now.
        events: What has happened since.
    """
    opened = host.get("open") or {}
    batch = []
    if opened.get("id") and policy.tools:
        batch = _batch(policy, opened["id"], scene.messages, scene.tools)
    said = any(isinstance(event, Human) for event in events)
    return state.after(host.get("acts"), batch, new_word="word" in fresh, answered=said)


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
