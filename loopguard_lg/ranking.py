"""Which texts matter for a task: cosine similarity of vectors, and novelty.

What a model of embeddings says only orders what is shown to an agent. It is never part
of a verdict, which would then depend on what is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Protocol, TypeAlias

Vector: TypeAlias = Sequence[float]

RELEVANCE = 0.7
"""How much relevance counts in `best`; the rest is novelty."""


class Embeddings(Protocol):
    """Turns texts into vectors; every `Embeddings` of LangChain does."""

    def embed_documents(self, texts: list[str], /) -> list[list[float]]:
        """One vector for each text, all of the same length."""
        ...


def unit(vector: Vector) -> list[float]:
    """The vector at length 1; one of length 0, or that is not finite, is refused.

    Raises:
        ValueError: It has no direction.
    """
    length = math.hypot(*vector)
    if not 0 < length < math.inf:
        raise ValueError(f"a vector of length {length} has no direction")
    return [number / length for number in vector]


def similarity(one: Vector, other: Vector) -> float:
    """The cosine of two unit vectors: 1 for the same direction, 0 for no relation.

    Raises:
        ValueError: They differ in length.
    """
    if len(one) != len(other):
        raise ValueError(f"vectors of {len(one)} and {len(other)} numbers")
    cosine: float = sum(map(mul, one, other))
    return cosine


def novelty(vector: Vector, earlier: Sequence[Vector]) -> float:
    """How far a unit vector is from the nearest of the earlier ones: 0 to 2."""
    return 1 - max((similarity(vector, other) for other in earlier), default=0.0)


def best(task: Vector, vectors: Sequence[Vector], most: int) -> list[int]:
    """Which vectors matter most for a task, the first one most.

    Each next one is relevant, and new beside those before it (maximal marginal
    relevance, Carbonell and Goldstein 1998): ten paraphrases take one place.

    Args:
        task: The task's unit vector.
        vectors: Unit vectors; of equals the earlier one is taken.
        most: How many are wanted.
    """
    relevance = [similarity(task, vector) for vector in vectors]
    new = [1.0] * len(vectors)
    left = [*range(len(vectors))]
    picked: list[int] = []
    while left and len(picked) < most:
        scores = {n: RELEVANCE * relevance[n] + (1 - RELEVANCE) * new[n] for n in left}
        pick = max(left, key=lambda n: scores[n])
        left.remove(pick)
        picked.append(pick)
        for n in left:
            new[n] = min(new[n], novelty(vectors[n], [vectors[pick]]))
    return picked
