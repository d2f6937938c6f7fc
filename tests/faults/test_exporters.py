"""Endpoints of telemetry that are down, or that take bytes and never answer."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from loopguard_lg.hooks import failures
from loopguard_lg.telemetry.otel import OtelObserver
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import THREAD, Way, ask, guarded, same

SECONDS = 0.05


@pytest.fixture(params=["down", "mute"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where nothing listens, and where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        if request.param == "down":
            door.close()
            yield "http://127.0.0.1:9"
        else:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"


@pytest.fixture(params=[BatchSpanProcessor, SimpleSpanProcessor])
def observer(
    address: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[OtelObserver]:
    """An observer that exports there, off the run's path and on it."""
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    tracers = TracerProvider(shutdown_on_exit=False)
    spans = OTLPSpanExporter(f"{address}/v1/traces", timeout=SECONDS)
    tracers.add_span_processor(request.param(spans))
    figures = OTLPMetricExporter(f"{address}/v1/metrics", timeout=SECONDS)
    reader = PeriodicExportingMetricReader(figures)
    meters = MeterProvider([reader], shutdown_on_exit=False)
    yield OtelObserver(tracer_provider=tracers, meter_provider=meters)
    tracers.shutdown()
    meters.shutdown(timeout_millis=1_000 * SECONDS)


def test_an_endpoint_that_does_not_answer_costs_no_run(observer: Any, way: Way) -> None:
    """The loop is caught all the same, and nothing is raised."""
    agent = guarded(ScriptedModel(replies=same(20)), observers=[observer])

    assert way(agent, ask(), THREAD)["loopguard_exit"]["reason"] == "loop"
    assert failures(observer) == 0
