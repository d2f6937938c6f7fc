"""Logs of Anthropic's Messages API: content blocks, `tool_use` and `tool_result`.

The same shapes as those of `openai`, told by their blocks; a response stands in
`response`, or its `content` beside the `messages` of the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats import openai
from loopguard_lg.traces.formats.base import (
    Fields,
    Format,
    Item,
    Reply,
    Word,
    answered,
    called,
    known,
    listed,
    mapping,
    string,
    text_of,
    tokens,
    whole,
)

_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "server_tool_use"})


def is_message(record: Any) -> bool:
    """Is it a message with blocks that only this API has?"""
    if not openai.is_message(record):
        return False
    blocks = map(mapping, listed(record.get("content")))
    return any(block.get("type") in _BLOCKS for block in blocks)


def _holds(record: Any) -> bool:
    _, answer = openai.sides(record)
    whole_answer = answer.get("type") == "message" and "stop_reason" in answer
    return whole_answer or any(map(is_message, openai.messages_of(record)))


def items(messages: Sequence[Any]) -> Iterator[Item]:
    """What messages tell."""
    for message in map(mapping, messages):
        if message.get("role") == "assistant":
            yield reply(message)
        elif message.get("role") == "user":
            yield from said(message.get("content"))


def reply(message: Fields, **about: Any) -> Reply:
    """A reply: its text and its calls."""
    blocks = [*map(mapping, listed(message.get("content")))]
    calls = [
        called(block.get("name"), block.get("input"), block.get("id"))
        for block in blocks
        if block.get("type") in ("tool_use", "server_tool_use")
    ]
    return Reply(text=spoken(message.get("content")), calls=calls, about=about)


def said(content: Any) -> Iterator[Item]:
    """The results in a message of the user's, and what a person says beside them."""
    blocks = [*map(mapping, listed(content))]
    for block in blocks:
        if block.get("type") == "tool_result":
            failed = True if block.get("is_error") is True else None
            text = text_of(block.get("content"))
            yield answered(block.get("tool_use_id"), text, failed)
    answers = any(block.get("type") == "tool_result" for block in blocks)
    if (text := spoken(content)) or not answers:
        yield Word(text=text)


def spoken(content: Any) -> str:
    """The text of a message without its blocks of other kinds."""
    if not isinstance(content, list):
        return text_of(content)
    texts = [block for block in map(mapping, content) if block.get("type") == "text"]
    return "\n".join(text_of(block) for block in texts)


def usage_of(message: Fields) -> dict[str, Any]:
    """The model and what it took; what the cache holds counts as given."""
    usage = mapping(message.get("usage"))
    cached = whole(usage.get("cache_read_input_tokens")) or 0
    made = whole(usage.get("cache_creation_input_tokens")) or 0
    given = whole(usage.get("input_tokens"))
    taken = usage.get("output_tokens")
    read = None if given is None else given + made + cached
    model = string(message.get("model"))
    return known(model=model, tokens=tokens(read, taken, cached))


def _read(records: Sequence[Any], key: str) -> Fields:
    _, answer = openai.sides(records[0])
    found = [*items(openai.messages_of(records[0]))]
    if answer.get("type") == "message":
        found.append(reply(answer, **usage_of(answer)))
    return openai.made(records[0], key, found)


RUN = Format("Anthropic messages", _holds, _read)


def _read_lines(records: Sequence[Any], key: str) -> Fields:
    """A conversation of one message a line, of either API."""
    read = _read if any(map(is_message, records)) else openai.read
    return read([list(records)], key)


LINES = Format("chat messages", openai.is_message, _read_lines, lambda _: [""])
"""One message a line; most lines look the same for both APIs."""
