"""Logs of OpenAI's chat and Responses APIs: messages with `tool_calls`, or items.

Shapes: `{"messages": [...]}` as in fine-tuning files, a bare list of messages, and a
request with its response (`choices`, or `output`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats.base import (
    Answer,
    Call,
    Fields,
    Format,
    Item,
    Reply,
    Word,
    known,
    listed,
    mapping,
    run_of,
    string,
    text_of,
    tokens,
)

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_ITEMS = frozenset({"function_call", "function_call_output", "reasoning", "message"})


def is_message(record: Any) -> bool:
    """Is it a chat message, or an item of the Responses API?"""
    if not isinstance(record, dict) or "uuid" in record:
        return False
    return record.get("role") in ROLES or (
        record.get("type") in _ITEMS and ("call_id" in record or "content" in record)
    )


def messages_of(record: Any) -> list[Any]:
    """The messages of a run: a list, or what an object holds, the response last."""
    if isinstance(record, list):
        return record
    outer = mapping(record)
    asked = mapping(outer.get("request") or outer.get("body")) or outer
    gave = mapping(outer.get("response")) or outer
    given = asked.get("messages") or asked.get("input") or outer.get("history")
    said = [mapping(choice).get("message") for choice in listed(gave.get("choices"))]
    return [*_listed(given), *said[:1], *listed(gave.get("output"))]


def _listed(given: Any) -> list[Any]:
    return [{"role": "user", "content": given}] if string(given) else listed(given)


def holds_messages(record: Any) -> bool:
    """Is it a run, by the messages that it holds?"""
    return any(is_message(message) for message in messages_of(record)[:4])


def items(messages: Sequence[Any], about: Fields | None = None) -> Iterator[Item]:
    """What messages tell; `about` goes with the last reply."""
    last = max((n for n, m in enumerate(messages) if _replies(m)), default=-1)
    for n, message in enumerate(messages):
        yield from _message(mapping(message), (about or {}) if n == last else {})


def _replies(message: Any) -> bool:
    return mapping(message).get("role") == "assistant"


def _message(message: Fields, about: Fields) -> Iterator[Item]:
    role, kind = message.get("role"), message.get("type")
    text = text_of(message.get("content"))
    if kind == "function_call":
        yield Reply(calls=[_call(message, message.get("call_id"))])
    elif kind == "function_call_output":
        output = text_of(message.get("output"))
        yield Answer(id=str(message.get("call_id") or ""), text=output)
    elif role == "assistant":
        yield Reply(
            agent=string(message.get("name")) or "main",
            text=text,
            calls=calls_of(message),
            about={**about, **usage_of(message)},
        )
    elif role in ("tool", "function"):
        name = str(message.get("name") or "")
        yield Answer(id=str(message.get("tool_call_id") or ""), tool=name, text=text)
    elif role == "user":
        yield Word(text=text)


def calls_of(message: Fields) -> list[Call]:
    """The calls of a reply, the single `function_call` of old included."""
    found = [
        _call(mapping(mapping(call).get("function")) or mapping(call), call.get("id"))
        for call in map(mapping, listed(message.get("tool_calls")))
    ]
    if not found and (old := mapping(message.get("function_call"))):
        found = [_call(old, "")]
    return found


def _call(function: Fields, id_: Any) -> Call:
    name = str(function.get("name") or "unknown")
    return Call(tool=name, args=function.get("arguments"), id=str(id_ or ""))


def usage_of(record: Fields) -> dict[str, Any]:
    """The model and what it took, as keys of a step."""
    usage = mapping(record.get("usage"))
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    spent = tokens(
        usage.get("prompt_tokens", usage.get("input_tokens")),
        usage.get("completion_tokens", usage.get("output_tokens")),
        mapping(details).get("cached_tokens"),
    )
    return known(model=string(record.get("model")), tokens=spent)


def read_run(records: Sequence[Any], key: str) -> Fields:
    """The run that one record holds."""
    record = records[0]
    return read(messages_of(record), mapping(record), key)


def read(messages: Sequence[Any], outer: Fields, key: str) -> Fields:
    """The run of messages; `outer` is the object that they stand in."""
    answer = mapping(outer.get("response")) or outer
    asked = mapping(outer.get("request") or outer.get("body")) or outer
    model = string(answer.get("model")) or string(asked.get("model"))
    name = string(outer.get("id")) or string(answer.get("id")) or key
    success = outer.get("success")
    return run_of(
        name,
        items(messages, usage_of(answer)),
        model=model,
        success=success if isinstance(success, bool) else None,
    )


RUN = Format("OpenAI messages", holds_messages, read_run)
