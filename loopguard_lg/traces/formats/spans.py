"""What is common to formats of spans: a `Span`, and what spans tell, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopguard_lg.traces.formats.base import (
    Answer,
    Fields,
    Item,
    Reply,
    Word,
    first,
    since,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span; times are seconds since 1970."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    start: float | None = None
    end: float | None = None
    failed: bool = False
    about: Fields = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        if self.start is None or self.end is None:
            return None
        return round(max(0.0, self.end - self.start), 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a span of a model or a tool tells.

    Attributes:
        span: The span.
        item: The reply, or the answer; its agent is filled in.
        words: All that people said in the request, where it is kept.
    """

    span: Span
    item: Reply | Answer
    words: Sequence[str] = ()


def in_order(seen: Iterable[Seen], agents: Mapping[str, str]) -> Iterator[Item]:
    """The items of a run, by time; words of people where they are new.

    Args:
        seen: What spans tell, in any order.
        agents: The agent that each span belongs to, by the span's id; the first one
            is whom people speak to.
    """
    # Exporters write a span when it ends, so a parent comes after its children.
    every = sorted(seen, key=_start)
    began = first(one.span.start for one in every)
    told, said = None, 0
    for one in every:
        agent = agents.get(one.span.id) or "main"
        if isinstance(one.item, Reply):
            told = told or agent
        if agent == told and len(one.words) > said:
            yield Word(text=one.words[-1])
            said = len(one.words)
        yield _placed(one, agent, began)


def _start(one: Seen) -> float:
    return one.span.start or 0.0


def _placed(one: Seen, agent: str, began: float | None) -> Item:
    """The item with its agent and times."""
    item, seconds = one.item, one.span.seconds
    timed = {} if seconds is None else {"seconds": seconds}
    if isinstance(item, Answer):
        failed = item.error or one.span.failed or item.error
        about = {**timed, **item.about}
        return replace(item, error=failed, agent=agent, about=about)
    about = {**timed, **since(began, one.span.end), **item.about}
    return replace(item, agent=agent, about=about)


def agents_of(spans: Sequence[Span], named: Mapping[str, str]) -> dict[str, str]:
    """The agent of each span: its own name for it, or the nearest one above.

    Args:
        spans: The spans of a run.
        named: Names that spans give themselves, by id.
    """
    parents = {span.id: span.parent for span in spans}
    return {span.id: _agent(span.id, parents, named) for span in spans}


def _agent(id_: str, parents: Mapping[str, str], named: Mapping[str, str]) -> str:
    passed: set[str] = set()
    while id_ and id_ not in passed:
        if id_ in named:
            return named[id_]
        passed.add(id_)
        id_ = parents.get(id_, "")
    return ""


def unread(span: Span) -> dict[str, str]:
    """Arguments of a call whose own are not kept: what is not known is not equal."""
    return {"span": span.id}
