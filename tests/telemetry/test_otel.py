from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopguard_lg import Human, Step, Turn, Verdict
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.telemetry import names
from loopguard_lg.telemetry.otel import OtelObserver
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.middleware.runs import THREAD, ask, guarded, same
from tests.telemetry.conftest import SECRET, Climb, replayed


class Told:
    """An observer whose providers keep what they get."""

    def __init__(self, **settings: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader])
        self.observer = OtelObserver(
            tracer_provider=self.tracers, meter_provider=meters, **settings
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans so far."""
        return list(self.exporter.get_finished_spans())

    def text(self) -> str:
        """The spans as the SDK prints them."""
        return "".join(span.to_json(indent=None) + "\n" for span in self.spans)

    def points(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """The points of each metric, with their labels."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [(dict(p.attributes), p) for p in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def told() -> Told:
    """An observer without content."""
    return Told()


def only(path: Path, text: str) -> Trajectory:
    """The one run of a text."""
    path.write_text(text)
    (run,) = read(path)
    assert isinstance(run, Trajectory), run
    return run


def test_spans_with_content_replay_to_the_verdicts_of_the_live_run(
    climb: Climb, tmp_path: Path
) -> None:
    """As an SDK prints them, whatever order they arrive in."""
    told = Told(content=True)
    climb.run([told.observer])
    lines = told.text().splitlines()[::-1]

    run = only(tmp_path / "spans.jsonl", "\n".join(lines))
    assert replayed(run, climb.policy) == climb.live


def test_without_content_nothing_that_was_said_leaves(climb: Climb, told: Told) -> None:
    """Neither in attributes nor in names nor in events."""
    climb.run([told.observer])
    text = told.text()

    assert '"gen_ai.tool.name": "search"' in text
    for said in ("find it", "no results", "ppp", SECRET, "query", "try again"):
        assert said not in text


def test_a_call_is_a_span_with_the_conventions_of_genai(
    climb: Climb, told: Told
) -> None:
    """The tool, the digests and the step are attributes; the turn is its sibling."""
    climb.run([told.observer])
    span = next(s for s in told.spans if s.name == "execute_tool search")
    about = dict(span.attributes or {})

    assert about[names.OPERATION] == "execute_tool"
    assert about[names.CONVERSATION] == "t"
    assert {names.STEP, names.ARGS_HASH, names.RESULT_HASH} <= about.keys()
    assert any(s.name.startswith("chat") for s in told.spans)


def test_events_are_of_the_closed_list(climb: Climb, told: Told) -> None:
    """Each act is an event; what was detected says its kind."""
    climb.run([told.observer])
    events = [event for span in told.spans for event in span.events]

    assert {"loopguard.detected", "loopguard.reflected", "loopguard.asked"} <= {
        event.name for event in events
    }
    assert {event.name for event in events} <= set(names.EVENTS)
    kinds = {(e.attributes or {}).get(names.KIND) for e in events}
    assert "repeat" in kinds


def test_a_thread_is_one_trace(climb: Climb, told: Told) -> None:
    """Also over two invocations, where no span of the app's is there."""
    climb.run([told.observer])

    assert len({span.context.trace_id for span in told.spans}) == 1


def test_spans_join_the_trace_of_the_app(climb: Climb, told: Told) -> None:
    """They are children of the span that is current."""
    with told.tracers.get_tracer("app").start_as_current_span("request") as outer:
        climb.run([told.observer])
    ours = [span for span in told.spans if span.name != "request"]

    assert {span.parent.span_id for span in ours if span.parent} == {
        outer.get_span_context().span_id
    }


def test_a_task_counts_once_and_trips_once(climb: Climb, told: Told) -> None:
    """Two words that begin a task are two; findings of one task are one trip."""
    climb.run([told.observer])
    points = told.points()

    assert sum(point.value for _, point in points[names.TASKS]) == 1
    ((about, tripped),) = points[names.TRIPPED]
    assert (tripped.value, about["kind"], about["tool"]) == (1, "repeat", "search")


def test_labels_are_few_whatever_a_model_makes_up() -> None:
    """Names of tools beyond the first ones are one label."""
    told = Told(labels=5)
    for i in range(50):
        turn = Turn(steps=(Step(tool=f"made_up_{i}"),))
        told.observer(heard(turn, i))
    tools = {about["tool"] for about, _ in told.points()[names.STEPS]}

    assert len(tools) == 6
    assert names.OTHER in tools


def test_no_label_is_of_a_thread_or_a_call(climb: Climb, told: Told) -> None:
    """What there is one of per run is on spans alone."""
    climb.run([told.observer])
    labels = {
        key for found in told.points().values() for about, _ in found for key in about
    }

    assert labels <= {
        "agent", "model", "tool", "kind", "act", "error",
        names.OPERATION, names.MODEL, names.TOOL, names.TOKEN_TYPE,
    }  # fmt: skip


def test_an_exporter_that_fails_breaks_no_run() -> None:
    """An observer that raises is logged; the run ends as it would."""
    told = Told()
    told.observer._tracer = None  # type: ignore[assignment]  # as broken as can be
    from loopguard_lg.testing.doubles import ScriptedModel

    agent = guarded(
        ScriptedModel(replies=[*same(2), "done"]), observers=[told.observer]
    )

    assert agent.invoke(ask(), THREAD)["messages"][-1].content == "done"


def heard(event: Any, i: int = 0, thread: str = "t") -> GuardEvent:
    """What an observer is told."""
    return GuardEvent(
        name="seen", thread=thread, agent="main", event=event, verdict=Verdict(i=i)
    )


def test_a_word_begins_a_task_and_an_answer_does_not() -> None:
    """The unit of the loop rate is what one word of a person's sets off."""
    told = Told()
    for i, event in enumerate(
        [Human(), Turn(), Human(answer=True), Turn(), Human(), Turn(), Turn()]
    ):
        told.observer(heard(event, i))

    assert sum(point.value for _, point in told.points()[names.TASKS]) == 2


def test_spans_of_two_threads_in_one_file_are_two_runs(tmp_path: Path) -> None:
    """Whatever traces they are in."""
    told = Told(content=True)
    for i in range(3):
        for thread in "ab":
            step = Step(tool="t", args={"q": thread}, result="none")
            told.observer(heard(Turn(steps=(step,)), i, thread))
    (tmp_path / "spans.jsonl").write_text(told.text())
    runs = [*read(tmp_path / "spans.jsonl")]

    assert [run.id for run in runs if isinstance(run, Trajectory)] == [
        "a/main",
        "b/main",
    ]
    assert json.dumps([run.steps[0]["calls"][0]["args"] for run in runs]) == (
        '[{"q": "a"}, {"q": "b"}]'
    )
