"""An observer that tells OpenTelemetry: spans of the step log, and metrics.

Needs the extra `otel`. Names are in `names`, and so are the conventions that they
follow. Without content no argument, result or word leaves the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import context as contexts, metrics, trace
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from loopguard_lg import __version__
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.telemetry import names
from loopguard_lg.telemetry.meters import LABELS, Meters
from loopguard_lg.traces.formats import steplog
from loopguard_lg.traces.recorder import Redact, encoded, redacted

_SECOND = 1_000_000_000


class OtelObserver:
    """An observer that exports what the guard sees, by the providers of the app.

    A turn is a `chat` span and an `execute_tool` span for each call, with the times
    that were measured; each act of the guard is a span with one event of
    `names.EVENTS`. They are children of the span that is current, else of one made of
    the thread's name, so that a thread is one trace whatever process it goes on in.

    Args:
        tracer_provider: Where spans go; `None`: the global one.
        meter_provider: Where metrics go; `None`: the global one.
        content: Send arguments, results and words, too; secrets in them are masked.
        labels: Names of agents, tools and models that metrics tell apart, each.
        redact: Is given every row before it is sent; `None`: as it is.
        clock: Nanoseconds since 1970.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: bool = False,
        labels: int = LABELS,
        redact: Redact | None = redacted,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        scope = "loopguard_lg", __version__
        self._tracer = trace.get_tracer(*scope, tracer_provider)
        self._meters = Meters(metrics.get_meter(*scope, meter_provider), labels)
        self._content = content
        self._redact = redact
        self._clock = clock

    def __call__(self, event: GuardEvent) -> None:
        """Export one event."""
        self._meters(event)
        now, parent = self._clock(), _parent(event)
        found = steplog.rows(event, content=self._content)
        rows = [self._redact(row) if self._redact else row for row in found]
        if event.name != "seen":
            self._act(event, rows, parent, now)
        elif rows and _is_turn(rows[0]):
            self._turn(rows, parent, now)
        elif rows:
            name = f"{names.PREFIX}{rows[0].get('event') or 'human'}"
            about = {**_about(rows[0]), names.ROW: _row(rows[0], now)}
            self._span(name, about, parent, (now, now))

    def _turn(
        self, rows: list[dict[str, Any]], parent: contexts.Context, now: int
    ) -> None:
        """The spans of a reply and of its calls."""
        calls = [row for row in rows if row.get("tool")]
        tools = max((_ns(row.get("latency")) for row in calls), default=0)
        end = now - tools
        start = end - _ns(rows[0].get("turn", {}).get("seconds"))
        about = _chat(rows[0], calls)
        if not calls:
            about[names.ROW] = _row(rows[0], now)
        name = f"{names.CHAT} {rows[0].get('model') or ''}".strip()
        self._span(name, about, parent, (start, end), kind=SpanKind.CLIENT)
        for at, row in enumerate(calls):
            about = _tool(row)
            about[names.ROW] = _row(row, now + at)
            times = end, end + _ns(row.get("latency"))
            name = f"{names.EXECUTE_TOOL} {row['tool']}"
            self._span(name, about, parent, times, failed=row.get("error"))

    def _act(
        self,
        event: GuardEvent,
        rows: list[dict[str, Any]],
        parent: contexts.Context,
        now: int,
    ) -> None:
        """What the guard did, as an event in a span of its own."""
        about = _verdict(event)
        if event.text and self._content:
            about[names.DETAIL] = event.text
        held = {names.ROW: _row(rows[0], now)} if rows else {}
        base = {names.CONVERSATION: event.thread, names.AGENT: event.agent}
        base[names.RUN] = steplog.key_of(event.thread, event.agent)
        name = f"{names.PREFIX}{event.name}"
        span = self._tracer.start_span(
            name, parent, attributes={**base, **held}, start_time=now
        )
        span.add_event(name, about, now)
        span.end(now)

    def _span(
        self,
        name: str,
        about: Mapping[str, Any],
        parent: contexts.Context,
        times: tuple[int, int],
        kind: SpanKind = SpanKind.INTERNAL,
        failed: bool | None = None,
    ) -> None:
        start, end = times
        known = {key: value for key, value in about.items() if value is not None}
        span = self._tracer.start_span(
            name, parent, kind, attributes=known, start_time=start
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)


def _parent(event: GuardEvent) -> contexts.Context:
    """The context that is current; without a span in it, that of the thread."""
    now = contexts.get_current()
    if trace.get_current_span(now).get_span_context().is_valid:
        return now
    name = event.thread.encode("utf-8", "replace")
    made = SpanContext(
        trace_id=xxh3_128_intdigest(name) or 1,
        span_id=xxh3_64_intdigest(name) or 1,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(made), now)


def _is_turn(row: Mapping[str, Any]) -> bool:
    return row.get("event") is None and row["agent"] != "user"


def _ns(seconds: Any) -> int:
    return int(float(seconds) * _SECOND) if seconds else 0


def _about(row: Mapping[str, Any]) -> dict[str, Any]:
    """What all spans of a row say."""
    return {
        names.CONVERSATION: row["thread"],
        names.AGENT: row["agent"] or row["by"] or None,
        names.STEP: row["step"],
        names.RUN: steplog.key_of(row["thread"], row["by"]),
    }


def _chat(row: Mapping[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    spent, turn = row.get("tokens") or {}, row.get("turn", {})
    parts: list[dict[str, Any]] = []
    if "text" in turn:
        parts.append({"type": "text", "content": turn["text"]})
        parts += [_part(call) for call in calls]
    said = [{"role": "assistant", "parts": parts}] if parts else None
    return {
        **_about(row),
        names.OPERATION: names.CHAT,
        names.MODEL: row.get("model"),
        names.INPUT_TOKENS: spent.get("input"),
        names.OUTPUT_TOKENS: spent.get("output"),
        names.CACHED_TOKENS: spent.get("cached") or None,
        names.COST: row.get("cost"),
        names.OUTPUT_MESSAGES: encoded(said).decode() if said else None,
    }


def _part(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call in the reply that asked for it."""
    args = call.get("more", {}).get("args")
    about = {"id": call.get("call_id"), "name": call["tool"], "arguments": args}
    return {"type": "tool_call", **about}


def _tool(row: Mapping[str, Any]) -> dict[str, Any]:
    more = row.get("more", {})
    args = more.get("args")
    return {
        **_about(row),
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL: row["tool"],
        names.CALL_ID: row.get("call_id") or None,
        names.ARGS_HASH: row.get("args_hash"),
        names.RESULT_HASH: row.get("result_hash"),
        names.STATE: row.get("state_digest"),
        names.ERROR_TYPE: "tool_error" if row.get("error") else None,
        names.ARGUMENTS: None if args is None else encoded(args).decode(),
        names.RESULT: more.get("result"),
    }


def _row(row: Mapping[str, Any], at: int) -> str:
    """The row as JSON, without what attributes of the span hold already."""
    more = {
        key: value
        for key, value in row.get("more", {}).items()
        if key not in ("args", "result")
    }
    rest = {**row, "at": at, **({"more": more} if "more" in row else {})}
    return encoded(rest).decode()


def _verdict(event: GuardEvent) -> dict[str, str | int]:
    """A verdict in attributes."""
    verdict, finding = event.verdict, event.verdict.finding
    about: dict[str, Any] = {
        names.STEP: verdict.i,
        names.ACTION: verdict.action,
        names.RUNG: verdict.rung,
        names.KIND: finding.kind if finding else None,
        names.COUNT: finding.count if finding else None,
        names.REASON: "budget" if verdict.exceeded else None,
    }
    return {key: value for key, value in about.items() if value is not None}
