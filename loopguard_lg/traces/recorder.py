"""Writing live runs, so that replaying the file gives the same verdicts."""

from __future__ import annotations

import atexit
import gzip
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import orjson

from loopguard_lg import redaction
from loopguard_lg.digests import args_hash, result_hash, size
from loopguard_lg.errors import PolicyError
from loopguard_lg.forking import renew
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.prompts import NAME
from loopguard_lg.quoting import spelled
from loopguard_lg.steps import Event, Step, Turn
from loopguard_lg.traces.model import Trajectory, from_event
from loopguard_lg.wholefiles import append_whole

Redact: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes one step as JSON has it, gives the step that may be written."""

MAIN = "main"
"""Who acts in a recording where the agent has no name."""

MOST = 1_000
"""Most runs that a recorder holds in memory."""

_DEPTH = 60
"""Nesting below which a value is written as text; also ends cycles."""

INTERVENTIONS = frozenset({"reflected", "escalated", "asked", "exited"})
"""Names of events that are written as steps of their own."""


_Key: TypeAlias = tuple[str, str]
"""The thread and the agent of a run."""


def redacted(step: dict[str, Any]) -> dict[str, Any]:
    """The step with known secrets masked as `***`, wherever text is in it.

    Masked are keys by their look, passwords by the name in front, and arguments by
    their own name; the digests of what there was stay. A step without secrets is
    written byte for byte as it would be without this.
    """
    return {key: redaction.data(value) for key, value in step.items()}


class Recorder:
    """An observer that writes one trajectory per thread as a line of `path`.

    A run is written when the guard ends it, when `end` is called for its thread, when
    more than `most` are open and it is the one not seen for longest, and on `close`,
    which also runs when the process exits. Until then its steps are held in memory,
    encoded, and are lost if the process is killed. Lines are appended whole; threads of
    the process may feed one recorder at once. Agents that share a thread are
    trajectories of their own, and so is what comes of a thread after it was written,
    or begins in it from nothing again (`thread#2`); a step that is taken again, after
    a retry or from an older checkpoint, takes the place of what came after it.

    A trajectory replays to the verdicts of the live run when it holds the thread from
    its beginning, and `redact` left alone what detectors compare.

    Args:
        path: A `.jsonl` file, or `.jsonl.gz`; it is made, or appended to.
        redact: Is given every step before it is kept; `None`: all is kept as it is.
        most: Runs that may be open, and threads whose names are known to be taken.
        **about: Keys of every trajectory: `source`, `task`, `versions`, `licence`, ...

    Raises:
        PolicyError: There is no such folder, or the path is one.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        redact: Redact | None = redacted,
        most: int = MOST,
        **about: Any,
    ) -> None:
        self.path = Path(path)
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise PolicyError(
                f"Recorder({str(path)!r}): give a file in a folder that is there"
            )
        self._redact = redact
        self._most = most
        self._about = about
        self._lock = threading.Lock()
        self._open: dict[_Key, _Run] = {}
        self._written: dict[str, int] = {}
        self._count = count()
        atexit.register(self.close)
        renew(self)

    def forked(self) -> None:
        """Hold nothing in a child: the runs that are open are its parent's."""
        self._lock = threading.Lock()
        self._open.clear()

    def __call__(self, event: GuardEvent) -> None:
        """Take down what the engine was fed, and what was said because of it."""
        key = event.thread, event.agent
        if event.name == "seen" and event.event is not None:
            step = _named(from_event(hashed(event.event), event.verdict.i))
            kept = self._kept(step)
            with self._lock:
                self._see(key, step, kept)
        elif event.name in INTERVENTIONS:
            kept = self._kept(_named(intervention(event)))
            with self._lock:
                self._say(key, kept, last=event.name == "exited")

    def end(self, thread: str, *, success: bool | None = None) -> None:
        """Write a thread; what comes of it later makes another trajectory.

        Nothing is written for a thread that nothing was seen of, or that the guard
        ended: its line is in the file already, without `success`.

        Raises:
            PolicyError: `success` is no truth value; readers would refuse the line.
        """
        if not isinstance(success, bool | None):
            raise PolicyError(f"success={success!r}: give True, False or None")
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

    def _kept(self, step: dict[str, Any]) -> orjson.Fragment:
        return orjson.Fragment(encoded(self._redact(step) if self._redact else step))

    def _see(self, key: _Key, step: dict[str, Any], kept: orjson.Fragment) -> None:
        i = step["i"]
        if key in self._open and i == 0 < self._open[key].steps[-1][0]:
            self._write(key)
        run = self._open.setdefault(key, _Run())
        run.seen = next(self._count)
        while run.steps and run.steps[-1][0] >= i:
            run.steps.pop()
        run.steps.append((i, kept))
        if step["agent"]:
            run.agents.setdefault(step["agent"])
        if len(self._open) > self._most:
            self._write(min(self._open, key=lambda key: self._open[key].seen))

    def _say(self, key: _Key, kept: orjson.Fragment, *, last: bool) -> None:
        """Append to the run that is open; it stands or falls with its newest step."""
        if key not in self._open:
            return
        steps = self._open[key].steps
        steps.append((steps[-1][0], kept))
        if last:
            self._write(key)

    def _write(self, key: _Key, success: bool | None = None) -> None:
        run, thread = self._open.pop(key), key[0]
        times = self._written[thread] = self._written.pop(thread, 0) + 1
        if len(self._written) > self._most:
            del self._written[next(iter(self._written))]
        trajectory = Trajectory(
            id=thread if times == 1 else f"{thread}#{times}",
            success=success,
            t0=run.began,
            extra={"agents": list(run.agents), **self._about},
        )
        steps = [kept for _, kept in run.steps]
        head = trajectory.as_dict()
        head = redaction.data(head) if self._redact else head
        line = orjson.dumps({**head, "steps": steps}, default=spelled)
        _append(self.path, line + b"\n")


def _named(step: dict[str, Any]) -> dict[str, Any]:
    """The step of an agent without a name, which goes by the guard's, as `main`'s."""
    return {**step, "agent": MAIN} if step.get("agent") == NAME else step


class _Run:
    """A run that is not written yet: its steps by position, encoded.

    `seen` counts the steps of all runs: the lowest is of the run not seen for longest.
    """

    def __init__(self) -> None:
        self.began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.seen = 0
        self.steps: list[tuple[int, orjson.Fragment]] = []
        self.agents: dict[str, None] = {}


def hashed(event: Event) -> Event:
    """The event with the digests of what is going to be clipped."""
    if not isinstance(event, Turn):
        return event
    return replace(event, steps=tuple(_digested(step) for step in event.steps))


def _digested(step: Step) -> Step:
    return replace(
        step,
        args_hash=step.args_hash or args_hash(step.args),
        result_hash=step.result_hash or result_hash(step.result),
        result_bytes=size(step),
    )


def intervention(event: GuardEvent) -> dict[str, Any]:
    """The step that an act of the guard is written as."""
    return {
        "i": event.verdict.i,
        "agent": event.agent,
        "event": "intervention",
        "name": event.name,
        "rung": event.verdict.rung,
        "text": event.text,
        **({"reason": "budget"} if event.verdict.exceeded else {}),
    }


def encoded(step: Any) -> bytes:
    """A step as JSON, with the nearest that JSON has for what it has not."""
    try:
        return orjson.dumps(step, default=spelled)
    except TypeError:  # what a model or a tool made is not always JSON
        return orjson.dumps(_plain(step))


def _plain(value: Any, depth: int = _DEPTH) -> Any:
    """The nearest that JSON has: no lone surrogates, huge numbers, endless nesting."""
    if depth and isinstance(value, dict):
        return {_plain(str(k)): _plain(v, depth - 1) for k, v in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(v, depth - 1) for v in value]
    return value if _has_json(value) else _printed(value)


def _has_json(value: Any) -> bool:
    """Whether JSON has this very number, truth or nothing."""
    if isinstance(value, int):
        return value.bit_length() < 64
    return value is None or isinstance(value, float)


def _printed(value: Any) -> str:
    text = hex(value) if isinstance(value, int) else spelled(value)
    return text.encode("utf-8", "replace").decode()


def _append(path: Path, line: bytes) -> None:
    """A whole line, or nothing; a compressed file gets a member of its own."""
    data = gzip.compress(line) if path.suffix == ".gz" else line
    append_whole(path, data, 0o600)
