"""Spans with the conventions of OpenInference (Phoenix, Arize): `LLM`, `TOOL`, `AGENT`.

Attributes are flat (`llm.output_messages.0.message.content`) or nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loopguard_lg.traces.formats import openai
from loopguard_lg.traces.formats.base import (
    Answer,
    Fields,
    Reply,
    first,
    known,
    mapping,
    real,
    run_of,
    string,
    text_of,
    tokens,
)
from loopguard_lg.traces.formats.genai import decoded
from loopguard_lg.traces.formats.spans import Seen, Span, agents_of, in_order, unread

KIND = "openinference.span.kind"


def run(spans: Sequence[Span], name: str) -> Fields:
    """The run that the spans of a trace make."""
    trees = {span.id: nested(span.about) for span in spans}
    kinds = {span.id: _kind(trees[span.id]) for span in spans}
    named = {
        span.id: string(_at(trees[span.id], "agent", "name")) or span.name
        for span in spans
        if kinds[span.id] == "AGENT"
    }
    seen = [
        one for span in spans if (one := _seen(span, kinds[span.id], trees[span.id]))
    ]
    return run_of(
        name,
        in_order(seen, agents_of(spans, named)),
        source="openinference",
        model=first(one.item.about.get("model") for one in seen),
    )


def _kind(tree: Fields) -> Any:
    return _at(tree, "openinference", "span", "kind")


def nested(flat: Fields) -> dict[str, Any]:
    """Attributes as a tree: `a.0.b` is the key `b` of the first item of `a`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        at = tree
        *path, last = str(key).split(".")
        for part in path:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = at[part] = {}
            at = inner
        at[last] = nested(value) if isinstance(value, dict) else value
    return tree


def _at(tree: Any, *path: str) -> Any:
    for key in path:
        tree = mapping(tree).get(key)
    return tree


def _many(value: Any) -> Iterable[Fields]:
    """A list, which may be an object with numbers for keys."""
    if isinstance(value, dict):
        numbered = sorted((int(k), v) for k, v in value.items() if k.isdigit())
        return [mapping(inner) for _, inner in numbered]
    return map(mapping, value) if isinstance(value, list) else ()


def _seen(span: Span, kind: Any, tree: Fields) -> Seen | None:
    if kind == "TOOL":
        return Seen(span=span, item=_answer(span, tree))
    if kind != "LLM":
        return None
    llm = mapping(tree.get("llm"))
    said = next(map(_message, _many(llm.get("output_messages"))), {})
    given = map(_message, _many(llm.get("input_messages")))
    count = mapping(llm.get("token_count"))
    about = known(
        model=string(llm.get("model_name")),
        tokens=tokens(
            count.get("prompt"),
            count.get("completion"),
            _at(count, "prompt_details", "cache_read"),
        ),
        cost=real(_at(llm, "cost", "total")),
    )
    return Seen(
        span=span,
        item=Reply(
            text=text_of(said.get("content")),
            calls=openai.calls_of(said),
            about=about,
        ),
        words=[text_of(one["content"]) for one in given if one["role"] == "user"],
    )


def _message(one: Fields) -> dict[str, Any]:
    """A message as chat messages are."""
    message = mapping(one.get("message")) or one
    calls = [
        mapping(call.get("tool_call")) or call
        for call in _many(message.get("tool_calls"))
    ]
    content = message.get("content")
    if content is None:
        content = [_content(part) for part in _many(message.get("contents"))]
    return {"role": message.get("role"), "content": content, "tool_calls": calls}


def _content(part: Fields) -> Any:
    return text_of((mapping(part.get("message_content")) or part).get("text"))


def _answer(span: Span, tree: Fields) -> Answer:
    given = _at(tree, "tool", "parameters") or _at(tree, "input", "value")
    result = _at(tree, "output", "value")
    args = decoded(given)
    return Answer(
        tool=string(_at(tree, "tool", "name")) or span.name,
        id=str(_at(tree, "tool_call", "id") or _at(tree, "tool", "id") or ""),
        args=unread(span) if args is None and result is None else args,
        text=_output(decoded(result)),
    )


def _output(value: Any) -> str:
    """The text of a result; LangChain's tool messages come as their fields."""
    inner = mapping(value)
    return text_of(inner.get("content", value))
