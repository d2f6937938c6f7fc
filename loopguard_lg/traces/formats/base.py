"""What the formats share: what a format is, and how what it tells becomes steps.

A format says what happened as items, in order: a `Reply` of a model, the `Answer` to
one of its calls, a `Word` of a person's, a `Cut` of what the model sees. `run_of`
makes the run of them that `docs/traces.md` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import orjson

from loopguard_lg.digests import result_hash
from loopguard_lg.steps import TEXT_LIMIT, clip
from loopguard_lg.traces.model import PERSON

Fields: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Format:
    """One format of recordings.

    Attributes:
        name: What it is called in messages.
        matches: Whether a JSON value is a record of it.
        read: The run, as `docs/traces.md` has it, of the records of one run and the
            key of the run. May raise anything of `BAD`.
        keys: The runs that a record belongs to; `None`: each record is a run.
    """

    name: str
    matches: Callable[[Any], bool]
    read: Callable[[Sequence[Any], str], Fields]
    keys: Callable[[Any], Iterable[str]] | None = None


BAD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading a record may raise that is not what its format says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that a model asks for; `args` may be JSON in a string."""

    tool: str
    args: Any = None
    id: str = ""


def called(tool: Any, args: Any, id_: Any) -> Call:
    """The call of a record that may not say which tool or which id."""
    return Call(tool=str(tool or "unknown"), args=args, id=str(id_ or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply of a model; `about` are further keys of the step."""

    agent: str = "main"
    text: str = ""
    calls: Sequence[Call] = ()
    about: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back of a call; `about` are further keys of the call, `turn` of the
    step. `tool` and `args` are of a call that no reply may have told of.
    """

    text: str = ""
    id: str = ""
    error: bool | None = None
    tool: str = ""
    args: Any = None
    agent: str = "main"
    about: Fields = field(default_factory=dict)
    turn: Fields = field(default_factory=dict)


def answered(id_: Any, text: str, error: bool | None = None, tool: Any = "") -> Answer:
    """The answer of a record that may not say to which call or of which tool."""
    return Answer(id=str(id_ or ""), text=text, error=error, tool=str(tool or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A person spoke; `answer`: to a question of the agent's."""

    text: str = ""
    answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What came before is gone from the model's view."""

    agent: str = "main"
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a guard did, by its name in `hooks.Name`."""

    name: str
    text: str = ""
    reason: str | None = None


Item: TypeAlias = Reply | Answer | Word | Cut | Act


def run_of(name: str, items: Iterable[Item], **about: Any) -> dict[str, Any]:
    """The run that items make; keys of `about` that are `None` are left out."""
    known = {key: value for key, value in about.items() if value is not None}
    steps = _Steps()
    for item in items:
        steps.take(item)
    return {"id": name, **known, "steps": steps.made}


class _Steps:
    """The steps made so far, and the calls that have no answer yet."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.next = 0
        self.turn: dict[str, Any] | None = None
        self.open: list[dict[str, Any]] = []

    def take(self, item: Item) -> None:
        if isinstance(item, Answer):
            self._answer(item)
            return
        acts = isinstance(item, Act)  # it stands beside the turn that it answers
        step = {"i": max(0, self.next - acts), **_step(item)}
        cut_before = self.made and self.made[-1].get("event") == "compaction"
        if isinstance(item, Cut) and cut_before:
            return  # a mark and a summary tell of one
        self.made.append(step)
        self.next += not acts
        if isinstance(item, Reply):
            self.turn, self.open = step, list(step["calls"])
        elif isinstance(item, Word):
            self.turn, self.open = None, []

    def _answer(self, item: Answer) -> None:
        call = self._asked(item)
        if call is None:
            call = self._unasked(item)
        else:
            self.open.remove(call)
        call |= {"error": item.error, **_result(item.text), **item.about}
        for key, value in item.turn.items() if self.turn else ():
            _add(self.turn or {}, key, value)

    def _asked(self, item: Answer) -> dict[str, Any] | None:
        """The call that is answered: of the same id, else of the same tool."""
        if item.id:
            same = (c for c in self.open if c["id"] == item.id)
            found = next(same, None)
            # Where others have ids, a foreign one answers nothing of this turn.
            if found is not None or any(c["id"] for c in self.open):
                return found
        named = (c for c in self.open if item.tool in ("", c["tool"]))
        return next(named, None)

    def _unasked(self, item: Answer) -> dict[str, Any]:
        """A new call of the turn that is open, or of one of its own."""
        if self.turn is None:
            self.take(Reply(agent=item.agent))
        call = _call(Call(tool=item.tool or "unknown", args=item.args, id=item.id))
        (self.turn or {})["calls"].append(call)
        return call


def _add(turn: dict[str, Any], key: str, value: Any) -> None:
    """Join what several calls tell of their turn: lists, or texts."""
    before = turn.get(key)
    if isinstance(value, list):
        turn[key] = [*(before or []), *value]
    else:
        turn[key] = f"{before}; {value}" if before else value


def _step(item: Reply | Word | Cut | Act) -> dict[str, Any]:
    match item:
        case Word():
            kind = {"event": "resume"} if item.answer else {}
            return {"agent": PERSON, **kind, "text": item.text, "calls": []}
        case Cut():
            return {"agent": item.agent, "event": "compaction", "tokens": item.tokens}
        case Act():
            known = {"reason": item.reason} if item.reason else {}
            event = {"event": "intervention", "name": item.name}
            return {"agent": "", **event, "text": item.text, **known}
    calls = [_call(call) for call in item.calls]
    return {"agent": item.agent, "text": item.text, "calls": calls, **item.about}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "tool": call.tool, "args": arguments(call.args)}


def _result(text: str) -> dict[str, Any]:
    """A result, clipped; the digest and the size are of all of it."""
    if len(text) <= TEXT_LIMIT:
        return {"result": text}
    whole = {"result_hash": result_hash(text)}
    size = len(text.encode("utf-8", "replace"))
    return {"result": clip(text), **whole, "result_bytes": size}


def arguments(value: Any) -> dict[str, Any]:
    """Arguments as an object: of JSON in a string, or with what else is given as one
    argument named `input`.
    """
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError:
            return {"input": value} if value else {}
    if isinstance(value, Mapping):
        return {str(key): inner for key, inner in value.items()}
    return {} if value is None else {"input": value}


def text_of(content: Any) -> str:
    """The text of what is a text, a list of blocks, or something else, as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, Mapping):
        for key in ("text", "content"):
            if isinstance(content.get(key), str):
                return str(content[key])
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def mapping(value: Any) -> Fields:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def several(value: Any) -> list[Any]:
    """The items of a list, or the value alone."""
    return value if isinstance(value, list) else [value]


def string(value: Any) -> str | None:
    """The value where it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def truth(value: Any) -> bool | None:
    """The value where it is true or false."""
    return value if isinstance(value, bool) else None


def first(values: Iterable[T | None]) -> T | None:
    """The first value that says something."""
    return next(filter(None, values), None)


def whole(value: Any) -> int | None:
    """A whole number, also where it is written as a text or with a point."""
    found = real(value)
    return None if found is None else int(found)


def real(value: Any) -> float | None:
    """A finite number, also where it is written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < 2**63 else None


def known(**values: Any) -> dict[str, Any]:
    """The values that are not `None`."""
    return {key: value for key, value in values.items() if value is not None}


def tokens(given: Any, taken: Any, cached: Any = None) -> dict[str, int] | None:
    """Tokens of a model call, where something is known of them.

    Args:
        given: Input tokens, those from the cache included.
        taken: Output tokens.
        cached: Input tokens that came from the cache.
    """
    counts = whole(given), whole(taken), whole(cached)
    if counts[0] is None and counts[1] is None:
        return None
    names = ("input", "output", "cached")
    return dict(zip(names, (count or 0 for count in counts), strict=True))


def moment(value: Any) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, UTC where it names no zone, or of a
    number of seconds, milli-, micro- or nanoseconds.
    """
    found = real(value)
    if found is None and isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        # A zone that is not named is not this machine's: the file is from elsewhere.
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    # 1e11 seconds are the year 5138, 1e11 milliseconds are 1973.
    while found and found > 1e11:
        found /= 1_000
    return found


def since(began: float | None, value: Any) -> dict[str, float]:
    """The key `t` of a step: its seconds since the run began, where both are known."""
    at = moment(value)
    if at is None or began is None:
        return {}
    return {"t": round(max(0.0, at - began), 6)}
