"""What happens around one tool call of an agent's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from langchain_core import messages
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from loopguard_lg import prompts
from loopguard_lg.adapters import leave
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import CutOffError, Run, Work
from loopguard_lg.adapters.messages import newest_reply, pair, step_of, with_mark
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.tree import level
from loopguard_lg.adapters.view import completed
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import Escalate
from loopguard_lg.memory import load
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Step

Result: TypeAlias = ToolMessage | Command[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call of one run.

    Attributes:
        guard: Decides.
        request: The call, as the host gives it.
        channel: The state key of the guard's memory.
        clock: Seconds from any start.
        key: The state key of the messages.
    """

    guard: Guard
    request: ToolCallRequest
    channel: str
    clock: Callable[[], float]
    key: str = "messages"

    def work(self) -> Work[Result]:
        """Execute the call if it may be, and note how it went."""
        ask = self._ask()
        answer = self._answer(ask)
        return answer if answer is not None else (yield from self._made(ask))

    def _made(self, ask: Ask) -> Work[Result]:
        """Execute the call, and note how it went."""
        guard, started = self.guard, self.clock()
        mark: dict[str, Any] = {}
        with level(guard.policy, guard.agent, ask.memory, self.clock, started) as entry:
            try:
                result: Result = yield from self._executed(ask, started, mark)
            except Exception as error:
                result = self._raised(error)
        mark |= {"seconds": self.clock() - started, **entry.mark()}
        return self._finished(ask, result, mark)

    def is_let_through(self, tools: Sequence[BaseTool]) -> bool:
        """Whether the call would be executed; `tools` are those not in the request."""
        ask = self._ask()
        ask = replace(ask, tools={**{tool.name: tool for tool in tools}, **ask.tools})
        reply, results = newest_reply(ask.messages)
        pairs = pair(reply, results) if reply is not None else []
        answered = [call["id"] for call, result in pairs if result is not None]
        if ask.call["id"] in answered:
            return False
        return self.guard.before_tool(ask, _place(self.request)) is None

    def _executed(self, ask: Ask, started: float, mark: dict[str, Any]) -> Work[Result]:
        acts = self.guard.acts
        request = self._prepared(acts.prepared(ask))
        return acts.executed(
            ask,
            lambda left: Run(request, left),
            self._step,
            lambda: self.clock() - started,
            mark,
        )

    def _step(self, result: Result) -> Step | None:
        """How a try went, as far as its result tells."""
        call, update = self.request.tool_call, getattr(result, "update", None)
        said = update.get(self.key) if isinstance(update, dict) else None
        for message in [result, *(said if isinstance(said, list) else ())]:
            if isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
                return step_of(call, message, {}, self.request.tool)
        return None

    @property
    def _memory(self) -> Any:
        return read(self.request.state, self.channel)

    @property
    def _messages(self) -> Sequence[BaseMessage]:
        return read(self.request.state, self.key) or []

    def _ask(self) -> Ask:
        tools = {tool.name: tool for tool in self.request.runtime.tools}
        call = self.request.tool_call
        return self.guard.ask(self._memory, call, self._messages, tools)

    def _answer(self, ask: Ask) -> ToolMessage | None:
        call = ask.call
        refusal = self.guard.before_tool(ask, _place(self.request))
        if refusal is not None or call["name"] != "ask_user":
            return refusal
        if self.request.tool is not leave.ask_user:
            return None
        return leave.asked(call, ask.messages, resumable=resumable(get_config()))

    def _prepared(self, call: Mapping[str, Any]) -> ToolCallRequest:
        if call is self.request.tool_call:
            return self.request
        return self.request.override(tool_call=cast(messages.ToolCall, call))

    def _raised(self, error: Exception) -> ToolMessage:
        cut = isinstance(error, CutOffError)
        policy = self.guard.policy
        passes = (policy.tool_errors == "raise" or policy.observe_only) and not cut
        if passes or leads_on(error):
            raise error
        return failed(self.request.tool_call, error)

    def _finished(self, ask: Ask, result: Result, mark: Mapping[str, Any]) -> Result:
        """The result with advice, and with what was measured of it in its metadata.

        A command keeps everything else that it does; results of other calls in it, and
        lists of anything else, are left as they are. One to a parent has an answer for
        each call beside it: their own stay behind in the graph that is left.
        """
        if isinstance(result, ToolMessage):
            return self._noted(ask, result, mark)
        update = getattr(result, "update", None)
        if not isinstance(update, dict) or not isinstance(update.get(self.key), list):
            return result
        noted = [
            self._noted(ask, message, mark)
            if isinstance(message, ToolMessage)
            and message.tool_call_id == ask.call["id"]
            else message
            for message in update[self.key]
        ]
        if getattr(result, "graph", None) == Command.PARENT:
            noted = [*completed(noted)]
        return replace(result, update={**update, self.key: noted})

    def _noted(
        self, ask: Ask, message: ToolMessage, mark: Mapping[str, Any]
    ) -> ToolMessage:
        return with_mark(self.guard.acts.advised(ask, message), mark)


def leads_on(error: Exception) -> bool:
    """Whether what a tool raised is no failure of its own, but LangGraph's way on: a
    question to a person, an answer that does not fit one, a command to a parent.
    """
    return isinstance(error, GraphBubbleUp) or is_invalid_resume(error)


def failed(call: Mapping[str, Any], error: Exception) -> ToolMessage:
    """The result of a call that raised, or was cut off."""
    cut = isinstance(error, CutOffError)
    what = prompts.cut_off() if cut else f"{type(error).__name__}: {error}"
    return ToolMessage(
        prompts.failed(call["name"], what),
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """An agent in one run.

    Attributes:
        policy: Its settings.
        agent: Its name, with the run.
        began: When the run began, in seconds since the epoch.
    """

    policy: Policy
    agent: str
    began: float | None = None


def check_files(policy: Policy, workspace: object) -> None:
    """Refuse to put files back where none are known.

    Raises:
        PolicyError: A rung wants that, and there is no workspace; or it is none, as
            the name of a folder.
    """
    if workspace is not None and not hasattr(workspace, "watched"):
        raise PolicyError(f"workspace={workspace!r}: give a Workspace(folder)")
    for at, rung in enumerate(policy.acting.ladder.rungs):
        if isinstance(rung, Escalate) and rung.files and workspace is None:
            raise PolicyError(
                f"ladder[{at}].files=True needs the files: give the guard a "
                "workspace=Workspace(folder)"
            )


def acting(policy: Policy, name: str, memory: Any) -> Actor:
    """The agent whose task this is, by its settings, its name and its memory."""
    began = load(memory)["host"].get("began")
    return Actor(policy=policy, agent=agent_id(name), began=began)


def agent_id(name: str) -> str:
    """Names one agent in one run: two threads of one agent are two."""
    settings = get_config().get("configurable", {})
    inside = str(settings.get("checkpoint_ns") or "").rpartition("|")[0]
    return "/".join(filter(None, (name, str(settings.get("thread_id") or ""), inside)))


def resumable(config: RunnableConfig) -> bool:
    """Whether the run has a checkpointer, without which no answer can come back.

    `thread_id` does not tell: a caller may give one without a checkpointer.
    """
    configurable = config.get("configurable", {})
    return configurable.get("__pregel_checkpointer") is not None


def read(state: Any, key: str) -> Any:
    """One key of a state, which may be an object."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def _place(request: ToolCallRequest) -> int | None:
    """How many calls of the batch were sent out before this one."""
    metadata = request.runtime.config.get("metadata", {})
    path = metadata.get("langgraph_path", ())
    sent = len(path) > 1 and path[0] == "__pregel_push"
    return path[1] if sent and isinstance(path[1], int) else None
