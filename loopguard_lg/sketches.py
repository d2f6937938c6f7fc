"""What texts have in common: words of calls, lines of results, as small numbers."""

from __future__ import annotations

import re
from zlib import crc32

_SPACED = bytes(
    b if b >= 0x80 or chr(b).isalnum() else 0x20 for b in bytes(range(256)).lower()
)
_SKETCH_WORDS = 24


class _Bits(dict[bytes, int]):
    """The bit of each word met lately: calls say the same words again and again."""

    def __missing__(self, word: bytes) -> int:
        if len(self) >= _WORDS:
            self.clear()
        bit = self[word] = 1 << crc32(word) % 63
        return bit


_BITS = _Bits()
_WORDS = 4_096
"""Words that are kept."""


def sketch(data: bytes) -> int:
    """The words of a call as 63 bits, for `likeness`; the first 24 words count."""
    found = data[:300].translate(_SPACED).split(None, _SKETCH_WORDS)
    bits = 0
    for word in found[:_SKETCH_WORDS]:
        bits |= _BITS[word]
    return bits


def likeness(a: int, b: int) -> float:
    """Shared words of two sketches, from 0 to 1 (Jaccard)."""
    union = (a | b).bit_count()
    return (a & b).bit_count() / union if union else 1.0


_BREAKS = bytes.maketrans(b".;,{}[]()|", b"\n" * 10)
_NUMBERED = re.compile(rb"\n\d++[\t:|]")
_TRIVIAL = {crc32(line) for line in (b"", *(bytes([b]) for b in range(256)))}
"""Lines of at most one character."""
UNITS = 20
"""Lines of one result that novelty looks at."""


def units(squeezed: bytes) -> list[int]:
    """Digests of the lines (in short results: of the clauses) of a result.

    Of more than `UNITS` the smallest digests are taken: the same lines are then drawn
    from two results that share them. Line numbers in front are ignored.
    """
    start = squeezed.find(b"\n")
    if start >= 0 and _NUMBERED.match(squeezed, start):
        squeezed = _NUMBERED.sub(b"\n", b"\n" + squeezed)
    lines = squeezed.split(b"\n")
    if len(lines) < 4:
        lines = squeezed.translate(_BREAKS).split(b"\n")
    found = set(map(crc32, lines))
    if not found.isdisjoint(_TRIVIAL):
        found -= _TRIVIAL
    return sorted(found)[:UNITS] if len(found) > UNITS else list(found)
