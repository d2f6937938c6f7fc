"""Which parts of a text are secret: the pinned rules, the same on every machine.

They are ours, so that the texts a model is shown do not depend on what else is
installed; the tests hold them against the detectors of `detect-secrets`. Each
expression takes linear time: runs of repeated signs are bounded, or follow a literal.
"""

from __future__ import annotations

import re

MASK = "***"
"""Stands where a secret was."""

_COUNTED = r"(?!s|[_-]?(?:count|limit|detail|usage|budget|type))"
"""Behind `token`: what is counted is none that opens anything."""

_NAMES = (
    rf"pass(?:word|wd|phrase)|secret|token{_COUNTED}|authorization|authorisation|cookie"
    r"|(?:api|private|access|account|signing|encryption)[_-]?key|credential"
)
_SECRET = re.compile(rf"\bpass$|[_-](?:pass|pwd?)$|{_NAMES}", re.I)
# Each expression begins with a literal or a set of letters without `re.I`: only then
# the search skips what can't match.
_PEM = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*-----|\Z)"
)
_LOGIN = re.compile(r"(://)[^\s/@:]*:[^\s/@]+(?=@)")
_KEY = re.compile(
    r"[bsgxaBSGXA](?<!\w.)(?i:(?<=b)(?:earer |asic (?=[\w.\-/+]*(?-i:[A-Z\d=])))"
    r"|(?<=s)k-|(?<=g)(?:h[oprsu]_|ithub_pat_|lpat-)|(?<=x)ox[abeoprs]-"
    r"|(?<=a)(?:kia|iza))"
    r"[\w.\-/+=]{8,}|[eE](?<![\w-].)(?i:yj)[\w-]{10,}\.[\w.-]+"
)
# One provider a line; what stands before a key is no letter or digit.
_SHAPED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"A(?:3T[A-Z0-9]|BIA|CCA|SIA)[0-9A-Z]{16}"  # AWS, beside AKIA
    r"|(?:AC|SK)[0-9a-f]{32}"  # Twilio
    r"|[0-9a-f]{32}-us\d{1,2}"  # Mailchimp
    r"|(?:bot)?\d{8,10}:[\w-]{35}"  # Telegram
    r"|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,40}"  # Discord
    r"|SG\.[\w-]{16,32}\.[\w-]{16,64}"  # SendGrid
    r"|[rs]k_(?:live|test)_[0-9A-Za-z]{16,}"  # Stripe
    r"|sq0(?:csp|atp)-[\w-]{22,}"  # Square
    r"|(?:npm|hf|gsk)_[0-9A-Za-z]{20,}"  # npm, Hugging Face, Groq
    r"|shp(?:at|ca|pa|ss)_[0-9a-f]{20,}"  # Shopify
    r"|lsv2_[ps][tk]_[0-9a-f]{16,}\w*"  # LangSmith
    r"|pypi-AgE[\w-]{16,}"  # PyPI
    r"|gl(?:dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[\w-]{20,}|GR1348941[\w-]{20,}"
    r"|xapp-[\w-]{16,}|hooks\.slack\.com/services/[\w/]{16,}"  # Slack
    r"|ya29\.[\w-]{20,}"  # Google, OAuth
    r"|AKC[0-9A-Za-z]{10,}"  # Artifactory
    r")"
)
_TAIL = r"[^\s,;&)}\]]"
_VALUE = (
    r"(?:(?i:bearer|basic|token) +)?"
    rf"(?:(?:\\?\"[^\"]*\"?|'[^']*'?){_TAIL}*|{_TAIL}+)"
)
_NAMED = re.compile(
    rf"([kwpchdKWPCHD](?i:(?<=tok)en{_COUNTED}|(?<=cook)ie|(?:(?<=apik)|(?<=api[_-]k)"
    r"|(?<=privatek)|(?<=private[_-]k)|(?<=accessk)|(?<=access[_-]k)|(?<=accountk)"
    r"|(?<=account[_-]k))ey|(?<=passw)(?:or)?d|(?<=passp)hrase|(?<=[;{]p)wd"
    r"|(?<=[_-]p)(?:ass|wd?)(?![\w-])|(?<=sec)ret|(?<=auth)ori[sz]ation"
    r"|(?<=cred)ential)"
    rf"[\w-]{{0,40}}[\\\"']*\s*[:=]{{1,2}}\s*){_VALUE}"
)
_FLAG = re.compile(rf"(--(?<![\w-]--)(?>[\w-]*?(?i:{_NAMES}))[\w-]*+\s+){_VALUE}")
# Each begins with its rarest letter, since the search stops at every first letter.
_HINT = re.compile(
    r"k(?:ey|(?<=tok)en|(?<=sk)-|(?<=ak)ia)|c(?:red|ookie|(?<=sec)ret)|uth(?<=auth)"
    r"|p(?:ass(?!e[ds])|w(?:(?<=[_-]pw)|d(?<=[;{]pwd)))|b(?:earer|asic)|://"
    r"|g(?:h[oprsu]_|ithub_pat_|lpat-)|xox[abeoprs]-|z(?<=aiz)a|j(?<=eyj)"
)
_LONG = b"x" * 20
"""Every key that `_SHAPED` knows has a run of this many signs."""


def signs(more: bytes) -> bytes:
    """A table for `has_run`: letters, digits and `more` are signs of keys."""
    return bytes(
        0x78 if b < 128 and chr(b).isalnum() or b in more else 0x20 for b in range(256)
    )


def has_run(text: str, table: bytes) -> bool:
    """Whether 20 signs stand together in `text`, as they do in a drawn key."""
    return _LONG in text.encode("utf-8", "ignore").translate(table)


_SIGNS = signs(b"_-")
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
)


def masked(text: str) -> str:
    """`text` with every known secret as `***`; without one it is returned as is.

    Secrets are keys by their look, private keys, passwords in addresses, and what
    stands behind a name for which `is_secret` holds. Takes linear time.
    """
    # The expressions are slow, so cheap looks show first whether one could match.
    if has_run(text, _SIGNS):
        text = _SHAPED.sub(MASK, text)
    if not _HINT.search(text.lower()):
        return text
    text = _KEY.sub(MASK, _LOGIN.sub(rf"\1{MASK}", _PEM.sub(MASK, text)))
    return _FLAG.sub(rf"\1{MASK}", _NAMED.sub(rf"\1{MASK}", text))


def is_secret(name: str) -> bool:
    """Whether an argument of this name holds a secret: `password`, `apiKey`."""
    return bool(_SECRET.search(name))


def without_emails(text: str) -> str:
    """`text` with e-mail addresses as `***`."""
    return _EMAIL.sub(MASK, text) if "@" in text else text
