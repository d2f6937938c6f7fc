"""Logs of OpenAI's chat and Responses APIs: messages with `tool_calls`, or items.

Shapes: `{"messages": [...]}` as in fine-tuning files, a bare list of messages, and a
request with its response (`choices`, or `output`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats.base import (
    Call,
    Fields,
    Format,
    Item,
    Reply,
    Word,
    answered,
    called,
    first,
    known,
    listed,
    mapping,
    run_of,
    string,
    text_of,
    tokens,
    truth,
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
    if not isinstance(record, dict):
        return listed(record)
    asked, gave = sides(record)
    given = first([asked.get("messages"), asked.get("input"), record.get("history")])
    said = [mapping(choice).get("message") for choice in listed(gave.get("choices"))]
    return [*_listed(given), *said[:1], *listed(gave.get("output"))]


def sides(record: Any) -> tuple[Fields, Fields]:
    """The request and the response in a record; it is both where it holds neither."""
    outer = mapping(record)
    asked = mapping(first([outer.get("request"), outer.get("body")]))
    return asked or outer, mapping(outer.get("response")) or outer


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
    name, text = string(message.get("name")), text_of(message.get("content"))
    match message.get("type"), message.get("role"):
        case "function_call", _:
            yield Reply(calls=[_call(message, message.get("call_id"))])
        case "function_call_output", _:
            yield answered(message.get("call_id"), text_of(message.get("output")))
        case _, "assistant":
            took = {**about, **usage_of(message)}
            calls = calls_of(message)
            yield Reply(agent=name or "main", text=text, calls=calls, about=took)
        case _, "tool" | "function":
            yield answered(message.get("tool_call_id"), text, tool=name)
        case _, "user":
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
    return called(function.get("name"), function.get("arguments"), id_)


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


def made(record: Any, key: str, found: Iterable[Item]) -> Fields:
    """The run of items, with what the record that holds them says of it."""
    outer, (asked, answer) = mapping(record), sides(record)
    return run_of(
        first([string(outer.get("id")), string(answer.get("id"))]) or key,
        found,
        model=first([string(answer.get("model")), string(asked.get("model"))]),
        success=truth(outer.get("success")),
    )


def read(records: Sequence[Any], key: str) -> Fields:
    """The run that one record holds."""
    record = records[0]
    found = items(messages_of(record), usage_of(sides(record)[1]))
    return made(record, key, found)


RUN = Format("OpenAI messages", holds_messages, read)
