"""Parts that a user gives, and that fail or answer nonsense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import (
    Budget,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
)
from loopguard_lg.budgets import Price
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, guarded


def fail(*_: Any, **__: Any) -> Any:
    """Raise, as broken code does."""
    raise ZeroDivisionError("broken")


class SilentError(Exception):
    """An error whose own text fails."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def fail_silently(*_: Any) -> Any:
    """Raise what nobody can print."""
    raise SilentError


class NoTruth:
    """Neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError("ask me not")


ANSWERS: list[Any] = [
    fail,
    fail_silently,
    lambda *_: "nonsense",
    lambda *_: 17,
    lambda *_: NoTruth(),
    lambda *_: object(),
    lambda *_: float("nan"),
    lambda *_: Finding(
        kind="odd", steps=("a",), count=None, threshold=1, detail=3, key="k"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    kind: ClassVar[str] = "odd"
    answer: Callable[..., Any] = fail
    shadow: bool = False

    def observe(self, history: Any) -> Any:
        """Answer as told."""
        return self.answer(history)


def looping() -> ScriptedModel:
    """A model that goes in circles."""
    return ScriptedModel(default=call("search", query="x"))


def check_caught(policy: Policy) -> dict[str, Any]:
    """Run in circles under a policy; the loop is caught. Gives the guard's channel."""
    agent = guarded(looping(), policy, checkpointer=InMemorySaver())
    state = agent.invoke(ask(), THREAD)
    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 8
    channel: dict[str, Any] = agent.get_state(THREAD).values["loopguard"]
    return channel


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_detector_that_answers_nonsense_has_no_vote(answer: Any) -> None:
    """The others still see the loop, and each fault is counted."""
    policy = Policy(detectors=(Odd(answer=answer), *DEFAULTS))

    assert check_caught(policy)["faults"]["odd"] >= 4


def test_a_detector_that_hears_nonsense_has_no_vote() -> None:
    """The run goes on as with one that fails."""

    class Deaf(Odd):
        hears: Any = "everything"

    policy = Policy(detectors=(Deaf(), *DEFAULTS))
    assert check_caught(policy)["faults"]["odd"] >= 4


@pytest.mark.parametrize("answer", [fail, fail_silently, lambda _: NoTruth()])
def test_a_progress_signal_that_fails_has_no_vote(answer: Any) -> None:
    """What it can't say is no progress, and each fault is counted."""
    assert sum(check_caught(Policy(progress=(answer,)))["faults"].values()) >= 4


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_advisor_that_fails_has_no_advice(answer: Any) -> None:
    """Results are what the tool said."""
    check_caught(Policy(advisors=(answer,)))


@pytest.mark.parametrize("answer", [*ANSWERS, lambda *_: "1e999", lambda *_: None])
def test_a_verifier_that_fails_chooses_nothing(answer: Any, way: Way) -> None:
    """One of the samples is taken, and the run ends as usual."""
    ladder = Ladder(Reflect(samples=2, verifier=answer), GiveUp())
    agent = guarded(looping(), Policy(ladder=ladder))

    assert way(agent, ask(), {})["loopguard_exit"]["reason"] == "loop"


@pytest.mark.parametrize("answer", [fail, lambda *_: NoTruth(), lambda *_: "soon"])
@pytest.mark.parametrize("setting", ["wait", "stop", "worked"])
def test_functions_of_a_tool_policy_that_fail_are_left_out(
    setting: str, answer: Any
) -> None:
    """Neither waits nor receipts depend on them."""
    role: Any = "write" if setting == "worked" else "poll"
    tool = ToolPolicy(role=role, once=role == "write", **{setting: answer})
    policy = Policy(tools={"search": tool}, budget=Budget(steps=9))
    guard = LoopGuardMiddleware(policy, sleep=lambda seconds: None)
    agent = create_agent(looping(), TOOLS, middleware=[guard])

    assert agent.invoke(ask())["loopguard_exit"]["reason"] in ("loop", "budget")


def test_a_fault_is_logged_once_in_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """What fails at each turn is counted each time and said once."""
    check_caught(Policy(detectors=(Odd(), *DEFAULTS)))

    assert caplog.text.count("odd failed and was left out") == 1


def test_an_observer_that_always_fails_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broken observer does not fill the log."""

    def broken(event: Any) -> None:
        raise ZeroDivisionError(event.name)

    guarded(looping(), observers=[broken]).invoke(ask())

    assert caplog.text.count("an observer failed") == 1


class Prices(dict[str, Price]):
    """A table of prices that can't be read."""

    def get(self, *_: Any) -> Any:
        """Fail."""
        raise ZeroDivisionError("broken")


def test_a_table_of_prices_that_fails_costs_the_prices(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls are counted without their price, and other budgets hold."""
    policy = Policy(prices=Prices(), budget=Budget(model_calls=3))
    model = ScriptedModel(default=lambda sent: call("read", path=str(len(sent))))

    report = way(guarded(model, policy), ask(), {})["loopguard_exit"]

    assert (report["budget"], report["usage"]["unpriced"]) == ("model_calls", 3)


def test_a_table_of_prices_that_fails_keeps_no_budget_in_dollars(way: Way) -> None:
    """Such a run does not begin."""
    policy = Policy(prices=Prices(), budget=Budget(usd=1.0))

    with pytest.raises(PolicyError, match="no price is known"):
        way(guarded(looping(), policy), ask(), {})


PRICES = {"scripted": Price(input=1.0, output=1.0)}
USAGES: list[Any] = [
    {"input_tokens": -5, "output_tokens": -5, "total_tokens": -10},
    {"input_tokens": 10**30, "output_tokens": 0, "total_tokens": 0},
    {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "input_token_details": {"cache_read": 10**9},
    },
]


@pytest.mark.parametrize("usage", USAGES)
def test_usage_that_can_t_be_leaves_budgets_in_force(usage: Any, way: Way) -> None:
    """A provider that counts nonsense does not lift the other limits."""
    calls = [{"name": "read", "args": {"path": "a"}, "id": "c"}]

    def reply(sent: Any) -> AIMessage:
        calls[0]["args"] = {"path": f"file {len(sent)}"}
        return AIMessage("", tool_calls=calls, usage_metadata=usage)

    policy = Policy(
        budget=Budget(model_calls=4, total_tokens=10**9, usd=5.0), prices=PRICES
    )
    model = ScriptedModel(default=reply, usage=False)

    report = way(guarded(model, policy), ask(), {})["loopguard_exit"]
    assert report["reason"] == "budget"
    assert len(model.requests) <= 4
    assert all(amount >= 0 for amount in report["usage"].values())


def test_a_price_that_fails_ends_the_run_by_its_budget() -> None:
    """Budgets in dollars fail closed where nobody can tell what a call cost."""
    with pytest.raises(Exception, match="price"):
        guarded(ScriptedModel(default="x"), Policy(budget=Budget(usd=1.0))).invoke(
            ask()
        )
