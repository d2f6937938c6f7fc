"""What a recorded run is: a `Trajectory`, and how its steps and the engine's events
are written as each other.

A step is kept as the JSON object it was read from, unknown keys included; `to_event`
reads it, `from_event` writes it. The format is described in `docs/traces.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, get_args

from loopguard_lg.steps import (
    Compaction,
    Event,
    Human,
    Nested,
    Progress,
    Role,
    Step,
    Tokens,
    Touch,
    Turn,
    clip,
)

Record: TypeAlias = Mapping[str, Any]
"""One step of a recording, as JSON has it."""

PERSON = "user"
"""The agent that is a person."""

_ROLES = frozenset(get_args(Role))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One recorded run.

    Attributes:
        id: Its name, unique in a file.
        steps: What happened, in order, as JSON has it, each with its position `i`.
        events: What the engine is told of it on replay, each with its position.
        success: Did the task succeed; `None`: unknown.
        source: Where it is from.
        model: The model, where one did it all.
        task: What was asked for.
        versions: What a change can be blamed on: `agent`, `prompt`, `tools`, `policy`.
        t0: When it began, ISO 8601 with zone.
        extra: Every other key (`licence`, `agents`, and what is not known).
    """

    id: str
    steps: tuple[Record, ...] = ()
    events: tuple[Event, ...] = ()
    success: bool | None = None
    source: str | None = None
    model: str | None = None
    task: str | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    t0: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The JSON object it is written as."""
        return {
            "id": self.id,
            "source": self.source,
            "model": self.model,
            "task": self.task,
            "success": self.success,
            **({"versions": dict(self.versions)} if self.versions else {}),
            **({"t0": self.t0} if self.t0 else {}),
            **self.extra,
            "steps": list(self.steps),
        }


_FIELDS = {field.name for field in fields(Trajectory)} - {"events", "extra"}


def from_dict(data: Any) -> Trajectory:
    """The run that a JSON object describes.

    Raises:
        ValueError: It is not as the format says; the message says which key.
    """
    _object(data, "a trajectory")
    given = _get(data, "steps", list, "")
    if not _get(data, "id", str, "") or given is None:
        raise ValueError("a trajectory needs the keys `id` and `steps`")
    placed = [*_placed(given)]
    return Trajectory(
        id=data["id"],
        steps=tuple(step for step, _ in placed),
        events=tuple(event for _, event in placed if event is not None),
        success=_get(data, "success", bool, ""),
        source=_get(data, "source", str, ""),
        model=_get(data, "model", str, ""),
        task=_get(data, "task", str, ""),
        versions=_get(data, "versions", dict, "", {}),
        t0=_get(data, "t0", str, ""),
        extra={key: value for key, value in data.items() if key not in _FIELDS},
    )


def _placed(steps: Iterable[Any]) -> Iterator[tuple[Record, Event | None]]:
    """Each step with what the engine is told of it.

    Where there is no `i` it is counted on; what the engine is not told of stands
    beside the newest that it is.
    """
    last = -1
    for at, step in enumerate(steps):
        event, i = to_event(step, f"steps[{at}]"), step.get("i")
        if i is None:
            i = max(last, 0) if event is None else last + 1
            step = {**step, "i": i}
        if event is not None:
            if i <= last:
                raise ValueError(f"steps[{at}].i is {i}, not above {last}")
            last, event = i, event if event.i == i else replace(event, i=i)
        yield step, event


def to_event(record: Any, where: str = "step") -> Event | None:
    """What the engine is told of one step; `None`: nothing.

    A person's step is `Human`, or with `event: resume` the answer to a question;
    `compaction` and `progress` are what they say. The guard's own `intervention`, a
    `rollback` and any other event are not told: the engine comes to its verdicts by
    itself, and a run that went back simply goes on.

    Raises:
        ValueError: A value is not of its type; the message begins with `where`.
    """
    _object(record, where)
    kind = _get(record, "event", str, where)
    i = _get(record, "i", int, where)
    agent = _get(record, "agent", str, where, "")
    text = _get(record, "text", str, where, "")
    if agent == PERSON and kind in (None, "resume"):
        raised = _raised(_get(record, "raised", dict, where, {}), f"{where}.raised")
        return Human(text=text, answer=kind == "resume", raised=raised, i=i)
    if kind == "compaction":
        tokens = _tokens(record, where)
        return Compaction(agent=agent, tokens=tokens.total if tokens else None, i=i)
    if kind == "progress":
        return Progress(note=text, i=i)
    return None if kind else _turn(record, agent, text, i, where)


def _raised(limits: Record, where: str) -> dict[str, float]:
    return {str(name): _number(limits, name, where) or 0.0 for name in limits}


def _turn(record: Record, agent: str, text: str, i: int | None, where: str) -> Turn:
    calls = _get(record, "calls", list, where, ())
    return Turn(
        agent=agent,
        text=text,
        steps=tuple(_step(c, f"{where}.calls[{at}]") for at, c in enumerate(calls)),
        model=_get(record, "model", str, where),
        tokens=_tokens(record, where),
        cost=_number(record, "cost", where),
        seconds=_number(record, "seconds", where),
        t=_number(record, "t", where),
        i=i,
        nested=_nested(record, where),
        progress=_get(record, "progress", str, where, ""),
        touched=_touched(record, where),
    )


def _touched(record: Record, where: str) -> tuple[Touch, ...]:
    items = _get(record, "touched", list, where, ())
    return tuple(
        _touch(item, f"{where}.touched[{at}]") for at, item in enumerate(items)
    )


def _touch(item: Any, where: str) -> Touch:
    _object(item, where)
    return Touch(
        path=_get(item, "path", str, where, ""),
        t=_number(item, "t", where),
        agent=_get(item, "agent", str, where, ""),
        size=_get(item, "size", int, where),
    )


def _step(call: Any, where: str) -> Step:
    _object(call, where)
    tool = _get(call, "tool", str, where)
    if not tool:
        raise ValueError(f"{where} has no `tool`")
    role = _get(call, "role", str, where)
    return Step(
        tool=tool,
        args=_get(call, "args", dict, where, {}),
        result=_get(call, "result", str, where, ""),
        error=_get(call, "error", bool, where),
        id=_get(call, "id", str, where, ""),
        state=_get(call, "state", str, where),
        changed_state=_get(call, "changed_state", bool, where),
        seconds=_number(call, "seconds", where),
        blocked=_get(call, "blocked", bool, where, False),
        cached=_get(call, "cached", bool, where, False),
        attempts=_get(call, "attempts", int, where, 1),
        args_hash=_get(call, "args_hash", str, where),
        result_hash=_get(call, "result_hash", str, where),
        result_bytes=_get(call, "result_bytes", int, where),
        role=role if role in _ROLES else None,
    )


def _tokens(record: Record, where: str) -> Tokens | None:
    value = record.get("tokens")
    if not isinstance(value, Mapping):
        total = _get(record, "tokens", int, where)
        return None if total is None else Tokens(input=total)
    at = f"{where}.tokens"
    return Tokens(
        input=_get(value, "input", int, at, 0),
        output=_get(value, "output", int, at, 0),
        cached=_get(value, "cached", int, at, 0),
        estimated=_get(value, "estimated", bool, at, False),
    )


def _nested(record: Record, where: str) -> tuple[Nested, ...]:
    items = _get(record, "nested", list, where, ())
    return tuple(_inner(item, f"{where}.nested[{at}]") for at, item in enumerate(items))


def _inner(item: Any, where: str) -> Nested:
    _object(item, where)
    return Nested(
        model_calls=_get(item, "model_calls", int, where, 0),
        tokens=_tokens(item, where) or Tokens(),
        cost=_number(item, "cost", where),
    )


def from_event(event: Event, i: int) -> dict[str, Any]:
    """The step that `event` is written as; `to_event` reads it back.

    Results are clipped; everything else is whole, as verdicts depend on it.
    """
    if isinstance(event, Human):
        kind = _known(event="resume" if event.answer else None)
        said = {"i": i, "agent": PERSON, **kind, "text": event.text, "calls": []}
        return {**said, **_known(raised=dict(event.raised) or None)}
    if isinstance(event, Compaction):
        known = _known(tokens=event.tokens)
        return {"i": i, "agent": event.agent, "event": "compaction", **known}
    if isinstance(event, Progress):
        return {"i": i, "agent": "", "event": "progress", "text": event.note}
    return _written(event, i)


def _written(event: Turn, i: int) -> dict[str, Any]:
    """The step of a turn."""
    return {
        "i": i,
        "agent": event.agent,
        "text": event.text,
        "calls": [_call(step) for step in event.steps],
        "tokens": _spent(event.tokens),
        "t": event.t,
        **_known(
            model=event.model,
            cost=event.cost,
            seconds=event.seconds,
            nested=[*map(_below, event.nested)] or None,
            progress=event.progress or None,
            touched=[*map(_seen, event.touched)] or None,
        ),
    }


def _call(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "tool": step.tool,
        "args": dict(step.args),
        "result": clip(step.result),
        "error": step.error,
        **_known(
            state=step.state,
            changed_state=step.changed_state,
            seconds=step.seconds,
            blocked=step.blocked or None,
            cached=step.cached or None,
            attempts=step.attempts if step.attempts > 1 else None,
            args_hash=step.args_hash,
            result_hash=step.result_hash,
            result_bytes=step.result_bytes,
            role=step.role,
        ),
    }


def _spent(tokens: Tokens | None) -> dict[str, Any] | None:
    if tokens is None:
        return None
    spent = {"input": tokens.input, "output": tokens.output, "cached": tokens.cached}
    return {**spent, **_known(estimated=tokens.estimated or None)}


def _below(nested: Nested) -> dict[str, Any]:
    counts = {"model_calls": nested.model_calls, "tokens": _spent(nested.tokens)}
    return {**counts, **_known(cost=nested.cost)}


def _seen(touch: Touch) -> dict[str, Any]:
    """What a watcher saw of a file."""
    agent = touch.agent or None
    return {"path": touch.path, **_known(t=touch.t, agent=agent, size=touch.size)}


def _known(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


_KINDS = {str: "a string", int: "a whole number", bool: "true or false"}
_KINDS |= {float: "a number", list: "a list", dict: "an object", type(None): "null"}


def _name(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _object(value: Any, where: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is an object, not {_name(value)}")


def _get(
    data: Record, key: str, kind: type[Any], where: str, default: Any = None
) -> Any:
    """The value of `key`, checked for its type; `default` where there is none."""
    value = data.get(key)
    if value is None:
        return default
    if type(value) is kind:
        return value
    at = f"{where}.{key}" if where else f"`{key}`"
    raise ValueError(f"{at} is {_KINDS[kind]}, not {_name(value)}")


def _number(data: Record, key: str, where: str) -> float | None:
    value = data.get(key)
    return float(value) if type(value) is int else _get(data, key, float, where)
