"""Runs of simulated agents under the real guard, without a graph around it.

The hooks of `LoopGuardMiddleware` are called as `create_agent` calls them: what is
decided, shown, held, answered and waited for is theirs. Only the graph is left out, its
reducers and its checkpoints, which makes a run ten times quicker. That both ways of
running give the same is a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.prebuilt.tool_node import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    TOOL_INVOCATION_ERROR_TEMPLATE,
    ToolCallRequest,
    ToolRuntime,
)
from langgraph.runtime import Runtime
from pydantic import ValidationError

from benchmarks.simulated.agents import DONE, TASK, Clock, CountedModel, Run, tools_of
from benchmarks.simulated.habits import Agent
from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.memory import fold


class Host:
    """A guard of one policy and the tools of the world, for any number of runs.

    Args:
        policy: The guard's.
        limit: Model calls after which a run counts as not done.
        strong: The stronger model of its ladder, if it names one.
    """

    def __init__(
        self, policy: Policy, limit: int = 40, strong: CountedModel | None = None
    ) -> None:
        self._clock, self._run, self._limit = Clock(), Run(), limit
        self._strong = strong
        self._guard = LoopGuardMiddleware(
            policy,
            observers=[self._note],
            sleep=lambda seconds: self._clock.sleep(seconds),
            clock=lambda: self._clock.now,
        )
        tools = [*tools_of(self._answer), *self._guard.tools]
        self._tools = {tool.name: tool for tool in tools}

    def run(self, agent: Agent, seed: int) -> Run:
        """One run of an agent."""
        self._clock, self._run = Clock(), Run()
        model = CountedModel(agent, seed, run=self._run, clock=self._clock)
        if self._strong is not None:
            self._strong.begin(agent, seed, self._run, self._clock)
        state: dict[str, Any] = {"messages": [HumanMessage(TASK, id="h")]}
        for lap in range(self._limit):
            # As many supersteps as a graph has left, that stops after two a call.
            state["loopguard_remaining"] = 2 * (self._limit - lap) - 1
            with _inside(step=2 * lap + 1):
                reply = self._replied(model, state)
            if not reply.tool_calls:
                self._run.done = reply.text == DONE
                break
            with _inside(step=2 * lap + 2):
                results = [self._called(call, state) for call in reply.tool_calls]
            _append(state, results)
        self._run.doubled = self._run.world.doubled
        self._run.waited = self._clock.waited
        return self._run

    def _note(self, event: GuardEvent) -> None:
        self._run.note(event)

    def _answer(self, tool: str, args: dict[str, Any]) -> str:
        return self._run.answer(tool, args, self._clock.now)

    def _replied(self, model: CountedModel, state: dict[str, Any]) -> AIMessage:
        """The reply of the model, or of the guard in its place, as it is kept."""
        request: ModelRequest[Any] = ModelRequest(
            model=model,
            messages=state["messages"],
            tools=[*self._tools.values()],
            state=state,  # type: ignore[arg-type]  # has the guard's channel
            runtime=Runtime(),
        )
        made = self._guard.wrap_model_call(request, _asked)
        update: Mapping[str, Any] = made.command.update if made.command else {}  # type: ignore[assignment]
        state["loopguard"] = fold(state.get("loopguard"), update["loopguard"])
        _append(state, made.model_response.result)
        reply = made.model_response.result[-1]
        assert isinstance(reply, AIMessage)
        return reply

    def _called(self, call: Any, state: dict[str, Any]) -> ToolMessage:
        tool, known = self._tools.get(call["name"]), [*self._tools.values()]
        runtime: ToolRuntime[Any, Any] = ToolRuntime(
            state=state,
            context=None,
            config={},
            stream_writer=lambda _: None,
            tool_call_id=call["id"],
            store=None,
            tools=known,
        )
        request = ToolCallRequest(call, tool, state, runtime)
        result = self._guard.wrap_tool_call(request, _executed)
        assert isinstance(result, ToolMessage)
        return result


def _asked(request: ModelRequest[Any]) -> ModelResponse[Any]:
    """What the model replies to a request."""
    names = [tool.name for tool in request.tools]  # type: ignore[union-attr]
    assert isinstance(request.model, CountedModel)
    made = request.model._generate(
        list(request.messages), tools=names, **request.model_settings
    )
    reply = made.generations[0].message
    reply.id = f"r{request.model.made}"  # as every chat model gives its replies one
    return ModelResponse(result=[reply])


def _executed(request: ToolCallRequest) -> ToolMessage:
    """What comes of a call, with the errors that a graph's tool node would give."""
    call, tool = request.tool_call, request.tool
    if tool is None:
        names = ", ".join(each.name for each in request.runtime.tools)
        return _failed(
            call,
            INVALID_TOOL_NAME_ERROR_TEMPLATE.format(
                requested_tool=call["name"], available_tools=names
            ),
        )
    try:
        result: ToolMessage = tool.invoke({**call, "type": "tool_call"}, {})
    except ValidationError as error:
        what = "\n".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
        return _failed(
            call,
            TOOL_INVOCATION_ERROR_TEMPLATE.format(
                tool_name=call["name"], tool_kwargs=call["args"], error=what
            ),
        )
    return result


def _failed(call: Any, text: str) -> ToolMessage:
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")


def _append(state: dict[str, Any], messages: Sequence[BaseMessage]) -> None:
    """Put messages at the end of a state, each with an id, as a graph does."""
    start = len(state["messages"])
    fresh = [
        message.model_copy(update={"id": message.id or f"m{start + n}"})
        for n, message in enumerate(messages)
    ]
    state["messages"] = [*state["messages"], *fresh]


@contextmanager
def _inside(step: int) -> Iterator[None]:
    """As if a graph were running: hooks read the number of its superstep."""
    token = var_child_runnable_config.set(
        {"configurable": {}, "metadata": {"langgraph_step": step}}
    )
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
