"""Our own step log: one row per call, written as JSON lines or as spans.

A row is flat, and says of a call `step, agent, tool, args_hash, result_hash, tokens,
latency, state_digest, model, error, cost`; what a replay needs beside it is in `more`
(of the call) and `turn` (of its reply, on the first row of a batch, as are tokens and
cost). Texts are there only where content was asked for: without, digests stand in for
arguments and results, so that calls are told apart but not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopguard_lg.hooks import GuardEvent
from loopguard_lg.traces.formats.base import Fields, Format, mapping
from loopguard_lg.traces.model import from_event
from loopguard_lg.traces.recorder import INTERVENTIONS, hashed, intervention

KEY = "loopguard"
VERSION = 1

_CALL = {
    "tool": "tool", "args_hash": "args_hash", "result_hash": "result_hash",
    "seconds": "latency", "state": "state_digest", "error": "error", "id": "call_id",
}  # fmt: skip
"""Keys of a call in a recording, and in a row."""

_TURN = ("tokens", "model", "cost")
_TEXTS = frozenset({"args", "result", "text", "progress", "touched"})
"""What is left out without content."""

_EVENT = ("event", "name", "rung", "reason")
_ENVELOPE = ("i", "agent", "calls", *_EVENT)


def rows(event: GuardEvent, *, content: bool = False) -> list[dict[str, Any]]:
    """The rows of what an observer is told; none for what a replay sees by itself.

    Args:
        event: What the guard saw or did.
        content: Keep arguments, results and words.
    """
    if event.name == "seen" and event.event is not None:
        step = from_event(hashed(event.event), event.verdict.i)
    elif event.name in INTERVENTIONS:
        step = intervention(event)
    else:
        return []
    about = {KEY: VERSION, "thread": event.thread, "by": event.agent}
    return [{**about, **row} for row in _rows(step, content)]


def _rows(step: Mapping[str, Any], content: bool) -> Iterator[dict[str, Any]]:
    """The rows of one step of a recording."""
    calls = step.get("calls") or [None]
    head = {"step": step["i"], "agent": step["agent"]}
    head |= {key: step[key] for key in _EVENT if key in step}
    turn = {k: step[k] for k in step if k not in (*_ENVELOPE, *_TURN)}
    spent = {key: step[key] for key in _TURN if step.get(key) is not None}
    for at, call in enumerate(calls):
        row = {**head, "call": at, **(_call(call, content) if call else {})}
        yield {**row, **(spent | _kept("turn", turn, content) if at == 0 else {})}


def _call(call: Mapping[str, Any], content: bool) -> dict[str, Any]:
    named = {new: call.get(old) for old, new in _CALL.items()}
    return named | _kept("more", {k: call[k] for k in call if k not in _CALL}, content)


def _kept(name: str, facts: Mapping[str, Any], content: bool) -> dict[str, Any]:
    """What of the facts may be written, if there is any."""
    found = {k: v for k, v in facts.items() if content or k not in _TEXTS}
    if not content and facts.get("progress"):
        found["progress"] = "reported"
    return {name: found} if any(v is not None for v in found.values()) else {}


def run(found: Sequence[Fields], name: str) -> dict[str, Any]:
    """The run that rows make, those of a step that was taken again left out.

    Args:
        found: Rows in the order in which they were written.
        name: The run's id.
    """
    steps: list[dict[str, Any]] = []
    for row in found:
        if row.get("call") and steps and steps[-1].get("calls"):
            steps[-1]["calls"].append(_call_of(row))
            continue
        step = _step_of(row)
        if step.get("event") != "intervention":
            _go_back(steps, step["i"])
        steps.append(step)
    return {"id": name, "source": "loopguard", "steps": steps}


def _go_back(steps: list[dict[str, Any]], i: int) -> None:
    """Drop what is taken again, after a retry or from an older checkpoint."""
    while steps and steps[-1]["i"] >= i:
        steps.pop()


def _step_of(row: Fields) -> dict[str, Any]:
    step: dict[str, Any] = {"i": row["step"], "agent": row.get("agent") or ""}
    step |= {k: row[k] for k in _EVENT if k in row}
    step |= {key: row[key] for key in _TURN if row.get(key) is not None}
    step |= mapping(row.get("turn"))
    if row.get("tool"):
        step["calls"] = [_call_of(row)]
    return step


def _call_of(row: Fields) -> dict[str, Any]:
    named = {old: row.get(new) for old, new in _CALL.items()}
    stand_in = {
        "args": {"digest": row.get("args_hash")},
        "result": str(row.get("result_hash") or ""),
    }
    return {**stand_in, **named, **mapping(row.get("more"))}


def key_of(thread: str, agent: str) -> str:
    """The run of a thread and an agent, as several agents may share a thread."""
    return f"{thread}/{agent}" if agent else thread


def _keys(row: Fields) -> list[str]:
    return [key_of(str(row.get("thread") or ""), str(row.get("by") or ""))]


def _read(records: Sequence[Any], key: str) -> Fields:
    return run([mapping(record) for record in records], key)


FORMAT = Format("a step log", lambda r: KEY in mapping(r), _read, _keys)
