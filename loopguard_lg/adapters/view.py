"""What the model is shown: a filtered copy of the messages, never a changed state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from loopguard_lg import prompts
from loopguard_lg.adapters.messages import MARK, mark_of, note, pair

_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})


def without(
    messages: Sequence[BaseMessage], hidden: Iterable[Sequence[Any]]
) -> list[BaseMessage]:
    """The messages without the turns that were gone back over.

    Args:
        messages: As they are in the state.
        hidden: Ranges as (id of the last message before, id of the last one in it,
            text that stands in their place). Only replies and results are left out,
            what a person said stays. A start that is gone (compacted) is the
            beginning; a range whose end is gone is over.
    """
    out = list(messages)
    for start, end, text in hidden:
        at = {message.id: n for n, message in enumerate(out)}
        if end not in at:
            continue
        first, last = at.get(start, -1) + 1, at[end] + 1
        kept = [
            m for m in out[first:last] if not isinstance(m, AIMessage | ToolMessage)
        ]
        out[first:last] = [*kept, note(text or prompts.left_out())]
    return out


def answered(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with every call answered directly after its reply, in order.

    A cancelled run leaves calls without results, and other middlewares answer some
    calls of a batch before the rest, or say something between; strict providers
    refuse all of it.
    """
    out: list[BaseMessage] = []
    moved: set[int] = set()
    for n, message in enumerate(messages):
        if n in moved:
            continue
        out.append(message)
        if isinstance(message, AIMessage):
            places = _following(messages, n + 1)
            moved.update(places)
            out.extend(_completed(message, [messages[at] for at in places]))
    return out


def completed(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages with every call of the newest reply answered, in order.

    Those are all that may be new to a state which has the others.
    """
    calling = (n for n, m in enumerate(messages) if getattr(m, "tool_calls", None))
    at = max(calling, default=None)
    if at is None:
        return messages
    return [*messages[:at], *answered(messages[at:])]


def _following(messages: Sequence[BaseMessage], at: int) -> list[int]:
    """Where the results of a reply are: up to the next one."""
    places: list[int] = []
    for n in range(at, len(messages)):
        if isinstance(messages[n], AIMessage):
            break
        if isinstance(messages[n], ToolMessage):
            places.append(n)
    return places


def _completed(reply: AIMessage, results: list[Any]) -> list[ToolMessage]:
    calls = [*reply.tool_calls, *reply.invalid_tool_calls]
    asked = reply.model_copy(update={"tool_calls": calls})
    out = [found or _missing(call) for call, found in pair(asked, results)]
    known = {id(message) for message in out}
    return [*out, *(message for message in results if id(message) not in known)]


def _missing(call: Mapping[str, Any]) -> ToolMessage:
    text = prompts.no_result()
    if call.get("type") == "invalid_tool_call":
        text = prompts.not_json(call["name"] or "unknown", call["error"])
    return ToolMessage(
        text, name=call["name"], tool_call_id=call["id"] or "", status="error"
    )


def native(messages: Sequence[BaseMessage], model: str | None) -> list[BaseMessage]:
    """The messages without reasoning blocks that another model than `model` wrote."""
    return [
        _plain(message)
        if isinstance(message, AIMessage) and _author(message) != model
        else message
        for message in messages
    ]


def signed(reply: AIMessage, model: str | None) -> AIMessage:
    """The reply with the name of the model that was asked.

    The name that a provider reports may be another one: dated, or of a deployment.
    """
    mark = {**mark_of(reply), "model": model}
    metadata = {**reply.response_metadata, MARK: mark}
    return reply.model_copy(update={"response_metadata": metadata})


def _author(reply: AIMessage) -> Any:
    mark = reply.response_metadata.get(MARK)
    if isinstance(mark, Mapping) and "model" in mark:
        return mark["model"]
    return reply.response_metadata.get("model_name")


def _plain(reply: AIMessage) -> AIMessage:
    changes: dict[str, Any] = {}
    if isinstance(reply.content, list):
        kept = [
            block
            for block in reply.content
            if not (isinstance(block, dict) and block.get("type") in _REASONING)
        ]
        if len(kept) < len(reply.content):
            changes["content"] = kept
    if "reasoning_content" in reply.additional_kwargs:
        changes["additional_kwargs"] = {
            key: value
            for key, value in reply.additional_kwargs.items()
            if key != "reasoning_content"
        }
    return reply.model_copy(update=changes) if changes else reply
