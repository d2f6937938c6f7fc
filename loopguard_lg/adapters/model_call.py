"""One model call of an agent: the request as it is sent, the reply as it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from langchain.agents.middleware import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from loopguard_lg.acts.decoding import Decoding, due
from loopguard_lg.adapters import exits, tree
from loopguard_lg.adapters.driving import CutOffError, Do, Run, Work, through
from loopguard_lg.adapters.fleet_call import Call, FleetRefusedError, drawn
from loopguard_lg.adapters.messages import readable, tool_name
from loopguard_lg.adapters.plan import Plan, shown
from loopguard_lg.adapters.restore import restored
from loopguard_lg.adapters.samples import Samples
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.view import signed
from loopguard_lg.fleet import Fleet
from loopguard_lg.hooks import GuardEvent, Observer, logger, notify
from loopguard_lg.memory import Memory, write

Replied: TypeAlias = "tuple[ModelCall, ModelResponse[Any] | None, float]"
"""A turn, its reply (`None` where it leaves), and the seconds that it took."""


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
    restored: Mapping[str, Any] = field(default_factory=dict)

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
        if plan.lifts_tool_choice and self.way.lifts and asked.tool_choice is not None:
            changes["tool_choice"] = None
        changes |= self._decoded()
        return asked.override(**changes) if changes else asked

    @property
    def way(self) -> Decoding:
        """How the reply is to be made."""
        return due(self.guard.acts.policy.ladder, self.plan.memory["ladder"])

    def _decoded(self) -> dict[str, Any]:
        """What a rung's options change in the request."""
        way, asked = self.way, self.asked
        changes: dict[str, Any] = {}
        if way.temperature is not None:
            settings = {**asked.model_settings, "temperature": way.temperature}
            changes["model_settings"] = settings
        if way.bars:
            named = {tool_name(tool): tool for tool in asked.tools}
            left = self.guard.acts.offered(way, named)
            changes["tools"] = [tool for name, tool in named.items() if name in left]
            if tool_name(asked.tool_choice) in {*named} - left:
                changes["tool_choice"] = None
        return changes

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
        """The same turn with the agent's own model as it is, where another one failed,
        or does not take the temperature.

        Raises:
            Exception: `error`, if it was the agent's own model as it is that failed.
        """
        special = self.plan.stronger is not None or self.way.temperature is not None
        if not special or isinstance(error, GraphBubbleUp):
            raise error
        logger.warning("loopguard: the stronger model failed: %s", error)
        return self.planned(self.plan.without_stronger())

    def replied(self, clock: Callable[[], float], left: float | None) -> Work[Replied]:
        """Have the model called; the turn, its reply and the seconds that it took.

        There is no reply where the model was cut off: then the turn leaves.

        Args:
            clock: Seconds from any start.
            left: Seconds left in the budget; only async keeps to them.
        """
        put = yield from restored(self.plan, self.guard.policy, get_config())
        turn, started = replace(self, restored=put) if put else self, clock()
        try:
            turn, response = yield from turn._answered(left, clock, started)
        except CutOffError:
            return turn.cut(clock() - started), None, 0.0
        return turn, response, clock() - started

    def _answered(
        self, left: float | None, clock: Callable[[], float], started: float
    ) -> Work[tuple[ModelCall, ModelResponse[Any]]]:
        """The turn as it was made, by the own model where another failed, and the
        reply.
        """
        try:
            return self, (yield from self._samples.work(left, clock))
        except CutOffError:
            raise
        except Exception as error:
            turn = self.without_stronger(error)
            rest = None if left is None else max(0.0, left - (clock() - started))
            return turn, (yield Run(turn.request, rest))

    @property
    def _samples(self) -> Samples:
        return Samples(
            guard=self.guard,
            request=self.request,
            scene=self.scene,
            memory=self.plan.memory,
            way=self.way,
        )

    def cut(self, seconds: float) -> ModelCall:
        """The same turn where the model did not answer in time."""
        return self.planned(self.guard.cut_off(self.plan, self.scene, seconds))

    def drawn(
        self, fleet: Fleet, work: Work[Replied], clock: Callable[[], float]
    ) -> Work[Replied]:
        """What `replied` gives, with each model call drawn from a fleet's budgets."""
        runtime, policy = self.asked.runtime, self.guard.policy

        def each(asked: Run | Do) -> Work[Any]:
            if isinstance(asked, Do) or asked.what is not None:
                return (yield asked)
            call = Call(
                config=get_config(),
                context=getattr(runtime, "context", None),
                model=model_name(asked.given.model),
                sent=asked.given.messages,
                replied=lambda response: response.result,
                policy=policy,
                clock=clock,
            )
            return (yield from drawn(fleet, call, asked))

        try:
            return (yield from through(work, each))
        except FleetRefusedError as refused:
            plan = self.guard.refused(self.plan, self.scene, refused.exceeded)
            return self.planned(plan), None, 0.0

    def left(self) -> ExtendedModelResponse[Any]:
        """The reply that ends the run, or asks a person, without a model call."""
        plan = self.plan
        assert plan.final is not None
        report = None if plan.asks else plan.report  # asking, the run has not ended
        filled = None
        if report is not None:
            filled = exits.structured(self.asked.response_format, report["partial"])
            tree.left(report)
        response = ModelResponse(result=[plan.final], structured_response=filled)
        return self._extended(response, plan.memory, report)

    def done(
        self, response: ModelResponse[Any], seconds: float
    ) -> ExtendedModelResponse[Any]:
        """The model's reply, with what the guard notes of it."""
        watches = self.guard.policy.observe_only
        result = [*response.result]
        if not watches:
            result = exits.tagged(readable(result), self.plan.memory)
        if self.guard.switches:
            result = [
                signed(message, self._reader)
                if isinstance(message, AIMessage)
                else message
                for message in result
            ]
        scene, reader = self.scene, self._reader
        if reader != scene.model:
            scene = replace(scene, model=reader)
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
        own = write(self.plan.before, memory)
        update: dict[str, Any] = {**self.restored, self.channel: own}
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
