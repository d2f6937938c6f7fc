"""Several replies to one request, of which one is taken.

The others are paid for and forgotten: their calls are never made. As nobody knows
before the end which one is taken, none is streamed while it is written; a stream of
messages has the one that was taken, whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp

from loopguard_lg import budgets
from loopguard_lg.acts.decoding import Decoding, fresh
from loopguard_lg.adapters.driving import Run, Work
from loopguard_lg.adapters.estimates import estimated
from loopguard_lg.adapters.ledger import Ledger, Spent, ledger
from loopguard_lg.adapters.messages import (
    defaults,
    newest_reply,
    text_of,
    tokens_of,
    tool_name,
    with_mark,
)
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.session import Guard
from loopguard_lg.memory import Memory
from loopguard_lg.redaction.logs import logger, note_failure
from loopguard_lg.steps import Tokens

Response: TypeAlias = ModelResponse[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The replies to one request.

    Attributes:
        guard: Measures what they take.
        request: What the model is asked.
        scene: What the host knows.
        memory: The guard's memory.
        way: How many there are to be, and who picks.
    """

    guard: Guard
    request: ModelRequest[Any]
    scene: Scene
    memory: Memory
    way: Decoding

    def work(
        self, left: float | None, clock: Callable[[], float]
    ) -> Work[ModelResponse[Any]]:
        """The reply that is taken; as many are asked for as budgets have room for.

        Args:
            left: Seconds left in the budget.
            clock: Seconds from any start.
        """
        wanted = self._wanted()
        if wanted < 2:
            with ledger(self.guard.policy.prices) as entry:
                only: Response = yield Run(self.request, left)
            return self._with_beside(only, entry)
        found = yield from self._asked(wanted, left, clock)
        scores = []
        for response in found:
            scores.append((yield from self._score(response)))
        best = scores.index(max(scores))
        return self._paid(found.pop(best), found)

    def _wanted(self) -> float:
        """How many replies there are to be, as far as budgets have room for them."""
        policy = self.guard.policy
        if self.way.samples < 2 or policy.observe_only:
            return 1
        room = budgets.model_calls_left(policy.budgets, self.memory["used"])
        return min(self.way.samples, room)

    def _asked(
        self, wanted: float, left: float | None, clock: Callable[[], float]
    ) -> Work[list[Response]]:
        """The replies; where a later one fails, those before it are enough."""
        quiet = self.request.override(model=_unstreamed(self.request.model))
        started, found = clock(), [(yield Run(quiet, left))]
        while len(found) < wanted:
            rest = None if left is None else max(0.0, left - (clock() - started))
            try:
                found.append((yield Run(quiet, rest)))
            except GraphBubbleUp:
                raise
            except Exception as error:
                logger.warning("loopguard: a sample is left out: %r", error)
                break
        return found

    def _score(self, response: Response) -> Work[float]:
        """How good a reply is; the least where its verifier fails."""
        reply, _ = newest_reply(response.result)
        if reply is None:
            return -math.inf
        if self.way.verifier is None:
            return float(self._is_fresh(reply))
        given = (self.request.messages, reply)
        try:
            score = float((yield Run(given, what=self.way.verifier)))
        except Exception:  # somebody else's function
            note_failure(self.way.verifier, "a verifier failed and was left out")
            return -math.inf
        return -math.inf if math.isnan(score) else score

    def _is_fresh(self, reply: AIMessage) -> bool:
        """Whether a reply says something, may be carried out, and repeats nothing."""
        tools, settings = self.scene.tools, self.guard.policy.tools
        barred = {*tools} - {tool_name(tool) for tool in self.request.tools}
        if any(call["name"] in barred for call in reply.tool_calls):
            return False
        calls = [
            (call["name"], {**defaults(tools.get(call["name"])), **call["args"]})
            for call in reply.tool_calls
        ]
        holds = self.memory["ladder"].get("holds", ())
        said = bool(calls or text_of(reply).strip())
        return said and fresh(self.memory["pad"], holds, calls, settings)

    def _paid(self, taken: Response, others: list[Response]) -> Response:
        """The reply that is taken, with what was spent on the others."""
        lost = (newest_reply(other.result)[0] for other in others)
        mark = {"nested": [self._spent(reply) for reply in lost if reply is not None]}
        result = [
            with_mark(message, mark) if isinstance(message, AIMessage) else message
            for message in taken.result
        ]
        return replace(taken, result=result)

    def _with_beside(self, only: Response, entry: Ledger) -> Response:
        """The reply, with what other models spent that middlewares called meanwhile."""
        if entry.calls < 2:
            return only
        reply, _ = newest_reply(only.result)
        if reply is None:
            return only
        tokens = tokens_of(reply) or estimated(self.request.messages, reply)
        cost = self.guard.measured(reply, self.scene, 0)["cost"]
        entry.charge(-1, _negative(tokens), None if cost is None else -cost)
        result = [
            with_mark(m, {"nested": entry.mark()["nested"]}) if m is reply else m
            for m in only.result
        ]
        return replace(only, result=result)

    def _spent(self, reply: AIMessage) -> dict[str, Any]:
        took = self.guard.measured(reply, self.scene, 0)
        tokens = took["tokens"] or Tokens()
        spent = Spent(estimated=tokens.estimated)
        spent.add(tokens, took["cost"])
        return asdict(spent)


def _negative(tokens: Tokens) -> Tokens:
    return replace(tokens, input=-tokens.input, output=-tokens.output)


def _unstreamed(model: BaseChatModel) -> BaseChatModel:
    """The model with the tag by which LangGraph leaves its tokens out of streams."""
    return model.model_copy(update={"tags": [*(model.tags or ()), TAG_NOSTREAM]})
