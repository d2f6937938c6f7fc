"""`guarded`: the guard around plain functions, and in the functional API of LangGraph.

The function with a policy is the run; the functions that it calls are its parts. What
a part is shows in its arguments: one that is given messages asks the model, one that is
given a tool call executes it, any other one is a step by itself. The memory lives as
long as the run. An `@entrypoint` that is resumed runs again from the top, so its parts
are told of the same replies and results again, and the memory comes out the same: for
that `guarded` stands above `@task`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, TypeVar, overload

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from loopguard_lg import hooks
from loopguard_lg.adapters.driving import Work, adrive, drive
from loopguard_lg.adapters.functional_parts import (
    TASK,
    Kind,
    Session,
    code_of,
    is_async,
    session_var,
    work_of,
)
from loopguard_lg.adapters.session import Guard
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import Observer
from loopguard_lg.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])


@overload
def guarded(policy: F, /) -> F: ...
@overload
def guarded(
    policy: Policy | None = None,
    /,
    *,
    kind: Kind | None = None,
    tools: Sequence[BaseTool] = (),
    observers: Sequence[Observer] | Observer = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[F], F]: ...


def guarded(
    policy: Any = None,
    /,
    *,
    kind: Kind | None = None,
    tools: Sequence[BaseTool] = (),
    observers: Sequence[Observer] | Observer = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Any:
    """Guard a function: with a policy it is a run, without one a part of the run.

    A part outside of any run does what it does without the guard. A model part is given
    the messages without what was gone back over and with a note at their end where one
    is due; where the run ends, its reply is the guard's, with the report in
    `response_metadata["loopguard_exit"]`. The calls of a tool part that are held, or
    that a budget has no room for, are answered with a `ToolMessage`.

    Args:
        policy: The settings of a run.
        kind: What a part does, where its arguments do not tell.
        tools: The tools of a run, for their defaults and roles, and for the stronger
            model of an escalation.
        observers: Are told what the guard saw and did in a run.
        clock: Seconds from any start.

    Raises:
        PolicyError: What it stands above can't be guarded.
        LoopHaltedError: On a call, where a loop of steps without a model goes on.
    """
    if policy is not None and not isinstance(policy, Policy):
        return _part(policy, None)
    if policy is None:
        return partial(_part, kind=kind)
    guard = Guard(policy=policy, observers=hooks.checked(observers))
    known = {tool.name: tool for tool in tools}

    def opened(agent: str) -> Session:
        return Session(guard=replace(guard, agent=agent), tools=known, clock=clock)

    return partial(_run, session=opened)


def _checked(function: Any) -> None:
    if isinstance(function, Runnable) or not callable(function):
        raise PolicyError(
            f"guarded({type(function).__name__}): give a function; for an entrypoint "
            "put `@entrypoint` above `@guarded(policy)`"
        )
    code = code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        name = code.__qualname__
        raise PolicyError(
            f"guarded({name}): a generator can't be guarded, what it calls can"
        )


def _run(function: Any, session: Callable[..., Session]) -> Any:
    """The function as a run with a memory of its own."""
    _checked(function)
    name = getattr(function, "__name__", "")

    def opened() -> Any:
        return session_var.set(session(agent=name))

    def call(*args: Any, **kwargs: Any) -> Any:
        reset = opened()
        try:
            return function(*args, **kwargs)
        finally:
            session_var.reset(reset)

    async def acall(*args: Any, **kwargs: Any) -> Any:
        reset = opened()
        try:
            return await function(*args, **kwargs)
        finally:
            session_var.reset(reset)

    return update_wrapper(acall if is_async(function) else call, function)


def _part(function: Any, kind: Kind | None) -> Any:
    """The function as a part of the run around it."""
    _checked(function)
    later = isinstance(function, TASK)

    def call(*args: Any, **kwargs: Any) -> Any:
        work = work_of(function, kind, args, kwargs)
        if work is None:
            return function(*args, **kwargs)
        return _Later(work) if later else drive(work, lambda run: run.given())

    async def acall(*args: Any, **kwargs: Any) -> Any:
        work = work_of(function, kind, args, kwargs)
        if work is None:
            return await function(*args, **kwargs)
        return await adrive(work, lambda run: run.given())

    waits = not later and is_async(function)
    return update_wrapper(acall if waits else call, function)


class _Later:
    """What a task will give: `result()` waits for it, and so does `await`."""

    def __init__(self, work: Work[Any]) -> None:
        self._rest: Work[Any] | None = None
        self._value: Any = None
        self._error: Exception | None = None
        try:
            self._rest = _after(next(work), work)
        except StopIteration as end:
            self._value = end.value

    def result(self, timeout: float | None = None) -> Any:
        """What the task gave; raises what it raised."""
        rest, self._rest = self._rest, None
        if rest is not None:
            try:
                self._value = drive(rest, lambda run: run.given.result(timeout))
            except Exception as error:
                self._error = error
        return self._given()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        rest, self._rest = self._rest, None
        if rest is not None:
            try:
                self._value = await adrive(rest, lambda run: _awaited(run.given))
            except Exception as error:
                self._error = error
        return self._given()

    def _given(self) -> Any:
        """What came of it, however often it is asked for."""
        if self._error is not None:
            raise self._error
        return self._value


async def _awaited(future: Any) -> Any:
    return await future


def _after(asked: Any, work: Work[Any]) -> Work[Any]:
    """The rest of a work that has asked for something already."""
    while True:
        step: Callable[[], Any]
        try:
            done = yield asked
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, done)
        try:
            asked = step()
        except StopIteration as end:
            return end.value
