"""`LoopGuardMiddleware`: the guard in `create_agent` and `create_deep_agent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NotRequired, TypedDict, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.managed.is_last_step import RemainingStepsManager
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from loopguard_lg import prompts
from loopguard_lg.adapters import exits, leave
from loopguard_lg.adapters.ledger import Ledger, ledger
from loopguard_lg.adapters.messages import MARK, readable
from loopguard_lg.adapters.past import Scene
from loopguard_lg.adapters.plan import Plan, shown
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.view import signed
from loopguard_lg.hooks import Observer, logger
from loopguard_lg.ladder import AskUser, Escalate
from loopguard_lg.memory import Memory, fold, write
from loopguard_lg.policy import Policy

CHANNEL = "loopguard"
"""The state key of the guard's memory; a guard with a name of its own adds that."""


class LoopGuardState(AgentState[Any]):
    """What the guard adds to the agent's state.

    Attributes:
        loopguard: The guard's memory, private to the graph.
        loopguard_exit: The exit report of the newest run, if the guard ended it.
        loopguard_remaining: Supersteps left before the recursion limit.
    """

    loopguard: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, fold]]
    loopguard_exit: NotRequired[
        Annotated[dict[str, Any] | None, OmitFromInput, exits.newest]
    ]
    loopguard_remaining: NotRequired[
        Annotated[int, PrivateStateAttr, RemainingStepsManager]
    ]


def _schema(channel: str) -> type[LoopGuardState]:
    """The state of a guard whose memory is in `channel`."""
    if channel == CHANNEL:
        return LoopGuardState
    memory = NotRequired[Annotated[dict[str, Any], PrivateStateAttr, fold]]
    fields = {k: v for k, v in LoopGuardState.__annotations__.items() if k != CHANNEL}
    state: Any = TypedDict  # a type checker knows no computed keys
    return cast(
        type[LoopGuardState], state("LoopGuardState", {**fields, channel: memory})
    )


class LoopGuardMiddleware(AgentMiddleware[LoopGuardState, Any, Any]):
    """Notices an agent going in circles, and acts on it.

    It wraps model and tool calls, so that it adds no step to the graph. One object
    may serve any number of threads at once: it holds settings only.

    Args:
        policy: The settings; the default policy is safe for production.
        name: Tells two guards of one agent apart, each with its own memory; also the
            agent's name in events.
        observers: Are told what the guard saw and did.
        clock: Seconds from any start, to time model and tool calls.

    Raises:
        PolicyError: At the first model call, if a budget in dollars can't be kept.
    """

    state_schema = LoopGuardState

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        name: str = "loopguard",
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__()
        self.policy = policy or Policy()
        self.tools = [leave.TOOLS[tool] for tool in self._tools()]
        self._name = name
        self._channel = CHANNEL if name == CHANNEL else f"{CHANNEL}_{name}"
        self.state_schema = _schema(self._channel)
        self._guard = Guard(policy=self.policy, agent=name, observers=tuple(observers))
        self._clock = clock
        self._models = _resolved(self.policy)

    @property
    def name(self) -> str:
        """The middleware's name in the agent's list."""
        return self._name

    def _tools(self) -> list[str]:
        asks = any(isinstance(r, AskUser) for r in self.policy.ladder.rungs)
        return [*dict.fromkeys([*self.policy.leave_tools, *["ask_user"] * asks])]

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ExtendedModelResponse[Any]:
        """Look at what happened, then call the model, another one, or none."""
        turn = self._turn(request)
        if turn.plan.final is not None:
            return turn.left()
        started = self._clock()
        try:
            response = handler(turn.request)
        except Exception as error:
            turn = turn.without_stronger(error)
            response = handler(turn.request)
        return turn.done(response, self._clock() - started)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Look at what happened, then call the model, another one, or none."""
        turn = self._turn(request)
        if turn.plan.final is not None:
            return turn.left()
        started = self._clock()
        try:
            response = await handler(turn.request)
        except Exception as error:
            turn = turn.without_stronger(error)
            response = await handler(turn.request)
        return turn.done(response, self._clock() - started)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Execute a call if it may be, and note how it went."""
        answer = self._answer(request)
        if answer is not None:
            return answer
        with ledger(self.policy.prices) as entry:
            started = self._clock()
            try:
                result = handler(request)
            except Exception as error:
                result = self._raised(request, error)
            return _marked(result, request, entry, self._clock() - started)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Execute a call if it may be, and note how it went."""
        answer = self._answer(request)
        if answer is not None:
            return answer
        with ledger(self.policy.prices) as entry:
            started = self._clock()
            left = self._guard.seconds_left(_read(request.state, self._channel))
            try:
                async with asyncio.timeout(left) as limit:
                    result = await handler(request)
            except Exception as error:
                result = self._raised(request, error, cut=limit.expired())
            return _marked(result, request, entry, self._clock() - started)

    def _turn(self, request: ModelRequest[Any]) -> _Turn:
        scene = _scene(request)
        plan = self._guard.before_model(request.state.get(self._channel), scene)
        return _Turn(self._guard, request, scene, plan, self._models, self._channel)

    def _answer(self, request: ToolCallRequest) -> ToolMessage | None:
        call, messages = request.tool_call, _read(request.state, "messages") or []
        data = _read(request.state, self._channel)
        refusal = self._guard.before_tool(data, messages, call, _place(request))
        if refusal is not None or call["name"] != "ask_user":
            return refusal
        if request.tool is not leave.ask_user:
            return None
        return leave.asked(call, messages, resumable=_resumable())

    def _raised(
        self, request: ToolCallRequest, error: Exception, *, cut: bool = False
    ) -> ToolMessage:
        passes = self.policy.tool_errors == "raise" and not cut
        if passes or isinstance(error, GraphBubbleUp):
            raise error
        call = request.tool_call
        what = prompts.cut_off() if cut else f"{type(error).__name__}: {error}"
        return ToolMessage(
            prompts.failed(call["name"], what),
            name=call["name"],
            tool_call_id=call["id"] or "",
            status="error",
        )


@dataclass(frozen=True, slots=True)
class _Turn:
    """One model call of one run."""

    guard: Guard
    asked: ModelRequest[Any]
    scene: Scene
    plan: Plan
    models: Mapping[str, BaseChatModel]
    channel: str

    @property
    def request(self) -> ModelRequest[Any]:
        """The request as it goes to the model."""
        plan, asked = self.plan, self.asked
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
        return _model_name(self._stronger() or self.asked.model)

    def _stronger(self) -> BaseChatModel | None:
        model = self.plan.stronger
        return self.models[model] if isinstance(model, str) else model

    def without_stronger(self, error: Exception) -> _Turn:
        """The same turn with the agent's own model, where the stronger one failed.

        Raises:
            Exception: `error`, if it was the agent's own model that failed.
        """
        if self.plan.stronger is None or isinstance(error, GraphBubbleUp):
            raise error
        logger.warning("loopguard: the stronger model failed: %s", error)
        return replace(self, plan=self.plan.without_stronger())

    def left(self) -> ExtendedModelResponse[Any]:
        """The reply that ends the run, or asks a person, without a model call."""
        plan = self.plan
        assert plan.final is not None
        filled = None
        if plan.report is not None and not plan.final.tool_calls:
            partial = plan.report["partial"]
            filled = exits.structured(self.asked.response_format, partial)
        response = ModelResponse(result=[plan.final], structured_response=filled)
        return self._extended(response, plan.memory, plan.report)

    def done(
        self, response: ModelResponse[Any], seconds: float
    ) -> ExtendedModelResponse[Any]:
        """The model's reply, with what the guard notes of it."""
        result = [*readable(response.result)]
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
        update: dict[str, Any] = {self.channel: write(self.plan.before, memory)}
        if report is not None or self.asked.state.get(exits.KEY) is not None:
            update[exits.KEY] = report
        return ExtendedModelResponse(response, Command(update=update))


def _resolved(policy: Policy) -> dict[str, BaseChatModel]:
    names = [
        rung.model
        for rung in policy.ladder.rungs
        if isinstance(rung, Escalate) and isinstance(rung.model, str)
    ]
    return {name: init_chat_model(name) for name in names}


def _scene(request: ModelRequest[Any]) -> Scene:
    runtime = request.runtime
    info = getattr(runtime, "execution_info", None)
    tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
    return Scene(
        messages=request.state["messages"],
        seen=request.messages,
        tools=tools,
        model=_model_name(request.model),
        thread=(info and info.thread_id) or "",
        resumable=_resumable(),
        remaining=_read(request.state, "loopguard_remaining"),
        step=get_config().get("metadata", {}).get("langgraph_step"),
    )


def _resumable() -> bool:
    """Whether the run has a checkpointer, without which no answer can come back.

    `thread_id` does not tell: a caller may give one without a checkpointer.
    """
    configurable = get_config().get("configurable", {})
    return configurable.get("__pregel_checkpointer") is not None


def _place(request: ToolCallRequest) -> int | None:
    """How many calls of the batch were sent out before this one."""
    metadata = request.runtime.config.get("metadata", {})
    path = metadata.get("langgraph_path", ())
    sent = len(path) > 1 and path[0] == "__pregel_push"
    return path[1] if sent and isinstance(path[1], int) else None


def _marked(
    result: ToolMessage | Command[Any],
    request: ToolCallRequest,
    entry: Ledger,
    seconds: float,
) -> ToolMessage | Command[Any]:
    """The result with what was measured of it in its metadata.

    A command keeps everything else that it does; results of other calls in it, and
    lists of anything else, are left as they are.
    """
    mark = {"seconds": seconds, **entry.mark()}
    if isinstance(result, ToolMessage):
        return _with_mark(result, mark)
    update = getattr(result, "update", None)
    if not isinstance(update, dict) or not isinstance(update.get("messages"), list):
        return result
    messages = [
        _with_mark(message, mark)
        if isinstance(message, ToolMessage)
        and message.tool_call_id == request.tool_call["id"]
        else message
        for message in update["messages"]
    ]
    return replace(result, update={**update, "messages": messages})


def _with_mark(message: ToolMessage, mark: Mapping[str, Any]) -> ToolMessage:
    within = message.response_metadata.get(MARK) or {}  # by another guard
    metadata = {**message.response_metadata, MARK: {**mark, **within}}
    return message.model_copy(update={"response_metadata": metadata})


def _model_name(model: Any) -> str | None:
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(model, attribute, None)
        if isinstance(name, str):
            return name
    return None


def _read(state: Any, key: str) -> Any:
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
