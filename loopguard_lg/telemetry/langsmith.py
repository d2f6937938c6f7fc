"""An observer that marks runs in LangSmith, where its tracing is on."""

from __future__ import annotations

from typing import Any

from langsmith import Client
from langsmith.run_helpers import get_current_run_tree

from loopguard_lg.hooks import GuardEvent

TRIPPED = "loopguard.tripped"


class LangSmithObserver:
    """Puts tags, metadata and feedback on the run that LangSmith traces.

    A finding that is acted on tags the run (`loopguard:repeat`) and scores the trace 1
    under `loopguard.tripped`; what the guard did stands in the metadata. Nothing of
    what was said is sent, and nothing at all where no run is traced. The project's id,
    which feedback needs, is asked for once, with the first finding.

    Args:
        client: What sends feedback; `None`: the client of the run.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client
        self._projects: dict[str | None, Any] = {}

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
            client.create_feedback(
                run.trace_id,
                TRIPPED,
                score=1,
                value=finding.kind,
                trace_id=run.trace_id,
                session_id=run.session_id or self._project(client, run.session_name),
            )

    def _project(self, client: Client, name: str | None) -> Any:
        """The id of a project; those of a process are few."""
        if name not in self._projects:
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
