from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from tenacity import retry_if_exception_type, stop_after_attempt, wait_fixed

from loopguard_lg import Budget, LoopGuardMiddleware, Policy, ToolPolicy, guard_graph
from loopguard_lg.acts import retries
from loopguard_lg.acts.strategies import state as strategy_state
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Step
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, results

slept: list[float] = []
troubles: list[Any] = []
"""What the next calls come to: raised, or returned."""


def _trouble(what: str) -> str:
    executed.append(what)
    trouble = troubles.pop(0) if troubles else f"got {what}"
    if isinstance(trouble, BaseException):
        raise trouble
    return str(trouble)


@tool
def fetch(what: str) -> str:
    """Fetch something."""
    return _trouble(what)


@tool
def send(what: str, key: str = "") -> str:
    """Send something."""
    return _trouble(what)


async def asleep(seconds: float) -> None:
    """Let no time pass, on an event loop."""
    slept.append(seconds)


NO_TIME: Any = {"sleep": slept.append, "asleep": asleep, "clock": lambda: 0.0}
FETCH, SEND = call("fetch", what="x"), call("send", what="x")
ALL = [*TOOLS, fetch, send]
AGAIN: dict[str, Any] = {"retry": True, "wait": wait_fixed(2)}
DOWN = ConnectionError("reset")
BUSY = "Error: 429 too many requests, try again later"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    slept.clear()
    troubles.clear()


def policy(name: str = "fetch", **settings: Any) -> Policy:
    """A policy that tries the calls of a tool again."""
    tools = {name: ToolPolicy(**{**AGAIN, **settings})}
    return Policy(tools=tools, tool_errors="return")


def run(way: Way, settings: Policy, *replies: Any, middleware: Any = ()) -> list[Step]:
    """The steps of a run that makes these calls and comes to an end."""
    seen: list[GuardEvent] = []
    guard = LoopGuardMiddleware(settings, observers=[seen.append], **NO_TIME)
    listed = [guard if one is None else one for one in middleware or [None]]
    model = ScriptedModel(replies=[*replies, "end"])
    way(create_agent(model, ALL, middleware=listed), ask(), THREAD)
    return [step for event in seen for step in getattr(event.event, "steps", ())]


@pytest.mark.parametrize("trouble", [DOWN, TimeoutError(), BUSY])
def test_a_passing_trouble_is_one_step(way: Way, trouble: Any) -> None:
    """Raised or returned, it is tried again before anyone counts it."""
    troubles[:] = [trouble, trouble]
    (step,) = run(way, policy(), FETCH)

    assert (step.result, step.attempts) == ("got x", 3)
    assert slept == [2, 2]


def test_nothing_is_tried_again_unless_the_policy_says_so(way: Way) -> None:
    """The default leaves retries to the app."""
    troubles[:] = [DOWN]
    (step,) = run(way, Policy(tool_errors="return"), FETCH)

    assert "reset" in step.result
    assert executed == ["x"]


def test_after_the_last_try_the_error_is_the_result(way: Way) -> None:
    """There are three tries unless the policy has another stop."""
    troubles[:] = [DOWN] * 9
    (step,) = run(way, policy(), FETCH)

    assert (step.attempts, len(executed)) == (3, 3)
    executed.clear()
    run(way, policy(stop=stop_after_attempt(5)), FETCH)
    assert len(executed) == 5


def test_an_error_that_stays_is_not_tried_again(way: Way) -> None:
    """Only what may pass by itself is worth another try."""
    troubles[:] = [ValueError("the disk is full"), "Error: permission denied"]
    run(way, policy(), FETCH, FETCH)

    assert slept == []


def test_the_users_own_strategy_decides(way: Way) -> None:
    """A tenacity `retry` strategy takes the place of the built-in one."""
    troubles[:] = [ValueError("odd")]
    (step,) = run(way, policy(retry=retry_if_exception_type(ValueError)), FETCH)

    assert step.attempts == 2


def test_a_write_is_tried_again_only_where_it_is_declared(way: Way) -> None:
    """By its role, or by an idempotency key."""
    for settings, times in (
        ({}, 1),
        ({"role": "write"}, 2),
        ({"idempotency_key": "key"}, 2),
    ):
        executed.clear()
        troubles[:] = [DOWN]
        run(way, policy("send", **settings), SEND)
        assert len(executed) == times


def test_a_pause_does_not_pass_the_budget(way: Way) -> None:
    """The call ends with its error instead."""
    troubles[:] = [DOWN]
    limited = policy(wait=wait_fixed(30)).replace(budget=Budget(seconds=20))
    (step,) = run(way, limited, FETCH)

    assert slept == []
    assert "reset" in step.result


def test_the_tool_node_of_a_graph_tries_again_alone(way: Way) -> None:
    """A write beside it is made once, and results stay in order."""
    troubles[:] = [DOWN]
    model = ScriptedModel(replies=[[FETCH, call("write", path="a", text="y")], "end"])
    builder = graphs.react(model, tools=ToolNode(ALL))
    graph = guard_graph(builder, policy(), model="agent", tools="tools", **NO_TIME)
    state = graphs.run(way, graph.compile())

    assert executed == ["write a", "x", "x"]
    assert [m.name for m in results(state["messages"])] == ["fetch", "write"]


@pytest.mark.parametrize("first", [True, False])
def test_beside_another_retry_a_call_is_one_step(way: Way, first: bool) -> None:
    """On either side of it nothing is counted twice."""
    other = ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    troubles[:] = [DOWN]
    raising = policy().replace(tool_errors="raise")
    listed = [None, other] if first else [other, None]
    (step,) = run(way, raising, FETCH, middleware=listed)

    assert step.result == "got x"
    assert executed == ["x", "x"]


@pytest.mark.parametrize("settings", [policy(), Policy(tool_errors="return")])
def test_an_outage_does_not_trip_at_once(way: Way, settings: Policy) -> None:
    """Four calls into an outage are no loop yet, however often each was tried."""
    troubles[:] = [BUSY] * 20
    calls = [call("fetch", what=str(n)) for n in range(4)]
    steps = run(way, settings, *calls)

    assert len(steps) == 4
    assert not any(step.blocked for step in steps)


class Failed(Exception):
    """An error as HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__("failed")
        self.status_code = status


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Failed(429), True),
        (Failed(503), True),
        (Failed(404), False),
        (type("ReadTimeout", (Exception,), {})(), True),
        (RuntimeError("the service is overloaded"), True),
        (KeyError("x"), False),
    ],
)
def test_errors_of_clients_are_told_apart(error: Exception, passes: bool) -> None:
    """By status, by the name of the class, or by what they say."""
    assert retries.is_transient(strategy_state(1, 0.0, error=error)) is passes
