"""Messages of LangChain as data: dumped, serialized, or out of a checkpoint.

A message is `{"type": "ai", ...}`, with its fields beside it or in `data`, or a
constructor (`{"lc": 1, "id": [..., "AIMessage"], "kwargs": {...}}`). The guard's own
notes are left out, and its marks on results are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from loopguard_lg import prompts
from loopguard_lg.traces.formats import openai
from loopguard_lg.traces.formats.base import (
    Act,
    Answer,
    Call,
    Cut,
    Fields,
    Format,
    Item,
    Reply,
    Word,
    called,
    known,
    listed,
    mapping,
    run_of,
    string,
    tokens,
)

_MARK, _EXIT = "loopguard", "loopguard_exit"
_KINDS = {
    "human": "human", "HumanMessage": "human", "HumanMessageChunk": "human",
    "ai": "ai", "AIMessage": "ai", "AIMessageChunk": "ai",
    "tool": "tool", "ToolMessage": "tool", "ToolMessageChunk": "tool",
    "system": "system", "SystemMessage": "system", "remove": "remove",
}  # fmt: skip


def is_message(record: Any) -> bool:
    """Is it a message?"""
    kind, fields = parted(record)
    return bool(kind) and ("content" in fields or kind == "remove")


def parted(record: Any) -> tuple[str, Fields]:
    """The kind of a message (`human`, `ai`, `tool`, ...) and its fields."""
    outer = mapping(record)
    if outer.get("type") == "constructor":
        path = [*listed(outer.get("id"))] or [""]
        return _KINDS.get(str(path[-1]), ""), mapping(outer.get("kwargs"))
    fields = mapping(outer.get("data")) or outer
    return _KINDS.get(str(outer.get("type")), ""), fields


def items(messages: Iterable[Any]) -> Iterator[Item]:
    """What messages tell; chat messages with a `role` are read as OpenAI's."""
    asked: set[str] = set()
    for message in messages:
        kind, fields = parted(message)
        if not kind:
            yield from openai.items([message])
        elif kind == "ai":
            yield from _reply(fields, asked)
        elif kind == "tool":
            yield from _answer(fields, asked)
        elif kind == "human":
            yield from _human(fields)
        elif kind == "remove":
            yield Cut(agent="")


def _reply(fields: Fields, asked: set[str]) -> Iterator[Item]:
    """A reply; one that the guard made in the model's place is an act of its own."""
    report = mapping(fields.get("response_metadata")).get(_EXIT)
    calls = calls_of(fields)
    if report is None:
        yield reply(fields)
    elif calls:
        asked |= {call.id for call in calls}
        yield Act(name="asked", text=text_of(fields.get("content")))
    else:
        reason = string(mapping(report).get("reason"))
        text = text_of(fields.get("content"))
        yield Act(name="exited", text=text, reason=reason)


def reply(fields: Fields, **about: Any) -> Reply:
    """The reply of a model."""
    metadata = mapping(fields.get("response_metadata"))
    usage = mapping(fields.get("usage_metadata"))
    cached = mapping(usage.get("input_token_details")).get("cache_read")
    spent = tokens(usage.get("input_tokens"), usage.get("output_tokens"), cached)
    model = string(metadata.get("model_name") or metadata.get("model"))
    nested = _nested(mapping(metadata.get(_MARK)))
    return Reply(
        agent=string(fields.get("name")) or "",
        text=text_of(fields.get("content")),
        calls=calls_of(fields),
        about={**known(model=model, tokens=spent, nested=nested or None), **about},
    )


def calls_of(fields: Fields) -> list[Call]:
    """The calls of a reply, those that can't be read included."""
    calls = [*listed(fields.get("tool_calls"))]
    more = mapping(fields.get("additional_kwargs"))
    if not calls:
        return openai.calls_of(more)
    return [
        called(call.get("name"), call.get("args"), call.get("id"))
        for call in map(mapping, calls)
    ]


def _answer(fields: Fields, asked: set[str]) -> Iterator[Item]:
    """A result, as the guard of a live run judges it."""
    id_ = str(fields.get("tool_call_id") or "")
    metadata = mapping(fields.get("response_metadata"))
    mark = mapping(metadata.get(_MARK))
    if id_ in asked:
        yield Word(text=text_of(fields.get("content")), answer=True)
        return
    failed = fields.get("status") == "error" or _EXIT in metadata
    yield Answer(
        id=id_,
        tool=str(fields.get("name") or ""),
        text=_own_text(text_of(fields.get("content")), mark),
        error=True if failed else None,
        about=_about(mark),
        turn=_turn(mark),
    )


def _own_text(text: str, mark: Fields) -> str:
    """The text without the guard's advice at its end."""
    size = mark.get("advised")
    return text[: len(text) - size] if isinstance(size, int) and size > 0 else text


def _about(mark: Fields) -> dict[str, Any]:
    cached = bool(mark.get("cached")) or None
    return known(
        seconds=mark.get("seconds"),
        blocked=bool(mark.get("blocked")) or None,
        cached=cached,
        changed_state=False if cached else None,
        attempts=mark.get("attempts"),
        state=mark.get("state"),
    )


def _turn(mark: Fields) -> dict[str, Any]:
    touched = [
        {"path": path, "t": t, "size": size}
        for path, t, size in listed(mark.get("touched"))
    ]
    progress = string(mark.get("progress"))
    nested = _nested(mark)
    return known(progress=progress, touched=touched or None, nested=nested or None)


def _nested(mark: Fields) -> list[dict[str, Any]]:
    return [
        {
            "model_calls": one.get("model_calls"),
            "tokens": known(
                input=one.get("input"),
                output=one.get("output"),
                estimated=one.get("estimated"),
            ),
            "cost": one.get("cost"),
        }
        for one in map(mapping, listed(mark.get("nested")))
    ]


def _human(fields: Fields) -> Iterator[Item]:
    """What a person said; a summary in a person's place is a compaction."""
    source = mapping(fields.get("additional_kwargs")).get("lc_source")
    if source == "summarization":
        yield Cut(agent="")
    elif source is None and fields.get("name") != prompts.NAME:
        yield Word(text=text_of(fields.get("content")))


def text_of(content: Any) -> str:
    """The text of a message; blocks that are not text are given as JSON."""
    if isinstance(content, list):
        return "\n".join(map(_block, content))
    return content if isinstance(content, str) else ""


def _block(block: Any) -> str:
    text = mapping(block).get("text", block)
    if isinstance(text, str):
        return text
    return orjson.dumps(block, option=orjson.OPT_SORT_KEYS).decode()


def _messages(record: Any) -> list[Any]:
    outer = mapping(record)
    inner = mapping(outer.get("values")) or mapping(outer.get("state")) or outer
    return record if isinstance(record, list) else listed(inner.get("messages"))


def _holds(record: Any) -> bool:
    # A few will do: a whole history is not looked at to tell its format.
    return any(map(is_message, _messages(record)[:4]))


def _read(records: Sequence[Any], key: str) -> Fields:
    name = string(mapping(records[0]).get("thread_id")) or key
    return run_of(name, items(_messages(records[0])), source="langchain")


RUN = Format("LangChain messages", _holds, _read)
