"""Calls and their results as the acts look at them, read off the messages of a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from loopguard_lg.acts import advisors, calls
from loopguard_lg.acts.advisors import Facts
from loopguard_lg.adapters.messages import (
    MARK,
    mark_of,
    newest_reply,
    own_content,
    own_text,
    pair,
    step_of,
    with_advice,
)
from loopguard_lg.policy import Policy

_RESULTS = 40
"""Results in which paths are looked for, the newest."""


def again(
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


def there(
    messages: Sequence[BaseMessage], id_: str, content: int
) -> ToolMessage | None:
    """The result in the message with this id, if it is still the same."""
    found = next((m for m in reversed(messages) if m.id == id_), None)
    if not isinstance(found, ToolMessage):
        return None
    return found if calls.text_digest(own_text(found)) == content else None


def made(
    policy: Policy,
    call: Mapping[str, Any],
    result: ToolMessage | None,
    tools: Mapping[str, BaseTool],
) -> calls.Made:
    """A call with its result; without one it has not worked, as far as is known."""
    mark = mark_of(result)
    step = step_of(call, result, mark, tools.get(call["name"]))
    id_ = result.id if result is not None else None
    return calls.made(step, policy.tools, id_ or "", mark.get("waited", 0.0))


def batch(
    policy: Policy,
    reply: AIMessage | None,
    results: Sequence[ToolMessage],
    tools: Mapping[str, BaseTool],
) -> list[calls.Made]:
    """The calls of a reply with their results; none where there is no reply."""
    if reply is None:
        return []
    return [made(policy, call, r, tools) for call, r in pair(reply, results)]


def facts(messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]) -> Facts:
    """What is known beside a call, for advisors."""

    def schema(name: str) -> Mapping[str, Any]:
        function = convert_to_openai_tool(tools[name])["function"]
        found: Mapping[str, Any] = function.get("parameters", {})
        return found

    def paths() -> list[str]:
        results = [m for m in reversed(messages) if isinstance(m, ToolMessage)]
        told = (own_text(m) for m in results[:_RESULTS] if m.status != "error")
        return advisors.paths_in(told)

    return Facts(tools=[*tools], schema=schema, paths=paths)


def receipt(
    policy: Policy,
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
    plan: calls.Made,
) -> ToolMessage | None:
    """The result with which a call worked; `None` if it is no longer there."""
    for reply in (m for m in reversed(messages) if isinstance(m, AIMessage)):
        for call, result in pair(reply, newest_reply(messages, reply.id)[1]):
            if result is not None and policy.tools.get(call["name"]) is plan.policy:
                one = made(policy, call, result, tools)
                if one.digest == plan.digest and one.done:
                    return result
    return None
