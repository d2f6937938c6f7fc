"""OpenTelemetry spans: OTLP as JSON (`resourceSpans`), and spans as SDKs print them.

A line of a file exporter holds spans of any number of traces. Each trace is a run; our
own spans are put together by thread, whatever traces they are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.telemetry import names
from loopguard_lg.traces.formats import genai, openinference
from loopguard_lg.traces.formats.base import Fields, Format, listed, mapping, moment
from loopguard_lg.traces.formats.spans import Span


def _is_envelope(record: Any) -> bool:
    found = mapping(record)
    return "resourceSpans" in found or "resource_spans" in found


def _is_span(record: Any) -> bool:
    found = mapping(record)
    context = mapping(found.get("context"))
    named = "trace_id" in context or "traceId" in found or "context.trace_id" in found
    return named and ("name" in found or "attributes" in found)


def _matches(record: Any) -> bool:
    return _is_envelope(record) or _is_span(record)


def spans_of(record: Any) -> Iterator[Span]:
    """The spans that a record holds."""
    found = mapping(record)
    if not _is_envelope(found):
        yield _span(found)
        return
    for resource in _either(found, "resourceSpans", "resource_spans"):
        for scope in _either(mapping(resource), "scopeSpans", "scope_spans"):
            for span in listed(mapping(scope).get("spans")):
                yield _span(mapping(span))


def _either(found: Fields, camel: str, snake: str) -> list[Any]:
    return listed(found.get(camel) or found.get(snake))


def _span(data: Fields) -> Span:
    context = mapping(data.get("context"))
    status = mapping(data.get("status"))
    code = status.get("code", status.get("status_code", data.get("status_code")))
    about = dict(_attributes(data.get("attributes")))
    flat = {k[11:]: v for k, v in data.items() if k.startswith("attributes.")}
    kind = data.get("span_kind")  # Phoenix has it beside the attributes
    told = {openinference.KIND: kind} if _is_kind(kind) else {}
    return Span(
        trace=_id(data, context, "traceId", "trace_id"),
        id=_id(data, context, "spanId", "span_id"),
        parent=str(data.get("parentSpanId") or data.get("parent_id") or ""),
        name=str(data.get("name") or ""),
        start=moment(data.get("startTimeUnixNano") or data.get("start_time")),
        end=moment(data.get("endTimeUnixNano") or data.get("end_time")),
        failed=code in (2, "ERROR", "STATUS_CODE_ERROR"),
        about={**about, **flat, **told},
    )


def _is_kind(kind: Any) -> bool:
    return isinstance(kind, str) and kind in ("LLM", "TOOL", "AGENT", "CHAIN")


def _id(data: Fields, context: Fields, camel: str, snake: str) -> str:
    found = data.get(camel) or context.get(snake) or data.get(f"context.{snake}")
    return str(found or "").removeprefix("0x")


def _attributes(found: Any) -> Iterator[tuple[str, Any]]:
    """Attributes: an object, or OTLP's list of keys and values."""
    if isinstance(found, dict):
        yield from found.items()
    for pair in map(mapping, listed(found)):
        yield str(pair.get("key")), _value(mapping(pair.get("value")))


def _value(value: Fields) -> Any:
    """A value of OTLP, which says its type by its key."""
    if "arrayValue" in value:
        inner = listed(mapping(value["arrayValue"]).get("values"))
        return [_value(mapping(one)) for one in inner]
    if "kvlistValue" in value:
        return dict(_attributes(mapping(value["kvlistValue"]).get("values")))
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


def _key(span: Span) -> str:
    """The run of a span: its trace, or what our own say."""
    return str(span.about.get(names.RUN) or span.trace)


def _keys(record: Any) -> list[str]:
    return [*dict.fromkeys(map(_key, spans_of(record)))]


def _read(records: Sequence[Any], key: str) -> Fields:
    spans = [s for record in records for s in spans_of(record) if _key(s) == key]
    if any(openinference.KIND in span.about for span in spans):
        return openinference.run(spans, key)
    return genai.run(spans, key)


FORMAT = Format("OpenTelemetry spans", _matches, _read, _keys)
