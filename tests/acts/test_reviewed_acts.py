"""What a review of the acts found, and is so no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tenacity import retry_if_result, wait_none

from loopguard_lg import Budget, GiveUp, Ladder, Policy, Reflect, ToolPolicy, decide
from loopguard_lg.acts import decoding
from loopguard_lg.acts.calls import made
from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, guarded, results

answers: list[str] = []
"""What the next letters come to."""


@tool
def send(to: str) -> str:
    """Send a letter."""
    executed.append(f"send {to}")
    return answers.pop(0) if answers else f"sent to {to}"


@tool
def job_status(job: str) -> str:
    """Look how far a job is."""
    executed.append(f"poll {job}")
    return answers.pop(0) if answers else "finished"


@tool
def deliver(to: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Deliver something, and say so by a command."""
    executed.append(f"deliver {to}")
    text = answers.pop(0) if answers else "delivered"
    return Command(update={"messages": [ToolMessage(text, tool_call_id=call_id)]})


ANN, READ = call("send", to="Ann"), call("read", path="a")
ALL = [*TOOLS, send, job_status, deliver]
TOOL_POLICIES = {
    "send": ToolPolicy(role="write", once=True),
    "read": ToolPolicy(role="read", cache=True),
    "job_status": ToolPolicy(role="poll", wait=wait_none()),
}
KEEPS = Policy(tools=TOOL_POLICIES, detectors=[])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    answers.clear()


class Hook(AgentMiddleware[Any, Any]):
    """Another middleware, which changes the messages before the guard looks."""

    def __init__(self, change: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self.change = change

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Change the messages."""
        return {"messages": self.change(state["messages"])}


def run(
    way: Way, *replies: Any, policy: Policy = KEEPS, middleware: Any = ()
) -> list[ToolMessage]:
    """The results of a run that makes these calls."""
    model = ScriptedModel(replies=[*replies, "done"])
    agent = guarded(
        model, policy, tools=ALL, middleware=middleware, checkpointer=InMemorySaver()
    )
    return results(way(agent, ask(), THREAD)["messages"])


def forgets(messages: list[Any]) -> list[Any]:
    """All but what the person said is removed."""
    gone = [m for m in messages if isinstance(m, AIMessage | ToolMessage)]
    return [RemoveMessage(id=m.id) for m in gone]


def test_a_batch_that_was_removed_is_not_done_again(way: Way) -> None:
    """Nobody saw how the letter ended, so that it is not risked twice."""
    last = run(way, ANN, ANN, middleware=[Hook(forgets)])

    assert executed == ["send Ann"]
    assert last == []


def test_of_a_removed_call_the_model_hears_that_it_may_have_worked() -> None:
    """The receipt is gone; the model is told to find out."""
    texts: list[str] = []

    def forget_once(messages: list[Any]) -> list[Any]:
        texts.extend(m.text for m in messages if isinstance(m, ToolMessage))
        return forgets(messages) if len(texts) == 1 else []

    run(lambda *a: a[0].invoke(*a[1:]), ANN, ANN, middleware=[Hook(forget_once)])

    assert "Made before, and not made again" in texts[-1]


def test_a_batch_that_was_removed_drops_what_was_read(way: Way) -> None:
    """It may have written."""

    def forgets_writes(messages: list[Any]) -> list[Any]:
        wrote = [m for m in messages if getattr(m, "name", "") == "write"]
        return forgets(messages[-2:]) if wrote else []

    write = call("write", path="a", text="x")
    run(way, READ, write, READ, middleware=[Hook(forgets_writes)])

    assert executed == ["read a", "write a", "read a"]


def test_what_another_put_in_a_results_place_is_not_repeated(way: Way) -> None:
    """The cache knows the text by its digest, and reads again."""

    def clears(messages: list[Any]) -> list[Any]:
        found = [m for m in messages if isinstance(m, ToolMessage)]
        old = [m for m in found if m.text != "[cleared]"][:-1]
        return [m.model_copy(update={"content": "[cleared]"}) for m in old]

    other = call("read", path="b")
    run(way, READ, other, other, READ, middleware=[Hook(clears)])

    assert executed.count("read a") == 2


def test_a_poll_that_is_over_drops_what_was_read(way: Way) -> None:
    """What it waited for has changed things; while it waits nothing has."""
    poll = call("job_status", job="1")
    answers[:] = ["running", "finished"]
    run(way, READ, poll, READ, poll, READ)

    assert executed == ["read a", "poll 1", "poll 1", "read a"]


def test_cached_answers_of_a_batch_take_no_place_in_a_budget(way: Way) -> None:
    """Only what is made counts, wherever it stands."""
    policy = KEEPS.replace(budget=Budget(tool_calls=2, warn=1))
    found = run(way, READ, [READ, READ, call("read", path="b")], policy=policy)

    assert executed == ["read a", "read b"]
    assert found[-1].text.startswith("contents of b")


@pytest.mark.parametrize(
    ("result", "worked"),
    [
        ('{"success": false, "note": "sent"}', False),
        ('{"ok": true, "log": "error: none"}', True),
        ('{"status": "failed"}', False),
        ('{"error": "no such person"}', False),
        ('{"error": null, "id": 7}', True),
        ("Error: no such person", False),
        ("sent", True),
        ('{"broken', True),
    ],
)
def test_flags_in_a_result_tell_whether_it_worked(result: str, worked: bool) -> None:
    """Before its words do."""
    step = Step(tool="send", args={"to": "Ann"}, result=result)

    assert made(step, TOOL_POLICIES, "1").worked is worked


def test_the_host_knows_better_than_words() -> None:
    """A result with the status of an error has failed, whatever it says."""
    step = Step(tool="send", result='{"ok": true}', error=True)

    assert not made(step, TOOL_POLICIES, "1").worked


def test_the_policy_knows_best(way: Way) -> None:
    """A function of one's own says what a receipt is."""

    def accepted(step: Step) -> bool:
        return "accepted" in step.result

    tools = {"send": ToolPolicy(role="write", once=True, worked=accepted)}
    answers[:] = ["no error, but the queue was full", "error-free: accepted"]
    run(way, ANN, ANN, ANN, policy=KEEPS.replace(tools=tools))

    assert executed == ["send Ann"] * 2


def test_a_function_that_fails_is_left_out() -> None:
    """Then the result tells as it does without one."""

    def broken(step: Step) -> bool:
        raise RuntimeError("no")

    tools = {"send": ToolPolicy(once=True, worked=broken)}
    assert made(Step(tool="send", result="sent"), tools, "1").worked
    with pytest.raises(PolicyError, match=r"ToolPolicy\.worked=1: give a function"):
        ToolPolicy(worked=1)  # type: ignore[arg-type]


def test_a_strategy_sees_what_a_command_says(way: Way) -> None:
    """Tools that return a command are tried again like others."""

    def is_busy(step: Step | None) -> bool:
        return step is not None and "busy" in step.result

    retried = ToolPolicy(retry=retry_if_result(is_busy), wait=wait_none())
    answers[:] = ["busy", "busy"]
    run(
        way,
        call("deliver", to="Ann"),
        policy=KEEPS.replace(tools={"deliver": retried}),
    )

    assert executed == ["deliver Ann"] * 3


@pytest.mark.parametrize(
    "error",
    [
        "503 Service Unavailable",
        "429 Too Many Requests",
        "connection reset by peer",
        "HTTP 500: Internal Server Error",
        "ConnectionError: Max retries exceeded with url",
    ],
)
def test_a_long_outage_is_no_recurring_error(error: str) -> None:
    """It draws on the budgets of time and money; its calls differ and are no loop."""
    memory: dict[str, Any] = {}
    kinds = set()
    for n in range(30):
        step = Step(tool="fetch", args={"page": n}, result=error, error=True)
        verdict, memory = decide(Policy(), memory, Turn(steps=(step,)))
        kinds |= {finding.kind for finding in verdict.findings}

    assert "recurring_error" not in kinds


@pytest.mark.parametrize("hint", [True, False])
def test_a_tool_that_calls_itself_idempotent_may_be_retried(
    way: Way, hint: bool
) -> None:
    """Another write is tried again only where the policy names its role."""
    hinted = send.model_copy(update={"metadata": {"idempotentHint": hint}})
    policy = Policy(tools={"send": ToolPolicy(retry=True, wait=0)})
    answers[:] = ["Error: 503 Service Unavailable"]
    agent = guarded(ScriptedModel(replies=[ANN, "done"]), policy, tools=[hinted])
    way(agent, ask(), THREAD)

    assert len(executed) == 1 + hint


def test_what_somebody_else_has_stored_is_no_option() -> None:
    """A ladder's state of another version changes nothing."""
    ladder = Ladder(Reflect(temperature=1.0, hide_tool=True), GiveUp())

    assert decoding.due(ladder, {}) == decoding.PLAIN
    assert decoding.due(ladder, {"rung": 1, "at": 3}) == decoding.PLAIN
    assert decoding.due(ladder, {"by": 1}).temperature == 1.0
