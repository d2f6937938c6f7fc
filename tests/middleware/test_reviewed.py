from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from loopguard_lg import AskUser, Budget, LoopGuardMiddleware, Policy
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    ask,
    executed,
    guarded,
    laddered,
    last,
    results,
    same,
)


class City(BaseModel):
    name: str


def test_a_partial_result_is_of_this_run() -> None:
    """What was found for an older question is no answer to this one."""
    model = ScriptedModel(replies=['{"name": "Paris"}', *same(9)])
    agent = guarded(
        model, response_format=ProviderStrategy(City), checkpointer=InMemorySaver()
    )
    agent.invoke(ask("capital of France?"), THREAD)

    state = agent.invoke(ask("capital of Spain?"), THREAD)

    assert state["structured_response"] is None
    assert state["loopguard_exit"]["partial"] == ""


def test_a_run_that_is_compacted_often_and_learns_goes_on() -> None:
    """Compaction after compaction is no loop while each look finds something."""
    replies = [call("read", path=f"chapter {n} of {n * 37}") for n in range(25)]
    summary = SummarizationMiddleware(
        ScriptedModel(default="short"), trigger=("messages", 4), keep=("messages", 2)
    )

    state = guarded(
        ScriptedModel(replies=[*replies, "done"]), middleware=[summary]
    ).invoke(ask(), THREAD)

    assert last(state).text == "done"
    assert len(executed) == 25


def test_an_answer_stays_in_view_of_a_rollback() -> None:
    """What a person said is never hidden, also where the loop began before it."""
    told = "do not touch the production account"
    question = call("ask_user", question="which?")
    weak = ScriptedModel(replies=[*same(2), question, *same(9)])
    strong = ScriptedModel(replies=["done"])
    policy = laddered(strong).replace(leave_tools=("ask_user",))
    agent = guarded(weak, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    agent.invoke(Command(resume=told), THREAD)

    assert told in [m.text for m in results(strong.requests[0].messages)]


@pytest.mark.parametrize("answer", ["go on", {"choice": "raise_budget"}])
def test_an_answer_to_a_used_budget_grants_another_one(answer: Any) -> None:
    """The run goes on with what was said, until that is used as well."""
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(9)])
    policy = laddered(end=AskUser()).replace(budget=Budget(tool_calls=2))
    agent = guarded(model, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    agent.invoke(Command(resume=answer), THREAD)

    assert len(executed) == 4
    assert len(agent.get_state(THREAD).interrupts) == 1


def test_words_that_begin_with_stop_do_not_stop() -> None:
    """Only the choice does."""
    model = ScriptedModel(replies=[*same(6), "found"])
    agent = guarded(model, laddered(end=AskUser()), checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(Command(resume="stop searching, ask the database"), THREAD)

    assert last(state).text == "found"


def test_every_rollback_stays_out_of_view() -> None:
    """Also the first one after many more."""
    strong = ScriptedModel(default="done")
    weak = ScriptedModel(default=same(1)[0])
    agent = guarded(weak, laddered(strong), checkpointer=InMemorySaver())

    for _ in range(6):
        agent.invoke(ask(), THREAD)

    assert [len(results(r.messages)) for r in strong.requests] == [0] * 6


def test_a_rollback_goes_back_before_the_loop() -> None:
    """News from within the loop's span is no point to come back to."""
    strong = ScriptedModel(replies=["done"])
    weak = ScriptedModel(replies=[*same(2), call("read", path="aside"), *same(9)])

    guarded(weak, laddered(strong)).invoke(ask(), THREAD)

    assert results(strong.requests[0].messages) == []


@pytest.mark.parametrize("name", ["exit", "remaining", "beside"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    """Its memory would lie where something else does."""
    with pytest.raises(PolicyError, match=f"name='{name}' is taken"):
        LoopGuardMiddleware(name=name)


@pytest.mark.parametrize("policy", ["coding", Budget(steps=5)])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    """With the way to make one."""
    with pytest.raises(PolicyError, match=r"give a Policy\(\.\.\.\)"):
        LoopGuardMiddleware(policy)


class Odd:
    """A detector that answers with something else than a finding."""

    kind = "odd"
    shadow = False

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def observe(self, history: History) -> Any:
        return self.answer


NO_TEXT: Any = None
NO_DETAIL = Finding(kind="odd", steps=(1,), count=1, threshold=1, detail=NO_TEXT)


@pytest.mark.parametrize("answer", [True, "loop", NO_DETAIL], ids=repr)
def test_an_odd_detector_silences_no_other(answer: Any) -> None:
    """It loses its vote; the loop is still seen."""
    policy = Policy(detectors=[Odd(answer), *Policy().detectors])
    model = ScriptedModel(replies=[*same(3), "found"])

    guarded(model, policy).invoke(ask(), THREAD)

    assert "3 times" in model.requests[3].text


def test_a_message_put_in_front_is_no_compaction() -> None:
    """Nothing is gone: a fresh first message is only more."""
    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    def greeted(request: Any, handler: Any) -> Any:
        first = HumanMessage("today is a day", name="loopguard")
        return handler(request.override(messages=[first, *request.messages]))

    heard: list[str] = []
    model = ScriptedModel(
        replies=[call("read", path=str(n)) for n in range(5)] + ["ok"]
    )
    guard = LoopGuardMiddleware(
        observers=[lambda e: heard.append(type(e.event).__name__)]
    )
    from langchain.agents import create_agent

    from tests.middleware.runs import TOOLS

    create_agent(model, TOOLS, middleware=[greeted, guard]).invoke(ask(), THREAD)

    assert "Compaction" not in heard


def test_an_own_give_up_of_the_app_is_the_apps() -> None:
    """A tool of that name is neither refused nor a way out."""
    from langchain_core.tools import tool

    @tool
    def give_up(lead: str) -> str:
        """Give a lead up."""
        executed.append(lead)
        return f"lead {lead} closed"

    model = ScriptedModel(replies=[call("give_up", lead="7"), "next"])
    policy = Policy(leave_tools=())

    state = guarded(model, policy, tools=[give_up]).invoke(ask(), THREAD)

    assert executed == ["7"]
    assert last(state).text == "next"


async def test_a_hung_model_is_cut() -> None:
    """On an event loop a model that never answers ends the run, with a report."""
    import asyncio

    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    async def hung(request: Any, handler: Any) -> Any:
        await asyncio.Event().wait()

    policy = Policy(budget=Budget(seconds=0.05))
    agent = guarded(ScriptedModel(), policy, middleware=[hung])

    state = await asyncio.wait_for(agent.ainvoke(ask(), THREAD), 20)

    assert state["loopguard_exit"]["budget"] == "seconds"


@pytest.mark.parametrize("nearer", [1, 2, 3])
def test_a_new_word_is_one_whatever_the_recursion_limit(nearer: int) -> None:
    """Also where two runs of a thread would end at the same superstep."""
    agent = guarded(
        ScriptedModel(replies=same(2)),
        Policy(budget=Budget(tool_calls=1)),
        checkpointer=InMemorySaver(),
    )
    agent.invoke(ask(), {**THREAD, "recursion_limit": 30})
    step = agent.get_state(THREAD).metadata["step"]

    agent.invoke(ask("again"), {**THREAD, "recursion_limit": 30 - step - nearer})

    assert len(executed) == 2
