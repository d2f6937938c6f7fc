from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.types import Command, interrupt

from loopguard_lg import AskUser, Budget, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded,
    laddered,
    last,
    loops_until,
    notes,
    results,
)

ASKS = Policy(leave_tools=("give_up", "ask_user"))


@tool
def approve(what: str) -> str:
    """Ask for approval by an interrupt of its own."""
    answer = interrupt({"approve": what})
    executed.append(f"approve {what}")
    return f"{what}: {answer}"


@tool(return_direct=True)
def deliver(what: str) -> str:
    """Hand something to the person, which ends the run."""
    executed.append(f"deliver {what}")
    return f"delivered {what}"


def pending(agent: Any) -> dict[str, str]:
    """Interrupts of the thread: what each asks, by its id."""
    return {str(i.value): i.id for i in agent.get_state(THREAD).interrupts}


def used(agent: Any) -> dict[str, float]:
    """What the guard counted for the run."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


def test_two_questions_of_one_batch_find_their_owners(way: Way) -> None:
    """The answer to the guard's tool and to another interrupting tool don't mix."""
    batch = [call("ask_user", question="where?"), call("approve", what="plan")]
    model = ScriptedModel(replies=[[*batch, call("read", path="a")], "found"])
    agent = guarded(model, ASKS, tools=[approve, *TOOLS], checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)
    ids = pending(agent)
    answers = {
        id_: "yes" if "plan" in asked else "in the attic" for asked, id_ in ids.items()
    }

    state = way(agent, Command(resume=answers), THREAD)

    told = [message.text for message in results(state["messages"])]
    assert len(ids) == 2
    assert told[:2] == ["in the attic", "plan: yes"]
    assert used(agent)["tool_calls"] == 3


def test_two_questions_can_be_answered_one_after_the_other() -> None:
    """An answer given by id leaves the other question open."""
    batch = [call("ask_user", question="where?"), call("approve", what="plan")]
    model = ScriptedModel(replies=[batch, "found"])
    agent = guarded(model, ASKS, tools=[approve], checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    for asked, id_ in pending(agent).items():
        agent.invoke(Command(resume={id_: asked[2:9]}), THREAD)

    told = [m.text for m in results(agent.get_state(THREAD).values["messages"])]

    assert told == ["type': ", "plan: approve"]


def test_the_guards_question_is_not_taken_by_the_human_in_the_loop(way: Way) -> None:
    """Approval of calls and the guard's question each get their own answer."""
    writes = call("write", path="a", text="b")
    model = ScriptedModel(replies=[writes], default=call("search", query="x"))
    human = [HumanInTheLoopMiddleware(interrupt_on={"write": True})]
    policy, saver = laddered(end=AskUser()), InMemorySaver()
    agent = guarded(model, policy, middleware=human, checkpointer=saver)
    way(agent, ask(), THREAD)
    way(agent, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    asked = pending(agent)
    state = way(agent, Command(resume="look elsewhere"), THREAD)

    assert "loopguard_ask_user" in str(asked)
    assert "look elsewhere" in [m.text for m in results(state["messages"])]


def test_what_a_person_rejects_is_no_error_of_a_tool() -> None:
    """A call that is answered before the tools run leaves the batch in order."""
    model = ScriptedModel(
        replies=[[call("write", path="a", text="b"), call("read", path="c")], "ok"]
    )
    human = HumanInTheLoopMiddleware(interrupt_on={"write": True})
    policy = Policy(budget=Budget(tool_calls=2))
    agent = guarded(model, policy, middleware=[human], checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    no = {"type": "reject", "message": "not there"}

    agent.invoke(Command(resume={"decisions": [no]}), THREAD)

    assert executed == ["read c"]


def test_an_interrupt_inside_a_tool_is_no_error(way: Way) -> None:
    """It passes through the guard, and the call counts once when it has ended."""
    model = ScriptedModel(replies=[call("approve", what="plan"), "found"])
    agent = guarded(
        model,
        Policy(tool_errors="return"),
        tools=[approve],
        checkpointer=InMemorySaver(),
    )
    way(agent, ask(), THREAD)

    state = way(agent, Command(resume="yes"), THREAD)

    assert [m.text for m in results(state["messages"])] == ["plan: yes"]
    assert used(agent)["tool_calls"] == 1


def test_a_question_left_open_is_answered_before_the_next_run(way: Way) -> None:
    """A person who writes on instead of answering gets a whole history."""
    model = loops_until("never mind", "hello")
    agent = guarded(model, laddered(end=AskUser()), checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)

    state = way(agent, ask("never mind"), THREAD)

    assert last(state).text == "hello"


def test_results_that_end_the_run_are_counted_in_the_next_one(way: Way) -> None:
    """A tool that returns to the person directly is a step like any other."""
    model = ScriptedModel(replies=[call("deliver", what="a")] * 3)
    policy = Policy(budget=Budget(tool_calls=2, scope="thread"))
    agent = guarded(model, policy, tools=[deliver], checkpointer=InMemorySaver())
    for _ in range(2):
        way(agent, ask(), THREAD)

    state = way(agent, ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == "tool_calls"
    assert len(executed) == 2


@pytest.mark.parametrize("answer", [None, 5, ["a", "b"], {"choice": "hint"}, ""])
def test_any_answer_is_taken_as_text(answer: Any) -> None:
    """A person's client may answer with anything."""
    model = ScriptedModel(replies=[call("ask_user", question="?"), "found"])
    agent = guarded(model, ASKS, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    (id_,) = pending(agent).values()

    state = agent.invoke(Command(resume={id_: answer}), THREAD)

    assert last(state).text == "found"


def test_a_cancelled_tool_is_cancelled() -> None:
    """A cancellation passes through the guard, also where errors are returned."""

    @tool
    async def cancelled(why: str) -> str:
        """Be cancelled."""
        raise asyncio.CancelledError(why)

    model = ScriptedModel(replies=[call("cancelled", why="a"), "never"])
    agent = guarded(model, Policy(tool_errors="return"), tools=[cancelled])

    with pytest.raises(NodeCancelledError):
        asyncio.run(agent.ainvoke(ask()))


def test_a_loop_after_an_answer_is_reflected_on_again() -> None:
    """A person's answer takes the ladder down; the same loop climbs it once more."""
    model = loops_until("stop it")
    agent = guarded(model, laddered(end=AskUser()), checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    asked = len(model.requests)

    agent.invoke(Command(resume="try once more"), THREAD)

    assert "3 times" in "".join(notes(model)[asked:])
    assert agent.get_state(THREAD).interrupts


@pytest.mark.parametrize("budget", [Budget(), Budget(tool_calls=3)])
def test_a_question_that_is_refused_is_not_asked_for_ever(budget: Budget) -> None:
    """Where another middleware answers the question, the run ends with its report."""
    limit = ToolCallLimitMiddleware(tool_name="ask_user", thread_limit=1)
    model = ScriptedModel(
        replies=[call("ask_user", question="?")], default=call("search", query="x")
    )
    policy = laddered(end=AskUser()).replace(leave_tools=("ask_user",), budget=budget)
    agent = guarded(model, policy, middleware=[limit], checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(Command(resume="go on"), THREAD)

    assert state["loopguard_exit"]["reason"] == (
        "budget" if budget.tool_calls else "loop"
    )
    assert not last(state).tool_calls
