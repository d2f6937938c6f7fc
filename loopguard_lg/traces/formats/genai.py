"""Spans with the GenAI semantic conventions of OpenTelemetry: `chat`, `execute_tool`.

Our own spans hold rows of the step log beside (`loopguard.row`), which are taken where
they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from loopguard_lg.telemetry import names
from loopguard_lg.traces.formats import steplog
from loopguard_lg.traces.formats.base import (
    Answer,
    Fields,
    Reply,
    called,
    first,
    known,
    listed,
    mapping,
    run_of,
    string,
    text_of,
    tokens,
)
from loopguard_lg.traces.formats.spans import Seen, Span, agents_of, in_order, unread

_CHATS = frozenset({"chat", "text_completion", "generate_content"})


def row_of(span: Span) -> Fields:
    """The row of our step log that a span holds; empty for others' spans."""
    text = span.about.get(names.ROW)
    if not isinstance(text, str):
        return {}
    row = mapping(orjson.loads(text))
    texts = {
        "args": decoded(span.about.get(names.ARGUMENTS)),
        "result": span.about.get(names.RESULT),
    }
    held = known(**texts)
    return {**row, "more": {**mapping(row.get("more")), **held}} if held else row


def run(spans: Sequence[Span], name: str) -> Fields:
    """The run that the spans of a trace, or of a thread of ours, make."""
    rows = [(span, row) for span in spans if (row := row_of(span))]
    if rows:
        # Spans of one batch may begin in the same moment; `at` is when a row was made.
        ours = sorted(rows, key=lambda one: (one[0].start or 0.0, one[1].get("at", 0)))
        return steplog.run([row for _, row in ours], name)
    agents = {
        span.id: agent
        for span in spans
        if (agent := string(span.about.get(names.AGENT)))
    }
    seen = [one for span in spans if (one := _seen(span))]
    model = first(one.item.about.get("model") for one in seen)
    items = in_order(seen, agents_of(spans, agents))
    return run_of(name, items, source="otlp", model=model)


def _seen(span: Span) -> Seen | None:
    about, operation = span.about, span.about.get(names.OPERATION)
    if operation == names.EXECUTE_TOOL:
        return Seen(span=span, item=_answer(span))
    if operation not in _CHATS:
        return None
    parts = _parts(about.get(names.OUTPUT_MESSAGES), "assistant")
    calls = [
        called(part.get("name"), part.get("arguments"), part.get("id"))
        for part in parts
        if part.get("type") == "tool_call"
    ]
    words = [text_of(p) for p in _parts(about.get(names.INPUT_MESSAGES), "user")]
    return Seen(
        span=span,
        item=Reply(text=_text(parts), calls=calls, about=_took(about)),
        words=[word for word in words if word],
    )


def _answer(span: Span) -> Answer:
    about = span.about
    args = decoded(about.get(names.ARGUMENTS))
    result = decoded(about.get(names.RESULT))
    return Answer(
        tool=str(about.get(names.TOOL) or span.name),
        id=str(about.get(names.CALL_ID) or ""),
        args=unread(span) if args is None and result is None else args,
        text=text_of(result),
        error=True if about.get(names.ERROR_TYPE) else None,
    )


def _took(about: Fields) -> dict[str, Any]:
    model = string(about.get(names.MODEL)) or string(about.get(names.REQUEST_MODEL))
    spent = tokens(
        about.get(names.INPUT_TOKENS),
        about.get(names.OUTPUT_TOKENS),
        about.get(names.CACHED_TOKENS),
    )
    return known(model=model, tokens=spent)


def _parts(messages: Any, role: str) -> list[Fields]:
    every = map(mapping, listed(decoded(messages)))
    found = [one.get("parts") for one in every if one.get("role") == role]
    return [mapping(part) for parts in found for part in listed(parts)]


def _text(parts: Sequence[Fields]) -> str:
    said = (text_of(part) for part in parts if part.get("type") == "text")
    return "\n".join(said)


def decoded(value: Any) -> Any:
    """What JSON in a string says; other strings as they are."""
    if not isinstance(value, str) or not value.startswith(("{", "[", '"')):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value
