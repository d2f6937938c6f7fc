"""Writing live runs, so that replaying the file gives the same verdicts."""

from __future__ import annotations

import atexit
import gzip
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import orjson

from loopguard_lg.digests import args_hash, result_hash
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Event, Step, Turn
from loopguard_lg.traces.model import Trajectory, from_event

Redact: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes one step as JSON has it, gives the step that may be written."""

_INTERVENTIONS = frozenset({"reflected", "escalated", "asked", "exited"})


class Recorder:
    """An observer that writes one trajectory per thread as a line of `path`.

    A thread is written when `end` is called for it, and whatever is open on `close`,
    which also runs when the process exits. Lines are appended whole; threads of the
    process may feed one recorder at once. Steps that are not written yet are held in
    memory, encoded. Agents that share a thread are trajectories of their own, and so is
    what begins from nothing in a thread again; a step that is taken again, after a
    retry or from an older checkpoint, takes the place of what came after it.

    A file replays to the verdicts of the live run when the recorder saw the thread
    from its beginning, and `redact` left alone what detectors compare.

    Args:
        path: A `.jsonl` file, or `.jsonl.gz`; it is made, or appended to.
        redact: Is given every step before it is kept.
        **about: Keys of every trajectory: `source`, `task`, `versions`, `licence`, ...
    """

    def __init__(
        self, path: str | Path, *, redact: Redact | None = None, **about: Any
    ) -> None:
        self.path = Path(path)
        self._redact = redact
        self._about = about
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], _Run] = {}
        self._written: Counter[str] = Counter()
        atexit.register(self.close)

    def __call__(self, event: GuardEvent) -> None:
        """Take down what the engine was fed, and what was said because of it."""
        if event.name == "seen" and event.event is not None:
            step = from_event(_hashed(event.event), event.verdict.i)
        elif event.name in _INTERVENTIONS:
            step = _intervention(event)
        else:
            return
        kept = _encoded(self._redact(step) if self._redact else step)
        with self._lock:
            self._add((event.thread, event.agent), step, kept)

    def end(self, thread: str, *, success: bool | None = None) -> None:
        """Write a thread; what comes of it later makes another trajectory.

        Nothing is written for a thread that nothing was seen of.
        """
        with self._lock:
            for key in [key for key in self._open if key[0] == thread]:
                self._write(key, success)

    def close(self) -> None:
        """Write every thread that is open; more may follow."""
        with self._lock:
            for key in list(self._open):
                self._write(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        atexit.unregister(self.close)

    def _add(self, key: tuple[str, str], step: dict[str, Any], kept: bytes) -> None:
        i = step["i"]
        if key in self._open and i == 0 < self._open[key].steps[-1][0]:
            self._write(key)
        steps = self._open.setdefault(key, _Run()).steps
        while step.get("event") != "intervention" and steps and steps[-1][0] >= i:
            steps.pop()
        steps.append((i, orjson.Fragment(kept)))
        if step["agent"]:
            self._open[key].agents.setdefault(step["agent"])

    def _write(self, key: tuple[str, str], success: bool | None = None) -> None:
        run, thread = self._open.pop(key), key[0]
        self._written[thread] += 1
        count = self._written[thread]
        trajectory = Trajectory(
            id=thread if count == 1 else f"{thread}#{count}",
            success=success,
            t0=run.began,
            extra={"agents": list(run.agents), **self._about},
        )
        steps = [kept for _, kept in run.steps]
        line = orjson.dumps({**trajectory.as_dict(), "steps": steps}, default=str)
        _append(self.path, line + b"\n")


class _Run:
    """A run that is not written yet: its steps by position, encoded."""

    def __init__(self) -> None:
        self.began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.steps: list[tuple[int, orjson.Fragment]] = []
        self.agents: dict[str, None] = {}


def _hashed(event: Event) -> Event:
    """The event with the digests of what is going to be clipped."""
    if not isinstance(event, Turn):
        return event
    return replace(event, steps=tuple(_digested(step) for step in event.steps))


def _digested(step: Step) -> Step:
    return replace(
        step,
        args_hash=step.args_hash or args_hash(step.args),
        result_hash=step.result_hash or result_hash(step.result),
        result_bytes=step.result_bytes or len(step.result.encode(errors="replace")),
    )


def _intervention(event: GuardEvent) -> dict[str, Any]:
    return {
        "i": event.verdict.i,
        "agent": event.agent,
        "event": "intervention",
        "name": event.name,
        "rung": event.verdict.rung,
        "text": event.text,
    }


def _encoded(step: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(step, default=str)
    except TypeError:  # what a model or a tool made is not always JSON
        return orjson.dumps(_plain(step))


def _plain(value: Any, depth: int = 60) -> Any:
    """The nearest that JSON has: no lone surrogates, huge numbers, endless nesting."""
    if isinstance(value, dict) and depth:
        return {_plain(str(k)): _plain(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_plain(v, depth - 1) for v in value]
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and value.bit_length() < 64:
        return value
    text = hex(value) if isinstance(value, int) else str(value)
    return text.encode("utf-8", "replace").decode()


def _append(path: Path, line: bytes) -> None:
    """One write of one whole line; a compressed file gets a member of its own."""
    data = gzip.compress(line) if path.suffix == ".gz" else line
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)
