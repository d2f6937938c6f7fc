"""What the guard sees, as OpenTelemetry spans and as a log of steps.

The model answers from a script, so that it runs without a key or a network:

    python examples/13_telemetry.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopguard_lg import LoopGuardMiddleware
from loopguard_lg.telemetry.jsonl import StepLog
from loopguard_lg.telemetry.otel import OtelObserver
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results"


spans = InMemorySpanExporter()  # yours sends them to a collector
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))


def run(log: StepLog) -> None:
    """An agent that makes the same call again and again."""
    observers = [OtelObserver(tracer_provider=provider), log]
    model = ScriptedModel([*[call("search", query="x")] * 4, "I found nothing."])
    guard = LoopGuardMiddleware(observers=observers)
    agent: Any = create_agent(model, [search], middleware=[guard])
    agent.invoke({"messages": [("user", "find it")]})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        log = StepLog(Path(folder, "steps.jsonl"))
        run(log)
        log.close()
        for span in spans.get_finished_spans():
            print(span.name, [event.name for event in span.events])
        for line in Path(folder, "steps.jsonl").read_text().splitlines():
            row = json.loads(line)
            print(row.get("step"), row.get("tool"), row.get("event"))
