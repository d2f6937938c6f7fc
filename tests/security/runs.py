"""Whole guarded runs in which a text is everywhere, and all that is kept of them."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopguard_lg import GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.analysis.explain import timeline, write_test
from loopguard_lg.analysis.replay import check
from loopguard_lg.analysis.report import gather, look
from loopguard_lg.analysis.report_page import page
from loopguard_lg.hooks import logger
from loopguard_lg.telemetry.jsonl import StepLog
from loopguard_lg.telemetry.otel import OtelObserver
from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from loopguard_lg.traces.recorder import Recorder

CONFIG: Any = {"configurable": {"thread_id": "t"}}
POLICY = Policy(ladder=Ladder(Reflect(), GiveUp()))


def _broken(event: Any) -> None:
    """An observer that fails, and quotes what it failed on."""
    raise ValueError(f"can't take {event.event!r}")


class Run:
    """A run that goes in circles with `text` in everything that is said and done."""

    def __init__(self, text: str, folder: Path) -> None:
        self.text, self.folder = text, folder
        self.store, self.spans = InMemoryStore(), InMemorySpanExporter()
        self.recorder = Recorder(folder / "runs.jsonl", task=text)
        self.steps = StepLog(folder / "log.jsonl", content=True)
        self.log: list[str] = []
        self.seen: list[Any] = []
        self.state: Mapping[str, Any] = {}

    def go(self) -> Run:
        """Run it, with everything switched on that keeps something."""
        handler = logging.Handler()
        formatter = logging.Formatter("%(message)s")
        handler.emit = lambda record: self.log.append(formatter.format(record))  # type: ignore[method-assign]
        logger.addHandler(handler)
        try:
            with SqliteSaver.from_conn_string(str(self.folder / "db.sqlite")) as saver:
                self.state = self._agent(saver).invoke(self._ask(), CONFIG)
        finally:
            logger.removeHandler(handler)
            self.steps.close()
            self.recorder.close()
        return self

    def _ask(self) -> dict[str, Any]:
        return {"messages": [("user", f"find {self.text}")]}

    def _agent(self, saver: SqliteSaver) -> Any:
        text = self.text

        @tool
        def search(query: str) -> str:
            """Search the documents."""
            return f"no results for {query}; {text}"

        asked = {"name": "search", "args": {"query": text}, "id": None}
        reply = AIMessage(f"I try {text}", tool_calls=[asked])
        guard = LoopGuardMiddleware(
            POLICY,
            observers=self._observers(),
            shared=SharedScratchpad(namespace=("acme",)),
        )
        return create_agent(
            ScriptedModel(replies=[reply] * 9, default="done"),
            [search],
            middleware=[guard],
            checkpointer=saver,
            store=self.store,
        )

    def _observers(self) -> list[Any]:
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        whole = Recorder(self.folder / "whole.jsonl", redact=None, task=self.text)
        return [
            self.seen.append,
            self.recorder,
            whole,
            self.steps,
            OtelObserver(tracer_provider=tracers, content=True),
            partial(_broken),  # another one in each run: each is logged once
        ]

    def kept(self) -> dict[str, str]:
        """Everything that the guard keeps of the run, or makes of it, as text."""
        report = self.state["loopguard_exit"]
        recorded = _read(self.folder / "whole.jsonl")  # as others might have made it
        items = self.store.search(("acme",))
        handed = hand_over(self.state)
        return {
            "channels": self._channels(),
            "recording": (self.folder / "runs.jsonl").read_text("utf-8"),
            "step log": (self.folder / "log.jsonl").read_text("utf-8"),
            "spans": "".join(s.to_json() for s in self.spans.get_finished_spans()),
            "exit report": orjson.dumps(report).decode(),
            "farewell": self.state["messages"][-1].text,
            "hand-over": handed.markdown() + handed.fresh_start() + str(handed.data()),
            "store": str([(item.key, item.value) for item in items]),
            "log": "\n".join(self.log),
            **self._analysed(recorded),
        }

    def _channels(self) -> str:
        """The bytes of the guard's writes in the database."""
        with closing(sqlite3.connect(self.folder / "db.sqlite")) as database:
            rows = database.execute(
                "SELECT value FROM writes WHERE channel LIKE 'loopguard%'"
            ).fetchall()
        return b"\n".join(value for (value,) in rows).decode("utf-8", "replace")

    def _analysed(self, run: Trajectory) -> dict[str, str]:
        outcome = check(POLICY, run)
        _, data = write_test(run, outcome, None, self.folder / "test_run.py")
        return {
            "page": page(gather(POLICY, [look(POLICY, run)])),
            "explanation": "\n".join(timeline(POLICY, run)),
            "emitted test": data.read_text("utf-8"),
        }

    def verdicts(self) -> list[tuple[str, str, int]]:
        """What the guard decided, step by step, without any text."""
        seen = [event for event in self.seen if event.name != "seen"]
        return [(e.name, e.verdict.action, e.verdict.i) for e in seen]


def _read(path: Path) -> Trajectory:
    (run,) = read(path)
    assert isinstance(run, Trajectory)
    return run


@cache
def ran(text: str) -> tuple[dict[str, str], list[tuple[str, str, int]]]:
    """What is kept of a run with `text`, and what was decided in it."""
    with TemporaryDirectory() as folder:
        run = Run(text, Path(folder)).go()
        return run.kept(), run.verdicts()
