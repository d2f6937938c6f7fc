"""Logs of Claude Code (`~/.claude/projects/*/*.jsonl`): one record a line.

A reply is spread over the records of one message id. Records of subagents
(`isSidechain`) are runs of their own; what tells nothing of the conversation is left
out (`isMeta`, snapshots, titles).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats import anthropic
from loopguard_lg.traces.formats.base import (
    Cut,
    Fields,
    Format,
    Item,
    first,
    listed,
    mapping,
    moment,
    run_of,
    since,
    string,
    whole,
)

_KINDS = frozenset({"user", "assistant", "system"})
_ASIDE = frozenset(
    {"summary", "file-history-snapshot", "queue-operation", "progress", "ai-title"}
)


def _matches(record: Any) -> bool:
    found = mapping(record)
    known = "sessionId" in found or found.get("type") in _ASIDE
    return known and "type" in found


def _keys(record: Any) -> list[str]:
    """The session, and the subagent where it is one."""
    found = mapping(record)
    if found.get("type") not in _KINDS:
        return []
    session = str(found.get("sessionId") or "")
    if not found.get("isSidechain"):
        return [session]
    return [f"{session}/{found.get('agentId') or 'sidechain'}"]


def _read(records: Sequence[Any], key: str) -> Fields:
    found = [record for record in map(mapping, records) if key in _keys(record)]
    version = first(string(r.get("version")) for r in found)
    models = (mapping(r.get("message")).get("model") for r in found)
    return run_of(
        key or "session",
        _items(found, first(moment(r.get("timestamp")) for r in found)),
        source="claude_code",
        model=first(map(string, models)),
        t0=first(string(r.get("timestamp")) for r in found),
        versions={"agent": version} if version else None,
    )


def _items(records: Sequence[Fields], began: float | None) -> Iterator[Item]:
    parts: dict[Any, list[Fields]] = {}
    for record in records:
        parts.setdefault(_message_id(record), []).append(record)
    for group in parts.values():  # results may stand between the parts of a reply
        head = group[0]
        if head.get("type") == "assistant":
            yield _reply(group, began)
        elif head.get("subtype") == "compact_boundary":
            facts = mapping(head.get("compactMetadata"))
            yield Cut(tokens=whole(facts.get("postTokens")))
        elif head.get("isCompactSummary"):
            yield Cut()
        elif head.get("type") == "user" and not head.get("isMeta"):
            yield from anthropic.said(mapping(head.get("message")).get("content"))


def _message_id(record: Fields) -> Any:
    """The reply that a record is a part of; other records stand alone."""
    if record.get("type") != "assistant":
        return record.get("uuid")
    return mapping(record.get("message")).get("id") or record.get("uuid")


def _reply(parts: Sequence[Fields], began: float | None) -> Item:
    messages = [mapping(part.get("message")) for part in parts]
    blocks = [b for m in messages for b in _blocks(m.get("content"))]
    timed = since(began, parts[-1].get("timestamp"))
    about = anthropic.usage_of(messages[-1])
    return anthropic.reply({"content": blocks}, **about, **timed)


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if string(content) else listed(content)


FORMAT = Format("a Claude Code log", _matches, _read, _keys)
