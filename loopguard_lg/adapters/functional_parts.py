"""What happens around the parts of a guarded run: model, tools, plain steps.

The memory lives as long as the run. An `@entrypoint` that is resumed runs again from
the top, so that its parts are told of the same replies and results again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.func import task

from loopguard_lg import hooks, prompts
from loopguard_lg.adapters import exits, leave, tree
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import CutOffError, Run, Work
from loopguard_lg.adapters.graph_site import is_resumable
from loopguard_lg.adapters.graph_state import identified
from loopguard_lg.adapters.ledger import Ledger
from loopguard_lg.adapters.messages import mark_of, with_mark
from loopguard_lg.adapters.past import thread_of
from loopguard_lg.adapters.plan import Plan, shown
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.tool_call import failed
from loopguard_lg.adapters.transcript import step_alone, without_reply
from loopguard_lg.engine import Verdict, decide
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.memory import Memory, fresh
from loopguard_lg.steps import Turn

Kind: TypeAlias = Literal["model", "tool", "step"]
"""What a part of a run does."""

TASK: type[Any] = type(task(lambda: None))
"""What `@task` makes of a function."""


@dataclass(slots=True, kw_only=True)
class Session:
    """One run: what its parts share."""

    guard: Guard
    tools: Mapping[str, BaseTool]
    clock: Callable[[], float]
    memory: Memory = field(default_factory=fresh)
    messages: Sequence[BaseMessage] = ()
    marks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def scene(self, given: Sequence[Any]) -> Scene:
        """What is known before a model call with these messages."""
        found = [self._marked(m) for m in convert_to_messages(list(given))]
        messages, config = identified(found), current_config()
        thread = str(config.get("configurable", {}).get("thread_id") or "")
        return Scene(
            messages=messages,
            seen=messages,
            tools=self.tools,
            thread=thread,
            resumable=is_resumable(config),
            named_later=True,
            looked=bool(self.messages),
        )

    def _marked(self, message: BaseMessage) -> BaseMessage:
        """A result with what is known of it: the app may have built it by itself."""
        if not isinstance(message, ToolMessage) or mark_of(message):
            return message
        mark = self.marks.get(message.tool_call_id)
        return with_mark(message, mark) if mark else message

    def admit(self, call: Mapping[str, Any]) -> None:
        """Let a step pass that no budget refuses.

        Raises:
            LoopHaltedError: There is no room for it.
        """
        ask = self.guard.ask(self.memory, call, (), self.tools)
        refusal = self.guard.before_tool(ask)
        if refusal is not None and mark_of(refusal).get("blocked") == "budget":
            raise self.halted("budget", refusal.text)

    def halted(
        self, reason: str, why: str, verdict: Verdict | None = None
    ) -> LoopHaltedError:
        """The error that ends the run, with its report."""
        return LoopHaltedError(
            exits.report(reason, why, self.memory, self.messages, verdict)
        )

    def left(self, plan: Plan, scene: Scene) -> Any:
        """The last message, as the run is over or asks."""
        assert plan.final is not None
        self.memory, self.messages = plan.memory, [*scene.messages, plan.final]
        return plan.final

    def seen(
        self,
        call: Mapping[str, Any],
        result: str,
        mark: Mapping[str, Any],
        *,
        failed: bool = False,
    ) -> None:
        """Judge a step that no model asked for.

        Raises:
            LoopHaltedError: It is the last trigger, or a budget is out.
        """
        policy, status = self.guard.policy, "error" if failed else "success"
        told = ToolMessage(result, tool_call_id="", status=status)
        agent = self.guard.agent
        turn = step_alone(call, with_mark(told, mark), agent, self.tools)
        verdict, self.memory = decide(policy, without_reply(self.memory), turn)
        self._tell(turn, verdict)
        if verdict.action != "exit" or policy.observe_only:
            return
        reason = "loop" if verdict.exceeded is None else "budget"
        why = verdict.exceeded or (verdict.finding and verdict.finding.detail)
        raise self.halted(reason, str(why), verdict)

    def _tell(self, turn: Turn, verdict: Verdict) -> None:
        acts = verdict.action != "continue" and verdict.finding is not None
        names: list[hooks.Name] = ["seen", "detected"] if acts else ["seen"]
        settings = current_config().get("configurable", {})
        thread = settings.get("thread_id") or thread_of(self.memory["host"])
        for name in names:
            event = GuardEvent(
                name=name,
                thread=str(thread),
                agent=self.guard.agent,
                event=turn,
                verdict=verdict,
            )
            hooks.notify(self.guard.observers, event)


session_var: ContextVar[Session | None] = ContextVar("loopguard_session", default=None)
"""The run around what is called now."""


def current_config() -> Any:
    """The configuration of the task around; empty outside of a graph."""
    try:
        return get_config()
    except RuntimeError:  # no graph runs here
        return {}


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a part: the function and its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def begun(self) -> Any:
        """What is to be waited for: a task starts at once."""
        return self.on(self.function, *self.args, **self.kwargs)

    def on(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The same for another function in its place."""
        if not isinstance(self.function, TASK):
            return partial(function, *args, **kwargs)
        made = function if isinstance(function, TASK) else task(function)
        return made(*args, **kwargs)

    def with_messages(self, messages: Sequence[BaseMessage]) -> Asked:
        """The same with other messages."""
        return self._with(_is_history, messages)

    def with_call(self, call: Mapping[str, Any]) -> Asked:
        """The same with another call."""
        return self._with(_is_call, call)

    def _with(self, fits: Callable[[Any], bool], new: Any) -> Asked:
        args = tuple(new if fits(a) else a for a in self.args)
        kwargs = {k: new if fits(v) else v for k, v in self.kwargs.items()}
        return replace(self, args=args, kwargs=kwargs)

    def find(self, fits: Callable[[Any], bool]) -> Any:
        """The first argument that fits."""
        return next((v for v in (*self.args, *self.kwargs.values()) if fits(v)), None)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def bound(self) -> dict[str, Any]:
        """The arguments by name; by place where the function has no signature."""
        try:
            bound = inspect.signature(self.function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):  # a builtin, or a call that is about to fail
            return {**{str(n): a for n, a in enumerate(self.args)}, **self.kwargs}
        return dict(bound.arguments)


def _is_history(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(item: Any) -> bool:
    """Whether it is a message, or what LangChain makes one of."""
    if isinstance(item, tuple):
        return len(item) == 2 and all(isinstance(part, str) for part in item)
    roles = isinstance(item, Mapping) and "role" in item
    return roles or isinstance(item, BaseMessage)


def _is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and {"name", "args", "id"} <= value.keys()


def work_of(
    function: Any, kind: Kind | None, args: Any, kwargs: Any
) -> Work[Any] | None:
    """What happens around a part; `None` outside of a run."""
    session = session_var.get()
    if session is None:
        return None
    asked = Asked(function, args, kwargs)
    if kind == "tool" or (kind is None and asked.find(_is_call) is not None):
        return _tool(session, asked)
    if kind == "model" or (kind is None and asked.find(_is_history) is not None):
        return _model(session, asked)
    return _step(session, asked)


def _model(session: Session, asked: Asked) -> Work[Any]:
    """Look at what happened, then ask the model, the stronger one, or none."""
    guard, scene = session.guard, session.scene(asked.find(_is_history) or ())
    plan = guard.before_model(session.memory, scene)
    if plan.final is not None:
        return session.left(plan, scene)
    started = session.clock()
    try:
        out, plan = yield from _replied(session, asked, plan, scene)
    except CutOffError:
        return session.left(
            guard.cut_off(plan, scene, session.clock() - started), scene
        )
    found = out if isinstance(out, list) else [out]
    replies = [m for m in found if isinstance(m, BaseMessage)]
    seconds = session.clock() - started
    session.memory = guard.after_model(plan, scene, replies, seconds)
    session.messages = [*scene.messages, *replies]
    return out


def _replied(
    session: Session, asked: Asked, plan: Plan, scene: Scene
) -> Work[tuple[Any, Plan]]:
    view = shown(plan, scene, None)
    own = asked if view is scene.seen else asked.with_messages(list(view))
    left = session.guard.seconds_left(plan.memory)
    if plan.stronger is None:
        return (yield Run(own.begun(), left)), plan
    try:
        ask = _asker(_bound(plan.stronger, session.tools), is_async(asked.function))
        return (yield Run(asked.on(ask, list(view)), left)), plan
    except (GraphBubbleUp, CutOffError):
        raise
    except Exception as error:
        hooks.logger.warning("loopguard: the stronger model failed: %s", error)
        return (yield Run(own.begun(), left)), plan.without_stronger()


def _asker(model: Any, waits: bool) -> Any:
    """A function that asks the stronger model."""

    def stronger(messages: Any) -> Any:
        return model.invoke(messages)

    async def astronger(messages: Any) -> Any:
        return await model.ainvoke(messages)

    return astronger if waits else stronger


def code_of(function: Any) -> Any:
    """The function behind a task, a partial, a decorator or a callable object."""
    while hasattr(function, "func"):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    return inspect.unwrap(function)


def is_async(function: Any) -> bool:
    """Whether a function, or what a task runs, is a coroutine function."""
    return inspect.iscoroutinefunction(code_of(function))


def _bound(model: Any, tools: Mapping[str, BaseTool]) -> Any:
    if isinstance(model, str):
        from langchain.chat_models import init_chat_model

        model = init_chat_model(model)
    binds = isinstance(model, BaseChatModel) and tools
    return model.bind_tools([*tools.values()]) if binds else model


def _tool(session: Session, asked: Asked) -> Work[Any]:
    """Execute a call if it may be, and note how it went."""
    guard, call = session.guard, asked.find(_is_call)
    past = session.messages
    ask = guard.ask(session.memory, call, past, session.tools)
    if (answer := _answer(guard, ask)) is not None:
        session.marks[call["id"] or ""] = dict(mark_of(answer))
        return answer
    mark = session.marks.setdefault(call["id"] or "", {})
    if (prepared := guard.acts.prepared(ask)) is not call:
        asked = asked.with_call(prepared)
    try:
        out = yield from _executed(session, asked, mark)
    except CutOffError as error:
        out = failed(call, error)
    if isinstance(out, ToolMessage):
        out = with_mark(guard.acts.advised(ask, out), mark)
    return out


def _answer(guard: Guard, ask: Ask) -> ToolMessage | None:
    """The answer to a call that is not to be executed: the guard's, or a person's."""
    answer = guard.before_tool(ask)
    if answer is not None or not _is_question(ask.call, ask.messages):
        return answer
    resumable = is_resumable(current_config())
    return leave.asked(ask.call, ask.messages, resumable=resumable)


def _is_question(call: Mapping[str, Any], past: Sequence[BaseMessage]) -> bool:
    """Whether it is the guard who asks a person."""
    reply = past[-1] if past else None
    own = isinstance(reply, AIMessage) and exits.KEY in reply.response_metadata
    return own and call["name"] == "ask_user"


def _step(session: Session, asked: Asked) -> Work[Any]:
    """Run a function that no model asked for; a loop of it ends by an error."""
    call = {"name": asked.name, "args": asked.bound(), "id": ""}
    session.admit(call)
    mark: dict[str, Any] = {}
    try:
        out = yield from _executed(session, asked, mark)
    except GraphBubbleUp:
        raise
    except CutOffError as error:
        session.seen(call, prompts.cut_off(), mark, failed=True)
        raise session.halted("budget", prompts.cut_off()) from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        session.seen(call, what, mark, failed=True)
        raise
    session.seen(call, str(out), mark)
    return out


def _executed(session: Session, asked: Asked, mark: dict[str, Any]) -> Work[Any]:
    """What a part gives; `mark` is told what it took."""
    guard, memory, clock = session.guard, session.memory, session.clock
    left, started = guard.seconds_left(memory), clock()
    within = tree.level(guard.policy, guard.agent, memory, clock, started)
    entry = Ledger({})
    try:
        with within as entry:
            begun = asked.begun()
            if not isinstance(asked.function, TASK):
                return (yield Run(begun, left))
        return (yield Run(begun, left))  # who waits for a task may be elsewhere
    finally:
        mark |= {"seconds": clock() - started, **entry.mark()}
