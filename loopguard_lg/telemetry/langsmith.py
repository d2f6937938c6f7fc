"""An observer that marks runs in LangSmith, where its tracing is on."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import partial
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeAlias

from langsmith import Client
from langsmith.run_helpers import get_current_run_tree

from loopguard_lg.forking import renew
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.redaction.logs import note_failure

TRIPPED = "loopguard.tripped"

_WAITING = 1_000
"""Most findings whose feedback is not sent yet."""
_TRIES = 3
"""How often a project's id is asked for: it is there when its first run has arrived."""
_SECONDS = 5.0

_Work: TypeAlias = Callable[[], object]


class LangSmithObserver:
    """Puts tags, metadata and feedback on the run that LangSmith traces.

    A finding that is acted on tags the run (`loopguard:repeat`) and scores the trace 1
    under `loopguard.tripped`; what the guard did stands in the metadata. Nothing of
    what was said is sent, and nothing at all where no run is traced. Feedback goes out
    in a thread of its own, so that no run waits for it; with it the project's id is
    asked for, once.

    Args:
        client: What sends feedback; `None`: the client of the run.

    Attributes:
        lost: Feedback that could not be sent.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.lost = 0
        self._client = client
        self._projects: dict[str | None, Any] = {}
        self._tries: dict[str | None, int] = {}
        self.forked()
        renew(self)

    def forked(self) -> None:
        """Send nothing in a child that its parent sends."""
        self._waiting: Queue[_Work] = Queue(_WAITING)
        self._thread = Thread()

    def __call__(self, event: GuardEvent) -> None:
        """Mark the run that an act of the guard is in."""
        run = None if event.name == "seen" else get_current_run_tree()
        if run is None:
            return
        run.add_metadata(_metadata(event))
        finding = event.verdict.finding
        if event.name == "detected" and finding is not None:
            run.add_tags([f"loopguard:{finding.kind}"])
            client = self._client or run.client
            self._later(partial(self._score, client, run, finding.kind))

    def flush(self, seconds: float = _SECONDS) -> bool:
        """Wait until all feedback so far is sent; whether it was in time."""
        if self._waiting.empty() and not self._thread.is_alive():
            return True
        done = Event()
        self._later(done.set)
        return done.wait(seconds)

    def _later(self, work: _Work) -> None:
        try:
            self._waiting.put_nowait(work)
        except Full:  # LangSmith does not answer, and a run must not wait for it
            self.lost += 1
        if not self._thread.is_alive():
            self._thread = Thread(
                target=self._send, name="loopguard-langsmith", daemon=True
            )
            self._thread.start()
            atexit.register(self.flush)

    def _send(self) -> None:
        while True:
            work = self._waiting.get()
            try:
                work()
            except Exception:
                self.lost += 1
                note_failure(self, "feedback for LangSmith is lost")

    def _score(self, client: Client, run: Any, kind: str) -> None:
        client.create_feedback(
            run.trace_id,
            TRIPPED,
            score=1,
            value=kind,
            trace_id=run.trace_id,
            session_id=run.session_id or self._project(client, run.session_name),
        )

    def _project(self, client: Client, name: str | None) -> Any:
        """The id of a project; those of a process are few."""
        if name not in self._projects:
            tries = self._tries[name] = self._tries.get(name, 0) + 1
            if tries > _TRIES:
                raise LookupError(f"project {name!r} has no id")
            client.flush()
            self._projects[name] = client.read_project(project_name=name).id
        return self._projects[name]


def _metadata(event: GuardEvent) -> dict[str, Any]:
    """What the guard did, by name, with its step."""
    verdict = event.verdict
    about: dict[str, Any] = {f"loopguard_{event.name}": verdict.i}
    if verdict.finding is not None:
        about["loopguard_kind"] = verdict.finding.kind
    if verdict.exceeded is not None:
        about["loopguard_budget"] = verdict.exceeded.name
    return about
