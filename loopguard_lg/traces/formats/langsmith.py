"""Exports of LangSmith: runs of a trace, one object each, in a list or one a line."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats import langchain, openai
from loopguard_lg.traces.formats.base import (
    BAD,
    Answer,
    Fields,
    Format,
    Reply,
    Word,
    first,
    known,
    listed,
    mapping,
    moment,
    real,
    run_of,
    string,
    text_of,
    tokens,
)
from loopguard_lg.traces.formats.genai import decoded
from loopguard_lg.traces.formats.spans import Seen, Span, agents_of, in_order, unread

_KINDS = frozenset(
    {"llm", "tool", "chain", "retriever", "prompt", "parser", "embedding"}
)


def _matches(record: Any) -> bool:
    found = mapping(record)
    return found.get("run_type") in _KINDS and "inputs" in found


def _keys(record: Any) -> list[str]:
    found = mapping(record)
    return [str(found.get("trace_id") or found.get("id") or "")]


def _read(records: Sequence[Any], key: str) -> Fields:
    runs = [*_runs(records)]
    spans = [_span(run) for run in runs]
    seen = [one for s, run in zip(spans, runs, strict=True) if (one := _seen(s, run))]
    roots = [run for run in runs if not run.get("parent_run_id")]
    return run_of(
        key,
        in_order(seen, agents_of(spans, _agents(runs))),
        source="langsmith",
        model=first(one.item.about.get("model") for one in seen),
        success=_score(roots),
    )


def _runs(records: Sequence[Any]) -> Iterator[Fields]:
    """The runs, those that stand in their parents included."""
    for run in map(mapping, records):
        yield run
        yield from _runs(listed(run.get("child_runs")))


def _agents(runs: Sequence[Fields]) -> dict[str, str]:
    """Agents by what LangChain notes of a run: the name that its graph was given."""
    metadata = {
        str(run.get("id")): mapping(mapping(run.get("extra")).get("metadata"))
        for run in runs
    }
    return {
        id_: name
        for id_, noted in metadata.items()
        if (name := string(noted.get("lc_agent_name")))
    }


def _score(roots: Sequence[Fields]) -> bool | None:
    """Whether feedback named `correctness` or `success` says that it went well."""
    for run in roots:
        stats = mapping(run.get("feedback_stats"))
        for name in ("success", "correctness"):
            score = real(mapping(stats.get(name)).get("avg"))
            if score is not None:
                return score >= 0.5
    return None


def _span(run: Fields) -> Span:
    return Span(
        trace=_keys(run)[0],
        id=str(run.get("id") or ""),
        parent=str(run.get("parent_run_id") or ""),
        name=str(run.get("name") or ""),
        start=moment(run.get("start_time")),
        end=moment(run.get("end_time")),
        failed=bool(run.get("error")),
    )


def _seen(span: Span, run: Fields) -> Seen | None:
    if run.get("run_type") == "tool":
        return Seen(span=span, item=_answer(span, run))
    if run.get("run_type") != "llm":
        return None
    given = mapping(run.get("inputs"))
    said = langchain.items(_messages(given))
    words = [item.text for item in said if isinstance(item, Word)]
    return Seen(span=span, item=_reply(run), words=words)


def _messages(inputs: Fields) -> list[Any]:
    """The messages of a request, which LangChain puts into a list of requests."""
    found = listed(inputs.get("messages") or inputs.get("input"))
    return found[0] if found and isinstance(found[0], list) else found


def _reply(run: Fields) -> Reply:
    outputs = mapping(run.get("outputs"))
    spent = tokens(run.get("prompt_tokens"), run.get("completion_tokens"))
    settings = mapping(mapping(run.get("extra")).get("metadata"))
    cost = real(run.get("total_cost"))
    model = string(settings.get("ls_model_name"))
    about = known(model=model, tokens=spent, cost=cost)
    kind, fields = langchain.parted(_message(outputs))
    if kind == "ai":
        found = langchain.reply(fields)
        return Reply(text=found.text, calls=found.calls, about={**about, **found.about})
    text, calls = text_of(fields.get("content")), openai.calls_of(fields)
    return Reply(text=text, calls=calls, about=about)


def _message(outputs: Fields) -> Any:
    """The message in the outputs of a model: LangChain's, or the API's."""
    generations = listed(outputs.get("generations"))
    while generations and isinstance(generations[0], list):
        generations = generations[0]
    if generations:
        first = mapping(generations[0])
        return first.get("message") or {"content": first.get("text")}
    choices = listed(outputs.get("choices"))
    if choices:
        return mapping(mapping(choices[0]).get("message"))
    messages = listed(outputs.get("messages"))
    return messages[-1] if messages else outputs.get("output") or outputs


def _answer(span: Span, run: Fields) -> Answer:
    inputs = mapping(run.get("inputs"))
    args = inputs.get("input", inputs) if len(inputs) == 1 else inputs
    kind, fields = langchain.parted(mapping(run.get("outputs")).get("output"))
    outputs = run.get("outputs")
    text = text_of(fields.get("content")) if kind else text_of(_output(outputs))
    failed = True if fields.get("status") == "error" else None
    return Answer(
        tool=span.name,
        id=str(fields.get("tool_call_id") or ""),
        args=unread(span) if not inputs and not outputs else _literal(args),
        text=text or text_of(run.get("error")),
        error=failed,
    )


def _output(outputs: Any) -> Any:
    return mapping(outputs).get("output", outputs)


def _literal(args: Any) -> Any:
    """Arguments that LangChain has put into words as Python does."""
    value = decoded(args)
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return literal_eval(value)
    except (*BAD, SyntaxError, MemoryError):  # what it raises where it gives up
        return value


FORMAT = Format("a LangSmith export", _matches, _read, _keys)
