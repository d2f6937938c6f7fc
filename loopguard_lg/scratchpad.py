"""What was tried, what is ruled out, what is known: it outlives the context.

The scratchpad is the one place where texts are kept. They are short, quoted, one
line each, with secrets masked, and the whole is capped in bytes, so that it lives in
the graph's state and is never in the way. State is plain data:

    {"tried": {digest: [call, times, outcome]}, "ruled": [[call, reason]],
     "facts": [text], "writes": [[call, receipt]], "branches": [text],
     "earlier": [[call or fact, reason]]}

`earlier` is what other runs ruled out, or learned (then without a reason); what
matters most stands last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import orjson

from loopguard_lg import redaction
from loopguard_lg.quoting import defused, flat
from loopguard_lg.steps import Step

Pad: TypeAlias = dict[str, Any]

BYTES = 1_800
"""Most bytes of text in a scratchpad, over all its parts."""

_MOST = {
    "tried": 8,
    "ruled": 6,
    "facts": 6,
    "writes": 8,
    "branches": 4,
    "earlier": 6,
}
_EARLIER = 800
"""Most bytes of what other runs knew: room is left for what this one learns."""

_SHAPES: dict[str, tuple[type, ...]] = {
    "tried": (str, int, str),
    "ruled": (str, str),
    "facts": (),
    "writes": (str, str),
    "branches": (),
    "earlier": (str, str),
}
LINE = 160
"""Most characters of one text."""
_OUTCOME = 60
"""Most characters of what came of a call."""


def quote(text: str, limit: int) -> str:
    """`text` from outside as one short line of data, secrets masked."""
    line = redaction.masked(defused(flat(text[: limit * 2])))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def describe(tool: str, args: Mapping[str, Any], limit: int = 90) -> str:
    """A call in one short line: `search(query="x")`."""
    items = args.items() if len(args) < 2 else sorted(args.items(), key=_name_of)
    parts = [
        f"{key}={redaction.MASK if redaction.is_secret(str(key)) else _value(value)}"
        for key, value in items
    ]
    return quote(f"{tool}({', '.join(parts)})", limit)


def _name_of(item: tuple[Any, Any]) -> str:
    return str(item[0])


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _spell(value[:200])
    try:
        text = _spell(value)
    except (TypeError, ValueError, RecursionError):  # odd keys, a cycle, a huge number
        text = _type(value)
    return text[:200]


def _type(value: Any) -> str:
    return f"<{type(value).__name__}>"


# Made once: `json.dumps` makes an encoder for every call that has options.
_spell = json.JSONEncoder(ensure_ascii=False, default=_type, sort_keys=True).encode


def name(digest: int) -> str:
    """The key of a call's digest in `tried`."""
    return format(digest & (2**64 - 1), "x")


def tried(pad: Pad, digest: int, call: str, outcome: str) -> Pad:
    """With one more try of a call; the same call is counted, not listed again."""
    return _counted(pad, digest, quote(call, LINE), quote(outcome, _OUTCOME))


def _counted(pad: Pad, digest: int, call: str, outcome: str, first: int = 1) -> Pad:
    key = name(digest)
    entries = dict(pad.get("tried", ()))
    times = entries.pop(key)[1] + 1 if key in entries else first
    entries[key] = [call, times, outcome]
    if len(entries) > _MOST["tried"]:
        del entries[next(iter(entries))]
    return {**pad, "tried": entries}


def noted(
    pad: Pad, step: Step, digest: int, *, wrote: bool, again: bool = False
) -> Pad:
    """With one more call: a write that was done, or a try of the call `digest`.

    `again`: it was made before; the first time it may have brought news.
    """
    call, outcome = describe(step.tool, step.args), quote(step.result, _OUTCOME)
    if wrote:
        return _listed(pad, "writes", [call, outcome])
    return _counted(pad, digest, call, outcome, first=1 + again)


def ruled_out(pad: Pad, digest: int) -> Pad:
    """With a call that was tried moved to what is ruled out, with its outcome."""
    rest = dict(pad.get("tried", {}))
    call, times, outcome = rest.pop(name(digest), ("", 0, ""))
    if not call:
        return pad
    older = [entry for entry in pad.get("ruled", []) if entry[0] != call]
    kept = {**pad, "tried": rest, "ruled": older}
    return add(kept, "ruled", call, f"{times}x: {outcome or 'nothing'}")


def add(pad: Pad, part: str, *texts: str) -> Pad:
    """With one more entry in `facts`, `branches`, `ruled` or `writes`."""
    lines = [quote(text, LINE) for text in texts]
    return _listed(pad, part, lines if _SHAPES[part] else lines[0])


def _listed(pad: Pad, part: str, entry: Any) -> Pad:
    kept = [old for old in pad.get(part, ()) if old != entry]
    return {**pad, part: [*kept, entry][-_MOST[part] :]}


def recalled(pad: Pad, entries: Iterable[tuple[str, str]]) -> Pad:
    """With what other runs knew, in place of what was recalled before.

    Args:
        pad: The scratchpad of this run; what is in it is not listed twice.
        entries: Calls with the reason why they are ruled out, and facts without one;
            what matters most comes first.
    """
    own = {call for call, _ in pad.get("ruled", [])} | {*pad.get("facts", [])}
    kept: list[list[str]] = []
    for text, reason in entries:
        entry = [quote(text, LINE), quote(reason, LINE)]
        if entry[0] not in own and len(orjson.dumps([*kept, entry])) <= _EARLIER:
            kept.append(entry)
    return capped({**pad, "earlier": kept[: _MOST["earlier"]][::-1]})


def capped(pad: Pad, limit: int = BYTES) -> Pad:
    """Cut down to `limit` bytes, the oldest and least needed entries first."""
    out, size = pad, _size(pad)
    if size <= limit:
        return pad
    for part in ("tried", "branches", "earlier", "facts", "ruled", "writes"):
        while size > limit and out.get(part):
            entries = out[part]
            rest: Any = (
                dict(list(entries.items())[1:])
                if isinstance(entries, dict)
                else entries[1:]
            )
            out = {**out, part: rest}
            size = _size(out)
    return out


def _size(pad: Pad) -> int:
    try:
        return len(orjson.dumps(pad))
    except TypeError:  # lone surrogates, from another writer
        return len(json.dumps(pad))


def merge(left: Pad, right: Pad) -> Pad:
    """What two writers of one step know together."""
    out = dict(left)
    for part, entries in right.items():
        if part == "tried":
            both = [*out.get(part, {}).items(), *entries.items()]
            oftenest = dict(sorted(both, key=lambda item: item[1][1]))
            kept = [(key, oftenest[key]) for key in dict(both)]
            out[part] = dict(kept[-_MOST[part] :])
        else:
            fresh = [entry for entry in entries if entry not in out.get(part, [])]
            out[part] = [*out.get(part, []), *fresh][-_MOST[part] :]
    return capped(out)


def load(data: Any) -> Pad:
    """The scratchpad behind stored data; what has another shape is left out."""
    pad: Pad = {}
    for part in _SHAPES:
        entries = data.get(part) if isinstance(data, Mapping) else None
        if part == "tried" and isinstance(entries, Mapping):
            pad[part] = {str(k): e for k, e in entries.items() if _fits(part, e)}
        elif part != "tried" and isinstance(entries, list):
            pad[part] = [entry for entry in entries if _fits(part, entry)]
    return capped(pad)


def _fits(part: str, entry: Any) -> bool:
    shape = _SHAPES[part]
    if not shape:
        return isinstance(entry, str)
    return (
        isinstance(entry, list)
        and len(entry) == len(shape)
        and all(map(isinstance, entry, shape))
    )


def render(pad: Pad, tokens: int = 400) -> str:
    """The scratchpad for a model, in at most `tokens` tokens (four bytes each).

    What matters most comes first, so that a small cap cuts the rest.
    """
    lines = [
        *(f"- done, not undone: {c} -> {r}" for c, r in pad.get("writes", [])),
        *(f"- ruled out: {c} ({why})" for c, why in pad.get("ruled", [])),
        *(f"- known: {fact}" for fact in pad.get("facts", [])),
        *(_earlier(*entry) for entry in reversed(pad.get("earlier", []))),
        *(f"- branch left: {branch}" for branch in pad.get("branches", [])),
        *(
            f"- tried {times}x: {call} -> {outcome or 'nothing'}"
            for call, times, outcome in reversed(list(pad.get("tried", {}).values()))
        ),
    ]
    room = tokens * 4
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _earlier(text: str, reason: str) -> str:
    if reason:
        return f"- ruled out in an earlier run: {text} ({reason})"
    return f"- known from an earlier run: {text}"
