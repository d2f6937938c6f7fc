"""Which calls and results are the same: digests after normalising.

Two levels of identity for a call. `call_digest` is exact but for what cannot matter
(key order, `1.0` or `1`, white space at the ends, path spelling, request ids): a held
call is recognised by it. `near_digest` also ignores case, white space, quotes, times,
random ids and free-text descriptions. Results have one: `result_digest`, in which
times, durations, process ids and random ids are masked.

Everything works on UTF-8 bytes, because `bytes.translate` shows in half a microsecond
per kilobyte whether one of the regular expressions could match at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh32_intdigest

from loopguard_lg.steps import TEXT_LIMIT, Step, clip
from loopguard_lg.tools import ToolPolicy

_DEPTH = 12
"""Nesting below which arguments are no longer told apart; also ends cycles."""

_POSITIVE = (1 << 63) - 1
_CLIPPED = "characters left out ...]"


def words(text: str) -> frozenset[str]:
    """The words of a text: a readable way to write a set."""
    return frozenset(text.split())


_NOISE = words("thought thoughts reasoning toolsummary toolaction security_risk")
"""Arguments that say nothing about what the call does, beside others that do."""

_TRACED = words(
    "request_id requestid trace_id traceid span_id call_id tool_call_id toolcallid"
    " correlation_id nonce"
)
"""Arguments that are noise where they look drawn at random; `7` may be the object."""

_DRAWN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w-]{12,}\Z")

_ASIDE = words(
    "description summary comment reason purpose title label rationale explanation"
)
"""Free text beside one of `_SUBJECT`: an annotation of the call, not its content."""

_SUBJECT = words("command cmd code path file_path query url sql script")

_PATHS = ("path", "file", "dir", "cwd", "folder")
"""An argument whose name ends like this holds a path."""


def args_hash(args: Any) -> str:
    """The digest of untrimmed arguments for the recorder, 16 hex digits.

    Key order does not matter; anything goes in (cycles, NaN, lone surrogates, objects).
    """
    parts: list[str] = []
    _write(args, parts, _DEPTH)
    return xxh3_64_hexdigest(_encode("".join(parts)))


def result_hash(text: str) -> str:
    """The digest of an untrimmed result for the recorder, 16 hex digits."""
    return xxh3_64_hexdigest(_encode(text))


def call_digest(
    tool: str, args: Mapping[str, Any], tools: Mapping[str, ToolPolicy] | None = None
) -> int:
    """The identity of a call, 63 bits; equal for calls that do the same thing."""
    policy = tools.get(tool) if tools else None
    return digest(canonical(tool, args, policy.volatile if policy else ()))


def step_digests(step: Step, volatile: Sequence[str] = ()) -> tuple[int, int, bytes]:
    """`call_digest`, `near_digest` and the canonical bytes of a step.

    Where the arguments were trimmed, or have to be, their exact digest joins in, so
    that a live call and its recording agree.
    """
    data = canonical(step.tool, step.args, volatile, step.args_hash)
    near, args = data, step.args
    if not _SUBJECT.isdisjoint(args) and not _ASIDE.isdisjoint(args):
        near = canonical(step.tool, args, (*volatile, *_ASIDE.intersection(args)))
    return digest(data), near_digest(near), near


def canonical(
    tool: str,
    args: Mapping[str, Any],
    volatile: Sequence[str] = (),
    exact: str | None = None,
) -> bytes:
    """The call as bytes: what is equal here does the same."""
    parts = [tool, "("]
    alone = len(args) == 1
    for key in args if alone else sorted(args, key=str):
        name = str(key)
        if name in volatile or not alone and _is_noise(name.lower(), args[key]):
            continue
        _argument(name, args[key], parts)
    text = "".join(parts)
    if len(text) >= TEXT_LIMIT and _CLIPPED in text:
        text += exact or _exact(args)
    return _encode(text)


def _is_noise(name: str, value: Any) -> bool:
    if name in _TRACED:
        return isinstance(value, str) and _DRAWN.match(value) is not None
    return name in _NOISE


def _argument(name: str, value: Any, parts: list[str]) -> None:
    """Append one argument; `None` is as if it were missing."""
    if type(value) is str:
        parts += (name, "=", _text(name.lower(), value), ",")
    elif value is not None:
        parts.append(name)
        _write(value, parts, _DEPTH)
        parts.append(",")


def _exact(args: Mapping[str, Any]) -> str:
    """The exact digest of live arguments, nothing for a foreign trimmed recording."""
    trimmed = any(type(v) is str and _CLIPPED in v for v in args.values())
    return "" if trimmed else args_hash(args)


def _text(name: str, value: str) -> str:
    """A string argument without what can't matter: white space at the ends, and in
    paths doubled slashes, `./` and a trailing slash.
    """
    value = clip(value).strip()
    if name.endswith(_PATHS) and ("/" in value or "\\" in value):
        return tidy_path(value)
    return value


def tidy_path(path: str) -> str:
    """One spelling of a path: `..` resolved, back slashes turned round."""
    parts: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if path[:1] in "/\\" and path else "") + "/".join(parts)


def _write(value: Any, parts: list[str], depth: int) -> None:
    """Append a spelling of any value that equal values share."""
    if isinstance(value, str):
        parts.append(f'"{value.strip()}"')
    elif isinstance(value, bool) or value is None:
        parts.append(str(value))
    elif isinstance(value, (int, float)):
        parts.append(_number(value))
    elif depth <= 0:
        parts.append("...")
    elif isinstance(value, Mapping):
        _write_mapping(value, parts, depth)
    elif isinstance(value, (list, tuple)):
        parts.append("[")
        for item in value:
            _write(item, parts, depth - 1)
            parts.append(",")
        parts.append("]")
    else:
        parts.append(_opaque(value))


def _write_mapping(value: Mapping[Any, Any], parts: list[str], depth: int) -> None:
    """Append a mapping in the order of its keys."""
    parts.append("{")
    for key in sorted(value, key=str):
        parts.append(f"{key}:")
        _write(value[key], parts, depth - 1)
        parts.append(",")
    parts.append("}")


def _number(value: int | float) -> str:
    """`1.0` as `1`; huge integers by their digest, for `str` refuses them."""
    if isinstance(value, float):
        return (
            str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
        )
    return str(value) if value.bit_length() < 1000 else hex(value)


def _opaque(value: Any) -> str:
    """A stand-in for an object: its type, and its text where that holds no address."""
    try:
        text = str(value)
    except Exception:  # somebody else's __str__ may raise anything
        text = ""
    return type(value).__name__ + ("" if " at 0x" in text else text)


def _encode(text: str) -> bytes:
    """UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def digest(data: bytes) -> int:
    """63 bits, so that every store and JSON reader keeps them."""
    return xxh3_64_intdigest(data) & _POSITIVE


def short(data: bytes) -> int:
    """32 bits: enough within a window of some dozens, half the room."""
    return xxh32_intdigest(data) or 1


_LOOSE = bytes(range(256)).lower()
_PUNCTUATION = b" \t\r\n\"'`/\\.,;:()[]{}_?!-"


_SHORT = 400
"""Bytes of a call up to which times and random ids are looked for in it."""


def near_digest(data: bytes) -> int:
    """32 bits of a call that ignore case, white space and punctuation, and in a short
    call times and random ids.
    """
    data = _fold(data)
    if len(data) <= _SHORT:
        # a file that a call names is what it is about, unless the name was drawn
        data = _anonymous(data, _hints(data), _DRAWN_TMP)
    return short(data.translate(_LOOSE, _PUNCTUATION))


def _fold(data: bytes) -> bytes:
    """Case folding beyond ASCII, which `translate` does not do."""
    if data.isascii():
        return data
    return _encode(data.decode("utf-8", "surrogatepass").casefold())


_DIGITS = bytes(0x30 if 0x30 <= b <= 0x39 else b for b in range(256))
_HEX = bytes(0x68 if chr(b) in "0123456789abcdefABCDEF" else 0x20 for b in range(256))
_ID = re.compile(
    rb"(?<![0-9A-Za-z])(?:0x[0-9a-fA-F]{4,64}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}"
    rb"-[0-9a-fA-F]{12}|(?=[a-fA-F]{0,40}\d)(?=\d{0,40}[a-fA-F])[0-9a-fA-F]{7,64}"
    rb"|1[4-9]\d{8}(?:\d{3})?)(?![0-9A-Za-z])"
)
"""Digests, UUIDs, addresses, seconds and milliseconds since 1970."""

_CLOCK = re.compile(
    rb"(?:(?<=\d[T ])\d\d:\d\d|\d\d?:\d\d:\d\d)(?::\d\d)?(?:[.,]\d{1,9})?"
    rb"(?:Z|[+-]\d\d:?\d\d| ?[AP]M)?"
)
"""Times of day. A date keeps its day, which is data more often than not."""

_TMP = re.compile(rb"/tmp/[\w.+-]+")
_DRAWN_TMP = re.compile(rb"/tmp/(?:tmp\w{6,}|pytest-of-[\w-]{1,40}/pytest-\d+)")
_TOOK = re.compile(rb"\d[\d.]*+ ?m?s(?:ec|ecs|econds?)?(?![0-9A-Za-z])")
_COUNTED = re.compile(rb"\b(?:pid|[Aa]ttempts?)[ =:#]{1,3}\d+")


def _anonymous(data: bytes, hints: bytes, tmp: re.Pattern[bytes] = _TMP) -> bytes:
    """`data` with times, random ids and temp paths masked.

    Args:
        data: Any text.
        hints: The same with all digits as `0` and no blanks: cheap searches in it show
            first whether a regular expression could match at all.
        tmp: Which paths are temporary.
    """
    if data.translate(_HEX).find(b"hhhhhhh") >= 0:
        data = _ID.sub(b"<id>", data)
    if _COLON in hints and hints.rfind(b"0:00") >= 0:
        data = _CLOCK.sub(b"<time>", data)
    return tmp.sub(b"<tmp>", data) if data.rfind(b"/tmp/") >= 0 else data


# `in` is quick for one byte, given as a number; for several `find` is quicker.
_COLON, _ZERO = b":0"


# A search looks for the last byte of what it is for, one from the right for the first:
# digits and slashes are rarer than letters, so that it then takes a third of the time.
def _hints(data: bytes) -> bytes:
    return data.translate(_DIGITS, b" ")


def calm(data: bytes) -> bytes:
    """`data` with what is different in every result masked: times, random ids, temp
    paths, durations, process ids, counters of attempts.
    """
    return _calm(data, _hints(data))


def _calm(data: bytes, hints: bytes) -> bytes:
    data = _anonymous(data, hints)
    if _ZERO not in hints:
        return data
    if hints.rfind(b"0s") >= 0 or hints.rfind(b"0ms") >= 0:
        data = _TOOK.sub(b"<took>", data)
    if hints.rfind(b"pid") >= 0 or hints.find(b"ttemp") >= 0:
        data = _COUNTED.sub(b"<n>", data)
    return data


def settle(step: Step) -> bytes:
    """The result of a step as calm bytes, from its clipped text."""
    return settle_both(step)[0]


def settle_both(step: Step) -> tuple[bytes, bytes]:
    """The same, also without blanks: what `result_digest` and `units` look at."""
    data = _encode(clip(step.result))
    bare = squeeze(data)
    calmed = _calm(data, bare.translate(_DIGITS))
    return calmed, bare if calmed is data else squeeze(calmed)


def size(step: Step) -> int:
    """Bytes of the untrimmed result."""
    if step.result_bytes is not None:
        return step.result_bytes
    text = step.result
    return len(text) if text.isascii() else len(_encode(text))


_MASKED = re.compile(rb"<(?:time|id|took|tmp|n)>")
_SAYS = re.compile(rb"[A-SU-Ya-z\x80-\xff]")
"""A letter outside of times such as `2024-05-01T10:00Z`."""


def squeeze(calmed: bytes) -> bytes:
    """A text without its blanks."""
    return calmed.translate(None, b" \r")


def result_digest(step: Step, squeezed: bytes) -> int:
    """32 bits that equal results share, whatever their times, ids and blanks.

    A result that is nothing but a time or an id is data. One too long to be looked at
    in full counts with its exact digest, unless it holds volatile parts, which the
    exact digest would not forgive.
    """
    data = squeezed.strip()
    if len(data) < 60 and b"<" in data and not _SAYS.search(_MASKED.sub(b"", data)):
        return short(_encode(step.result))
    if len(step.result) >= TEXT_LIMIT and not _MASKED.search(squeezed):
        data += _encode(step.result_hash or result_hash(step.result))
    return short(data)


def shape(step: Step) -> int:
    """32 bits of a call without the single values that it asks for, and without the
    digits in the others: equal where the same is asked of one item after the other.
    """
    parts = [step.tool]
    for key in sorted(step.args, key=str):
        value = step.args[key]
        several = isinstance(value, str) and " " in value.strip()
        parts.append(
            f"{key}={clip(value).strip() if several else type(value).__name__}"
        )
    return short(_encode("\0".join(parts)).translate(None, b"0123456789"))
