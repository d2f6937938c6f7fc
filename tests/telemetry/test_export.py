"""One guarded run, told to everything at once, and read back from each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from langgraph.checkpoint.sqlite import SqliteSaver
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from loopguard_lg import Recorder
from loopguard_lg.telemetry import names
from loopguard_lg.telemetry.jsonl import StepLog
from loopguard_lg.telemetry.otel import OtelObserver
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.telemetry.conftest import Climb, replayed
from tests.telemetry.receiver import receiver

FILES = ("traces.jsonl", "steps.jsonl", "run.jsonl", "state.db")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Climb, Path]:
    """The run, and the folder with what was kept of it."""
    folder = tmp_path_factory.mktemp("told")
    with (
        receiver(folder) as address,
        SqliteSaver.from_conn_string(str(folder / "state.db")) as saver,
        Recorder(folder / "run.jsonl") as recorder,
        StepLog(folder / "steps.jsonl", content=True) as log,
    ):
        tracers, meters = providers(address)
        otel = OtelObserver(
            tracer_provider=tracers, meter_provider=meters, content=True
        )
        climb = Climb(saver)
        climb.run([otel, log, recorder])
        tracers.shutdown()
        meters.shutdown()
    return climb, folder


def providers(address: str) -> tuple[TracerProvider, MeterProvider]:
    """What exports to the receiver as an app would."""
    tracers = TracerProvider()
    exporter = OTLPSpanExporter(f"{address}/v1/traces")
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{address}/v1/metrics"))
    return tracers, MeterProvider([reader])


@pytest.mark.parametrize("name", FILES)
def test_the_run_has_the_same_verdicts_read_back_from(
    told: tuple[Climb, Path], name: str
) -> None:
    """OTLP, step log, recording and checkpoints each hold all that a verdict needs."""
    climb, folder = told
    (run,) = read(folder / name)

    assert isinstance(run, Trajectory), run
    assert replayed(run, climb.policy) == climb.live


def test_metrics_arrive(told: tuple[Climb, Path]) -> None:
    """Under the names of `names`."""
    _, folder = told
    text = (folder / "metrics.jsonl").read_text()

    for name in (names.TASKS, names.TRIPPED, names.STEPS, names.ACTS, names.LATENCY):
        assert f'"{name}"' in text


def test_a_report_takes_them_all(told: tuple[Climb, Path]) -> None:
    """`loopguard check` reads them in one call and says that each trips."""
    from loopguard_lg.cli.app import run

    _, folder = told
    paths: Any = [str(folder / name) for name in FILES]

    assert run(["check", *paths]) == 1
