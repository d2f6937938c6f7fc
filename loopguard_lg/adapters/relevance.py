"""What matters for a task, by a model of embeddings that may be slow, or fail."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from threading import Lock

from loopguard_lg.deadlines import Aside
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import logger
from loopguard_lg.ranking import Embeddings, best, unit

_AT_ONCE = 4
"""Most threads in which a model works; a hung one keeps its thread."""


class Relevance:
    """Picks the texts that matter for a task.

    It may serve any number of runs at once: what it keeps are vectors by text.

    Args:
        embeddings: The model; its texts have at most some 400 characters, and known
            secrets in them are masked.
        timeout: Seconds after which the texts keep the order that they come in, as
            they do when the model fails.
        batch: How many texts the model is given at once.
        cached: How many vectors are kept.

    Raises:
        PolicyError: A setting is wrong.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        timeout: float = 2.0,
        batch: int = 32,
        cached: int = 1_000,
    ) -> None:
        for name, value in {"timeout": timeout, "batch": batch}.items():
            if not value > 0:
                raise PolicyError(f"{name}={value!r}: give more than 0")
        self._embeddings = embeddings
        self._timeout, self._batch, self._cached = timeout, batch, cached
        self._vectors: OrderedDict[str, list[float]] = OrderedDict()
        self._lock, self._aside = Lock(), Aside(_AT_ONCE)

    def pick(self, task: str, texts: Sequence[str], most: int) -> list[int]:
        """Where the texts are that matter most; the first ones if the model fails."""
        try:
            first, *others = self._embedded([task, *texts])
            return best(first, others, most)
        except Exception as error:  # a model that fails must not end the run
            what = f"{type(error).__name__}: {error}"
            logger.warning("loopguard: the embeddings are left out: %s", what)
            return [*range(len(texts))][:most]

    def _embedded(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            vectors = self._vectors
            known = {text: vectors[text] for text in texts if text in vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            asked = partial(self._asked, missing)
            known |= self._aside.in_time(asked, self._timeout)
        with self._lock:
            for text, vector in known.items():
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._cached:
                self._vectors.popitem(last=False)
        return [known[text] for text in texts]

    def _asked(self, texts: list[str]) -> dict[str, list[float]]:
        out: dict[str, list[float]] = {}
        for start in range(0, len(texts), self._batch):
            some = texts[start : start + self._batch]
            vectors = self._embeddings.embed_documents(some)
            out |= zip(some, map(unit, vectors), strict=True)
        return out
