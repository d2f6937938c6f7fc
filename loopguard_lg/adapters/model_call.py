"""One model call of an agent: the request as it is sent, the reply as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from loopguard_lg.adapters import exits
from loopguard_lg.adapters.messages import readable
from loopguard_lg.adapters.past import Scene
from loopguard_lg.adapters.plan import Plan, shown
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.view import signed
from loopguard_lg.hooks import GuardEvent, Observer, logger, notify
from loopguard_lg.memory import Memory, write


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One model call of one run.

    Observers are told when it has succeeded: a call that is retried looks again.
    """

    guard: Guard
    asked: ModelRequest[Any]
    scene: Scene
    plan: Plan
    models: Mapping[str, BaseChatModel]
    channel: str
    told: list[GuardEvent]
    observers: tuple[Observer, ...]

    @property
    def request(self) -> ModelRequest[Any]:
        """The request as it goes to the model."""
        plan, asked = self.plan, self.asked
        if self.guard.policy.observe_only:
            return asked
        changes: dict[str, Any] = {}
        model = self._stronger()
        if model is not None:
            changes["model"] = model
        messages = shown(plan, self.scene, self._reader)
        if messages is not asked.messages:
            changes["messages"] = messages
        if plan.lifts_tool_choice and asked.tool_choice is not None:
            changes["tool_choice"] = None
        return asked.override(**changes) if changes else asked

    @property
    def _reader(self) -> str | None:
        stronger = self._stronger()
        return self.scene.model if stronger is None else model_name(stronger)

    def _stronger(self) -> BaseChatModel | None:
        model = self.plan.stronger
        return self.models[model] if isinstance(model, str) else model

    def planned(self, plan: Plan) -> ModelCall:
        """The same turn with another plan for it."""
        return replace(self, plan=plan)

    def without_stronger(self, error: Exception) -> ModelCall:
        """The same turn with the agent's own model, where the stronger one failed.

        Raises:
            Exception: `error`, if it was the agent's own model that failed.
        """
        if self.plan.stronger is None or isinstance(error, GraphBubbleUp):
            raise error
        logger.warning("loopguard: the stronger model failed: %s", error)
        return self.planned(self.plan.without_stronger())

    def cut(self, seconds: float) -> ModelCall:
        """The same turn where the model did not answer in time."""
        return self.planned(self.guard.cut_off(self.plan, self.scene, seconds))

    def left(self) -> ExtendedModelResponse[Any]:
        """The reply that ends the run, or asks a person, without a model call."""
        plan = self.plan
        assert plan.final is not None
        filled = None
        if plan.report is not None and not plan.final.tool_calls:
            partial = plan.report["partial"]
            filled = exits.structured(self.asked.response_format, partial)
        response = ModelResponse(result=[plan.final], structured_response=filled)
        asks = bool(plan.final.tool_calls)  # the run has not ended
        return self._extended(response, plan.memory, None if asks else plan.report)

    def done(
        self, response: ModelResponse[Any], seconds: float
    ) -> ExtendedModelResponse[Any]:
        """The model's reply, with what the guard notes of it."""
        watches = self.guard.policy.observe_only
        result = [*(response.result if watches else readable(response.result))]
        if self.guard.switches:
            result = [
                signed(message, self._reader)
                if isinstance(message, AIMessage)
                else message
                for message in result
            ]
        scene = replace(self.scene, model=self._reader)
        memory = self.guard.after_model(self.plan, scene, result, seconds)
        response = ModelResponse(
            result=result, structured_response=response.structured_response
        )
        return self._extended(response, memory, exits.made(result))

    def _extended(
        self, response: ModelResponse[Any], memory: Memory, report: Any
    ) -> ExtendedModelResponse[Any]:
        for event in self.told:
            notify(self.observers, event)
        update: dict[str, Any] = {self.channel: write(self.plan.before, memory)}
        if report is not None or self.asked.state.get(exits.KEY) is not None:
            update[exits.KEY] = report
        return ExtendedModelResponse(response, Command(update=update))


def is_over(response: ModelResponse[Any]) -> bool:
    """Whether a reply ends the run: it calls nothing, or fills the answer's form."""
    if response.structured_response is not None:
        return True
    replies = [m for m in response.result if isinstance(m, AIMessage)]
    return not any(m.tool_calls or m.invalid_tool_calls for m in replies)


def model_name(model: Any) -> str | None:
    """The name of a chat model, where it says one."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(model, attribute, None)
        if isinstance(name, str):
            return name
    return None
