"""`LoopGuardMiddleware`: the guard in `create_agent` and `create_deep_agent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

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
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.managed.is_last_step import RemainingStepsManager
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from loopguard_lg.adapters import driving, exits, leave, misspelled
from loopguard_lg.adapters.driving import Do, Work, adrive, drive, off_loop
from loopguard_lg.adapters.model_call import ModelCall, Replied, is_over, model_name
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.adapters.saved import checkpoint_of
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.shared_pad import Run, SharedScratchpad
from loopguard_lg.adapters.tool_call import (
    Actor,
    ToolCall,
    acting,
    agent_id,
    check_files,
    read,
    resumable,
)
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet import Fleet
from loopguard_lg.hooks import GuardEvent, Observer, checked
from loopguard_lg.ladder import AskUser, Escalate
from loopguard_lg.memory import fold
from loopguard_lg.policy import Policy

if TYPE_CHECKING:  # git and locks are for those who use them
    from loopguard_lg.adapters.workspace import Workspace

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


_TAKEN = frozenset({"exit", "remaining", "beside"})
"""Names whose channel would be one that the guard has for something else."""


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
        shared: What runs of other threads ruled out, in the agent's `store`.
        workspace: The files that the agent works on.
        fleet: Budgets that other runs and workers draw from as well.
        clock: Seconds from any start, to time model and tool calls.
        sleep: Lets seconds pass between two tries of a call, or two polls.
        asleep: The same on an event loop.

    Raises:
        PolicyError: At the first model call, if a budget in dollars can't be kept.
    """

    state_schema = LoopGuardState

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        name: str = "loopguard",
        observers: Sequence[Observer] | Observer = (),
        shared: SharedScratchpad | None = None,
        workspace: Workspace | None = None,
        fleet: Fleet | None = None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Any] = time.sleep,
        asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        super().__init__()
        if name in _TAKEN:
            raise PolicyError(f"name={name!r} is taken: give another one")
        self.policy = Policy.checked(policy)
        self.tools = [leave.TOOLS[tool] for tool in self._tools()]
        self._name = name
        self._channel = CHANNEL if name == CHANNEL else f"{CHANNEL}_{name}"
        self.state_schema = _schema(self._channel)
        self._guard = Guard(
            policy=self.policy,
            agent=name,
            observers=checked(observers),
            stronger=_names(self.policy),
            sleep=sleep,
            asleep=asleep,
        )
        self._shared = shared
        self._workspace = workspace
        check_files(self.policy, workspace)
        self._fleet = fleet
        self._clock = clock
        self._models = _resolved(self.policy)
        self._looked: set[str] = set()  # of the policy's names: no run's state

    @property
    def name(self) -> str:
        """The middleware's name in the agent's list."""
        return self._name

    def _tools(self) -> list[str]:
        if self.policy.observe_only:
            return []
        asks = any(isinstance(r, AskUser) for r in self.policy.ladder.rungs)
        return [*dict.fromkeys([*self.policy.leave_tools, *["ask_user"] * asks])]

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ExtendedModelResponse[Any]:
        """Look at what happened, then call the model, another one, or none."""
        return drive(self._model(request), partial(_ran, handler))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Look at what happened, then call the model, another one, or none."""
        return await adrive(self._model(request), partial(_aran, handler))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Execute a call if it may be, and note how it went."""
        return drive(self._call(request), partial(_ran, handler))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Execute a call if it may be, and note how it went."""
        return await adrive(self._call(request), partial(_aran, handler))

    def lets_through(
        self, request: ToolCallRequest, tools: Sequence[BaseTool] = ()
    ) -> bool:
        """Whether a call would be executed: neither held, refused nor answered already.

        For the `when` of a `HumanInTheLoopMiddleware`, so that no person is asked about
        other calls. It changes nothing and tells nobody.

        Args:
            request: The call, as that middleware gives it.
            tools: The agent's tools, where calls may leave out arguments that have a
                default: that middleware does not know them.
        """
        return ToolCall(
            guard=replace(self._guard, observers=()),
            request=request,
            channel=self._channel,
            clock=self._clock,
        ).is_let_through(tools)

    def _model(self, request: ModelRequest[Any]) -> Work[ExtendedModelResponse[Any]]:
        """One model call, with what files and other threads' findings do around it."""
        turn, shared = self._turn(request), self._shared
        if self._workspace is not None:
            done = off_loop(self._workspace.before, *self._files(turn))
            turn = turn.planned((yield done))
        if shared is not None:
            given = (turn.plan, _whose(request))
            plan = yield Do(
                partial(shared.before, *given), partial(shared.abefore, *given)
            )
            turn = turn.planned(plan)
        if turn.plan.final is not None:
            return turn.left()
        turn, response, seconds = yield from self._replied(turn)
        if response is None:
            return turn.left()
        if is_over(response):
            turn = yield from self._over(turn)
        return turn.done(response, seconds)

    def _over(self, turn: ModelCall) -> Work[ModelCall]:
        """What is written down and let go of at the end of a run."""
        shared = self._shared
        if shared is not None:
            given = (turn.plan, _whose(turn.asked))
            plan = yield Do(
                partial(shared.after, *given), partial(shared.aafter, *given)
            )
            turn = turn.planned(plan)
        if self._workspace is not None:
            yield off_loop(self._workspace.done, agent_id(self._name))
        return turn

    def _replied(self, turn: ModelCall) -> Work[Replied]:
        left = self._guard.seconds_left(turn.plan.memory)
        work = turn.replied(self._clock, left)
        return (
            work if self._fleet is None else turn.drawn(self._fleet, work, self._clock)
        )

    def _files(self, turn: ModelCall) -> tuple[Actor, Plan, list[GuardEvent]]:
        actor = acting(self.policy, self._name, turn.plan.before)
        return actor, turn.plan, turn.told

    def _call(self, request: ToolCallRequest) -> Work[ToolMessage | Command[Any]]:
        work = ToolCall(
            guard=self._guard,
            request=request,
            channel=self._channel,
            clock=self._clock,
        ).work()
        if self._workspace is None:
            return work
        actor = acting(self.policy, self._name, read(request.state, self._channel))
        return self._workspace.around(actor, request, work)

    def _turn(self, request: ModelRequest[Any]) -> ModelCall:
        scene = _scene(request)
        misspelled.warn(self.policy, request.tools, self._looked)
        told: list[GuardEvent] = []
        guard = self._guard
        if guard.observers or self._workspace:
            guard = replace(guard, observers=(told.append,))
        plan = guard.before_model(request.state.get(self._channel), scene)
        return ModelCall(
            guard=guard,
            asked=request,
            scene=scene,
            plan=plan,
            models=self._models,
            channel=self._channel,
            told=told,
            observers=self._guard.observers,
        )


def _ran(handler: Callable[[Any], Any], run: driving.Run) -> Any:
    """What the model says, or what a function of the user's does."""
    return handler(run.given) if run.what is None else run.what(*run.given)


async def _aran(handler: Callable[[Any], Any], run: driving.Run) -> Any:
    out = _ran(handler, run)
    return await out if isawaitable(out) else out


def _whose(request: ModelRequest[Any]) -> Run:
    return Run(get_config(), request.runtime, request.state["messages"])


def _resolved(policy: Policy) -> dict[str, BaseChatModel]:
    names = [
        rung.model
        for rung in policy.ladder.rungs
        if isinstance(rung, Escalate) and isinstance(rung.model, str)
    ]
    return {name: _model(name) for name in names}


def _model(name: str) -> BaseChatModel:
    try:
        model: BaseChatModel = init_chat_model(name)
    except Exception as error:
        problem = " ".join(str(error).split())[:200]
        raise PolicyError(
            f"Escalate.model={name!r} can't be made: {problem}. Give a model string "
            "like 'openai:gpt-5.5', or a chat model"
        ) from error
    return model


def _thread(info: Any) -> str:
    """The thread, and the call inside it where the agent is part of another one."""
    if not info or not info.thread_id:
        return ""
    inside = str(info.checkpoint_ns or "").rpartition("|")[0]
    return f"{info.thread_id}|{inside}" if inside else str(info.thread_id)


def _names(policy: Policy) -> tuple[str | None, ...]:
    models = [r.model for r in policy.ladder.rungs if isinstance(r, Escalate)]
    return tuple(
        model if isinstance(model, str) else model_name(model)
        for model in models
        if model is not None
    )


def _scene(request: ModelRequest[Any]) -> Scene:
    runtime = request.runtime
    info = getattr(runtime, "execution_info", None)
    config = get_config()
    tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
    return Scene(
        messages=request.state["messages"],
        seen=request.messages,
        tools=tools,
        model=model_name(request.model),
        thread=_thread(info),
        resumable=resumable(config),
        remaining=read(request.state, "loopguard_remaining"),
        step=config.get("metadata", {}).get("langgraph_step"),
        counted=_counted(request),
        checkpoint=checkpoint_of(config),
    )


def _counted(request: ModelRequest[Any]) -> bool:
    """Whether the summarization of deepagents comes after the guard.

    It keeps the index of the message up to which it has summarized.
    """
    event = request.state.get("_summarization_event")
    return event is not None and request.messages[:1] == request.state["messages"][:1]
