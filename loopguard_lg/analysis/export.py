"""What a model can learn from: runs that went in circles and got out again.

A recovery is a stretch of a recorded run: from the turn at which it went in circles,
over the one at which the guard acted, or would have, to the first turn after it that
moved the task. Two forms are made of it: the run as a chat, and a pair of turns, one to
be preferred to the other. Known secrets are masked; each line says where it is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loopguard_lg import redaction
from loopguard_lg.analysis.facts import interventions
from loopguard_lg.analysis.replay import acted_on, verdicts
from loopguard_lg.engine import Verdict
from loopguard_lg.findings import Finding
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Turn
from loopguard_lg.traces.model import PERSON, Record, Trajectory
from loopguard_lg.traces.recorder import redacted

NOTE = "loopguard"
"""The name of a message by the guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A loop that a run got out of.

    Attributes:
        run: The run.
        finding: The loop.
        trip: The turn at which the guard acted, or would have.
        out: The first turn after it that moved the task.
        by: What the guard did in between: `reflected`, `escalated`, ...; `itself`
            where the recording tells of nothing.
    """

    run: Trajectory
    finding: Finding
    trip: int
    out: int
    by: str

    @property
    def onset(self) -> int:
        """The first turn that went in circles."""
        return min(self.finding.onset, self.trip)

    def about(self) -> dict[str, Any]:
        """Where it is from."""
        run = self.run
        return {
            "run": run.id,
            "source": run.source,
            "licence": run.extra.get("licence"),
            "model": run.model,
            "versions": dict(run.versions),
            "t0": run.t0,
            "success": run.success,
            "kind": self.finding.kind,
            "detail": redaction.redacted(self.finding.detail),
            "onset": self.onset,
            "trip": self.trip,
            "out": self.out,
            "by": self.by,
        }


def recoveries(policy: Policy, run: Trajectory) -> Iterator[Recovery]:
    """The loops that a run got out of, in order.

    A run that was compacted on the way is left out: what its model saw is not known.
    """
    # A chat with a hole in it teaches to answer what was not asked.
    if any(step.get("event") == "compaction" for step in run.steps):
        return
    # Only the first trigger counts until the run is out: the rest is the same loop.
    loop, trip = None, 0
    for event, verdict in verdicts(policy, run):
        if not isinstance(event, Turn):
            loop = None  # a person spoke: what comes now is another matter
        elif loop is None:
            loop, trip = acted_on(verdict), verdict.i
        elif event.steps and _moves(verdict):
            by = _by(run, trip, verdict.i)
            yield Recovery(run=run, finding=loop, trip=trip, out=verdict.i, by=by)
            loop = None


def _moves(verdict: Verdict) -> bool:
    """Is there progress, and no loop in sight?"""
    return verdict.progress and not verdict.findings


def _by(run: Trajectory, trip: int, out: int) -> str:
    """What the guard did last, from `trip` to before `out`."""
    names = [str(s.get("name")) for s in interventions(run) if trip <= s["i"] < out]
    return names[-1] if names else "itself"


def chat(found: Recovery) -> dict[str, Any]:
    """The run as a chat, with the guard's words where it said them.

    It is whole where the task succeeded, and ends with the recovery where it did not.
    Turns of the loop have `weight` 0, which trainers take for: not to be learned.
    """
    end = None if found.run.success is True else found.out
    messages = []
    for step in _steps(found.run, end):
        for message in _messages(step):
            looping = found.onset <= step["i"] < found.out
            if message["role"] == "assistant" and looping:
                message["weight"] = 0
            messages.append(message)
    return {"messages": [*_task(found.run, messages), *messages], NOTE: found.about()}


def pair(found: Recovery) -> dict[str, Any]:
    """Two ways to go on from before the last turn of the loop.

    `rejected` is what the run did there: the same once more. `chosen` is what it did
    when it got out. Both are turns of this run; between them nothing new was learned.
    """
    steps = [*_steps(found.run, found.out)]
    before = [m for s in steps if s["i"] < found.trip for m in _messages(s)]
    taken = {
        s["i"]: next(_messages(s)) for s in steps if s.get("event") != "intervention"
    }
    return {
        "prompt": [*_task(found.run, before), *before],
        "chosen": [taken[found.out]],
        "rejected": [taken[found.trip]],
        NOTE: found.about(),
    }


def _steps(run: Trajectory, end: int | None) -> Iterator[dict[str, Any]]:
    """The steps that are messages, up to `end`, masked."""
    for step in run.steps:
        if end is not None and step["i"] > end:
            return
        kind = step.get("event")
        if kind in (None, "resume") or (kind == "intervention" and step.get("text")):
            yield redacted(dict(step))


def _task(run: Trajectory, messages: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The task as a person's word, where the run begins without one."""
    first = next(iter(messages), None)
    if not run.task or (first and first["role"] == "user"):
        return []
    return [{"role": "user", "content": redaction.redacted(run.task)}]


def _messages(step: Record) -> Iterator[dict[str, Any]]:
    """A step as chat messages, in the form of OpenAI's chat API."""
    text = str(step.get("text") or "")
    if step.get("event") == "intervention":
        yield {"role": "user", "name": NOTE, "content": text}
    elif step.get("agent") == PERSON:
        yield {"role": "user", "content": text}
    else:
        yield from _turn(step, text)


def _turn(step: Record, text: str) -> Iterator[dict[str, Any]]:
    """A reply, with the results of its calls."""
    calls = step.get("calls") or ()
    ids = [call.get("id") or f"call_{step['i']}_{n}" for n, call in enumerate(calls)]
    reply: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        reply["tool_calls"] = [*map(_call, ids, calls)]
    yield reply
    for id_, call in zip(ids, calls, strict=True):
        result = str(call.get("result") or "")
        yield {"role": "tool", "tool_call_id": id_, "content": result}


def _call(id_: str, call: Mapping[str, Any]) -> dict[str, Any]:
    args = orjson.dumps(call.get("args") or {}, default=str).decode()
    function = {"name": call.get("tool"), "arguments": args}
    return {"id": id_, "type": "function", "function": function}
