"""What a result says: failure, nothing, a formality, a test outcome, something new.

Whether a repetition is a loop depends on this far more than on the wording of calls.
Formalities ("ok", "applied", a silent command) are neither news nor a repetition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopguard_lg.commands import Use
from loopguard_lg.digests import short
from loopguard_lg.steps import Step

NOTHING, LITTLE, MUCH = 0, 1, 2
"""What a call added to what was known: nothing, something or unclear, news."""

_OPENING = 300
"""Bytes with which two answers to a hand-over have to begin to count as one."""

_HEAD = 240
"""Bytes at the start of a result in which it says whether it failed."""

_ERROR = 1_000
"""Bytes of an error that have to be equal."""

_FAILED = re.compile(
    rb"[^a-z]{0,8}(?:(?:[a-z]+ ){0,4}returned: )?(?:\w*error\b|\w*exception\b|failed\b"
    rb"|failure\b|traceback \(|fatal:|http (?:error )?[45]\d\d|[45]\d\d [a-z]|invalid\b"
    rb"|unknown (?:tool|command)|cannot |can't |could not |unable to |permission denied"
    rb"|access denied|not applied|no such |malformed|command not found|panic:|denied\b"
    rb"|unauthorized|forbidden|timed? ?out|rejected\b)"
)
_TRACE = b"\ntraceback (most recent call last)"
_TRANSIENT = re.compile(
    rb"\b(?:429|502|503|504|529)\b|rate.?limit|too many requests|overloaded|temporar"
    rb"|(?:http|status|code|error)[ :=/]{1,2}5\d\d\b|internal server error|bad gateway"
    rb"|timed? ?out|connection ?(?:reset|refused|aborted|error)|service unavailable"
    rb"|try again (?:later|in)|econnreset|etimedout"
)
_PENDING = re.compile(
    rb"\b(?:queued|pending|in.progress|running|not ready|waiting|building|processing"
    rb"|scheduled|starting|provisioning|no new (?:output|messages|logs?)|still )\b"
)
_INVALID = re.compile(
    rb"(?:not a valid tool|unknown (?:tool|command|function)|no such tool|tool .{0,60}"
    rb"(?:not found|does not exist)|not (?:a )?(?:known|recognized|available) (?:tool"
    rb"|command)|validation errors? for|error invoking tool|invalid arguments?\b"
    rb"|input should be|field required|missing \d+ required|missing required"
    rb"|unexpected keyword argument|invalid json|not valid json|could not parse"
    rb"|failed to parse|arguments? (?:are|is) invalid|did not match (?:the )?schema"
    rb"|schema validation|unknown action|unterminated string)"
)
_REFUSED = re.compile(
    rb"(?P<robot>(?:complete|solve|pass) (?:the |a |this )?(?:re|h)?captcha"
    rb"|captcha (?:is )?(?:required|challenge|verification)"
    rb"|(?:verify|confirm) (?:that )?you(?:'re| are) (?:a |not a )?(?:human|robot)"
    rb"|unusual traffic)"
    rb"|(?P<login>(?:log ?in|sign ?in|authentication|subscription) (?:is )?required"
    rb"|(?:must|need to|have to|please) (?:be logged in|log ?in|sign ?in|subscribe)"
    rb"|subscribe to (?:read|continue))"
    rb"|(?P<denied>access (?:to \S{1,80} )?(?:is |was |has been )?(?:blocked|denied))"
    rb"|(?P<region>not available in your (?:region|country|location))"
)
"""Whoever asks is turned away, whatever is asked for: no result, though no error."""
_EMPTY = re.compile(
    rb"\W*(?:none|null|nil|undefined|empty|0|nothing|no (?:\w+ ){0,4}?(?:results?|match"
    rb"(?:es)?|hits|rows|records|entries|items|files?|documents?|data|output|content"
    rb"|information)(?: (?:were |was )?(?:found|returned|matched|available))?.{0,80}"
    rb"|(?:0|zero) (?:\w+ ){0,2}(?:results?|match(?:es)?|hits|rows|files?|records)"
    rb".{0,40}"
    rb"|nothing (?:was )?found.{0,60}|\(?(?:no|empty) (?:output|result).{0,20})?\W*"
)
# Behind a colon, a semicolon or a "but" comes what was found after all.
_REST = rb"\b(?:(?! but )[^:;\n]){0,80}"
_WANTED = (
    rb"(?!(?:\w+ ){0,2}(?:\w*errors?|issues?|problems?|warnings?|conflicts?|fail\w+"
    rb"|vulnerab\w+|differences?|need)\b)"
)
"""None of these is good news, and no empty result."""
_DENIES = re.compile(
    rb"\W*(?:no %(wanted)s(?:\S+ ){1,4}?(?:contains?|match(?:es|ed)?|mentions?|exists?"
    rb"|found|available|named|called|with|for|by)%(rest)s"
    rb"|(?:(?:\w+ ){0,3}(?:found|returned|yielded)|there (?:is|are|was|were))"
    rb" (?:nothing|(?:no|0|zero) %(wanted)s\w+)%(rest)s"
    rb"|nothing (?:\w+ )?(?:found|match(?:es|ed)?|returned|to show)%(rest)s"
    rb"|none of %(rest)s (?:contain|match|mention|exist|ha(?:s|ve\b))\w*%(rest)s"
    rb"|(?:empty set|couldn't find|not found)%(rest)s"
    rb"|%(rest)s(?: not found|(?:do|does|did)(?:n't| not)"
    rb" (?:exist|contain|match any)%(rest)s))\W*" % {b"wanted": _WANTED, b"rest": _REST}
)
_HOLLOW = re.compile(
    rb"\{(?=.*(?:\[\]|\{\}))(?:\s*[\"']\w+[\"']: ?(?:\[\]|\{\}|0|null|none|false|\"\")"
    rb",?)+\s*\}\s*"
)
"""An object with an empty list in it, and nothing that says more."""
_FORMAL = re.compile(
    rb"\W*(?:\w+ ){0,3}?(?:ok|okay|done|success|successfully|succeeded|true|yes|applied"
    rb"|updated|saved|sent|posted|created|deleted|removed|written|wrote|complete"
    rb"|completed|accepted|acknowledged|received|clicked|typed|pressed|scrolled|executed"
    rb"|added|finished|handed (?:over|back)|transferred|valid|passed|edited|moved)\b"
)
_FORMAL_LIMIT = 120


@dataclass(slots=True)
class Outcome:
    """How a call ended.

    Attributes:
        error: Digest of the error text; 0 without one.
        kin: The same with what is quoted or numbered left out.
        ok: A check passed or failed; `None`: it is no check, or nobody can tell.
        failures: Failing tests, -1 where not said.
        failed: It failed.
        empty: It found nothing.
        formal: A formality or silence: neither news nor a repetition.
        pending: It says that something is still going on.
        transient: A failure that may well go away by itself.
        invalid: The call itself was wrong: no such tool, arguments that don't validate.
    """

    error: int = 0
    kin: int = 0
    ok: bool | None = None
    failures: int = -1
    failed: bool = False
    empty: bool = False
    formal: bool = False
    pending: bool = False
    transient: bool = False
    invalid: bool = False


_CHECKS = ("write", "check")
_ASKS = ("read", "poll", "other")
_BRIEF = 160
"""Bytes of a result up to which one sentence may be all that it says."""
PLAIN = Outcome()
"""That of a long result which tells of no failure."""
_LONG = 400
"""Bytes from which on a result is neither empty nor a formality, and nothing waits."""


def read_outcome(step: Step, use: Use, data: bytes) -> Outcome:
    """How a call ended; `data`: its calm result."""
    head = data[:_HEAD].lower()
    ok, count = read_check(step, use, data) if use.role in _CHECKS else (None, -1)
    if ok is False or ok is None and _has_failed(step, use, head):
        return _failure(ok, count, data, head)
    if ok is None and _is_content(use, head, data):
        return PLAIN
    refused = _turned_away(use, head, len(data))
    if refused:
        return Outcome(failed=True, error=short(data[:_ERROR].lower()), kin=refused)
    return Outcome(
        kin=_opening(use, data),
        ok=ok,
        failures=count,
        empty=len(data) < _BRIEF and _says_nothing(head),
        formal=_is_formal(use, head, data),
        pending=len(data) < _LONG and _PENDING.search(head) is not None,
    )


def _is_content(use: Use, head: bytes, data: bytes) -> bool:
    """Is a result too long to be anything else? Not so where work was handed over."""
    return len(data) >= _LONG and use.role != "handoff" and not head.isspace()


def _opening(use: Use, data: bytes) -> int:
    """Digest of how the answer to a hand-over begins, 0 where it is short."""
    return short(data[:_OPENING]) if use.role == "handoff" and len(data) > 200 else 0


def _failure(ok: bool | None, count: int, data: bytes, head: bytes) -> Outcome:
    """How a call that failed ended; `ok` and `count` are those of a check."""
    text = telling_line(data)
    return Outcome(
        failed=True,
        error=short(data[:_ERROR].lower()),
        kin=short(mask(text) if ok is None else _NUMBERS.sub(b"<n>", text)),
        ok=ok,
        failures=count,
        empty=not head.strip(),
        transient=bool(_TRANSIENT.search(text)),
        # What has counted failures was carried out: they may be such errors.
        invalid=count < 0 and bool(_INVALID.search(head)),
    )


def _turned_away(use: Use, head: bytes, size: int) -> int:
    """The kind of a refusal, 0 for none; in a longer text it may be advice."""
    found = _REFUSED.search(head) if use.role in _ASKS else None
    if found is None or size >= _BRIEF and found.lastgroup != "robot":
        return 0
    return short(str(found.lastgroup).encode())


def _says_nothing(head: bytes) -> bool:
    """Is a short result empty, or does it deny that there is what was looked for?"""
    if _EMPTY.fullmatch(head) or _HOLLOW.fullmatch(head):
        return True
    return _DENIES.fullmatch(_QUOTED.sub(b"<q>", head)) is not None


def _has_failed(step: Step, use: Use, head: bytes) -> bool:
    """Did the call fail, as far as the host or the first words of its result say? A
    search that finds nothing fails without a word.
    """
    if use.role == "read" and not head.strip():
        return False
    if step.error is not None:
        return step.error
    if _FAILED.match(head):
        return True
    return head.rfind(_TRACE) >= 0 or head.rfind(b": command not found") >= 0


def _is_formal(use: Use, head: bytes, data: bytes) -> bool:
    """Is the result a mere receipt, or silence where silence means success?"""
    if use.silent and not data.strip():
        return True
    if use.role in ("read", "poll", "check") or len(data) > _FORMAL_LIMIT:
        return False
    return not head.strip() or _FORMAL.match(head) is not None


_LOUD = re.compile(
    rb"error|exception|fail|cannot|not found|denied|invalid|no such", re.I
)


def telling_line(data: bytes) -> bytes:
    """The line that says what went wrong, in lower case: the last one of a traceback,
    else the first that sounds like an error, else the first.
    """
    lines = [line.strip() for line in data[:4_000].split(b"\n") if line.strip()]
    if not lines:
        return b""
    if b"Traceback (most recent" in data:
        return lines[-1][:300].lower()
    for at, line in enumerate(lines):
        if _LOUD.search(line):
            if line.endswith(b":"):
                line += b" ".join(lines[at + 1 : at + 2])
            return line[:300].lower()
    return lines[0][:300].lower()


_QUOTED = re.compile(
    rb"\[[^\]\n]*(?:\]|$)|(?<![0-9a-z])(?:'[^'\n]*(?:'|$)|\"[^\"\n]*(?:\"|$)|`[^`\n]*(?:`|$))"
)
_NUMBERS = re.compile(rb"\d+")
_PATHLIKE = re.compile(rb"(?<![\w<])[\w.~-]*/[\w./~-]{2,}")


def mask(text: bytes) -> bytes:
    """An error text without what it quotes: names, paths and numbers."""
    text = _QUOTED.sub(b"<q>", text)
    if b"/" in text:
        text = _PATHLIKE.sub(b"<path>", text)
    return _NUMBERS.sub(b"<n>", text)


_FAIL_COUNT = re.compile(
    rb"(?<!\d)(\d{1,6}) (?:tests? )?(?:failed|failures?|failing|errors?)\b"
    rb"|(?:failures|failed tests?|failing tests?|failed|errors)[:=] {0,8}(\d{1,6})"
    rb"|there (?:are|is)(?: still)? (\d{1,6}) failing"
)
_PASS = re.compile(
    rb"\b(\d+) (?:tests? )?(?:passed|passing|ok)\b|\ball (?:\w+ )?(?:tests?|checks?)"
    rb" pass|\bok\b|no issues found|success|build succeeded|\bpassed\b"
)
_FAIL = re.compile(rb"\bfail(?:ed|ure|ures|ing)?\b|\berrors?\b|\bassertionerror\b")


def read_check(step: Step, use: Use, data: bytes) -> tuple[bool | None, int]:
    """Did a check pass, and how many failures does it count?

    A write that runs the tests by itself is a check too if its result counts failures.
    """
    if use.role == "write":
        return _tested_by_itself(data)
    if use.role != "check" or use.piped:
        return None, -1
    count = _failures(data)
    if count >= 0:
        return count == 0 and step.error is not True, count
    told = step.error is not None and not use.masked
    return (not step.error if told else _verdict(data.lower())), -1


def _tested_by_itself(data: bytes) -> tuple[bool | None, int]:
    """The same for a write."""
    count = _failures(data) if b"fail" in data and b"test" in data else -1
    return (None, -1) if count < 0 else (count == 0, count)


def _failures(data: bytes) -> int:
    """How many failures a result counts, -1 where it does not."""
    counts = (m.groups() for m in _FAIL_COUNT.finditer(data.lower()))
    return max((int(next(filter(None, found))) for found in counts), default=-1)


def _verdict(low: bytes) -> bool | None:
    """Does a result without numbers sound like a pass or a failure?"""
    if _FAIL.search(low):
        return False
    return True if _PASS.search(low) else None


_DONE = frozenset(("completed", "complete", "done", "finished", "closed", "x"))


def todos_done(args: Mapping[str, Any]) -> int:
    """How many items of a plan are ticked off; -1 if the arguments hold no items."""
    items = next((v for v in args.values() if isinstance(v, list)), None)
    if items is None:
        return -1
    return sum(
        isinstance(item, Mapping)
        and (str(item.get("status", "")).lower() in _DONE or item.get("done") is True)
        for item in items
    )


_STATE = re.compile(r"(?:sha\d*|digest|hash|revision)(?: ?[:=]? ?)([0-9a-f]{6,64})\b")


def state_in(text: str) -> str:
    """The digest of a state that a result names (`file sha 3f2a9c1b`), or nothing."""
    head = text[:400].lower()
    if "sha" not in head and "digest" not in head and "revision" not in head:
        return ""
    found = _STATE.search(head)
    return found.group(1) if found else ""
