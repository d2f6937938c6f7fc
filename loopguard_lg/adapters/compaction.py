"""When an app compacts its context, for `Bloat(compaction_at=...)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def compaction_at(trigger: Any, model: Any = None) -> int | None:
    """The tokens of context from which on an app compacts; `None` where tokens do not
    tell, as with a number of messages.

    Only public attributes are read. deepagents does not show the trigger of its own
    middleware: give `compute_summarization_defaults(model)["trigger"]` and the model.

    Args:
        trigger: A `SummarizationMiddleware`, or what is given to one as its `trigger`:
            a pair like `("tokens", 100_000)`, a mapping, or a list of these.
        model: The model that a fraction is of; that of the middleware if `None`.
    """
    model = model or getattr(trigger, "model", None)
    window = (getattr(model, "profile", None) or {}).get("max_input_tokens")
    given = getattr(trigger, "trigger", trigger)
    known = [_tokens(clause, window) for clause in _clauses(given)]
    return min((tokens for tokens in known if tokens), default=None)


def _clauses(trigger: Any) -> Iterator[Mapping[str, float]]:
    """What has to hold together, for each way to trigger."""
    if isinstance(trigger, Mapping):
        yield trigger
    elif isinstance(trigger, tuple):
        yield {trigger[0]: trigger[1]}
    else:
        for part in trigger or ():
            yield from _clauses(part)


def _tokens(clause: Mapping[str, float], window: int | None) -> int:
    """The tokens without which a clause does not hold; 0 where it asks for none."""
    share = clause.get("fraction", 0) * (window or 0)
    return int(max(clause.get("tokens", 0), share))
