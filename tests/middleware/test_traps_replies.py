from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import InjectedToolCallId
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
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
    notes,
    results,
    same,
)


@tool(return_direct=True)
def deliver(what: str) -> str:
    """Hand something to the person, which ends the run."""
    return f"delivered {what}"


def broken(id_: str = "b") -> AIMessage:
    """A reply whose only call is no JSON."""
    bad = {"name": "search", "args": "query=x", "id": id_, "error": None}
    return AIMessage("", invalid_tool_calls=[{**bad, "type": "invalid_tool_call"}])


def used(agent: Any) -> dict[str, float]:
    """What the guard counted for the run of the thread."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


@pytest.mark.parametrize(
    "wrong",
    [call("google", q="a"), call("search", question="a")],
    ids=["unknown tool", "invalid arguments"],
)
def test_calls_that_cannot_be_carried_out_are_an_invalid_loop(
    wrong: Any, way: Way
) -> None:
    """Hallucinated tools and arguments reach the guard, and it says so."""
    model = ScriptedModel(replies=[*[wrong] * 3, "found"])

    way(guarded(model), ask(), THREAD)

    assert "could not be carried out" in notes(model)[3]


def test_a_reply_that_is_only_broken_json_does_not_end_the_run(way: Way) -> None:
    """The model is told that its call can't be read, and goes on."""
    model = ScriptedModel(replies=[broken(), call("read", path="a"), "found"])

    state = way(guarded(model), ask(), THREAD)

    assert "can't be read" in results(state["messages"])[0].text
    assert last(state).text == "found"


def test_broken_json_again_and_again_climbs_the_ladder(way: Way) -> None:
    """Calls that are answered with the reply are judged like all others."""
    model = ScriptedModel(replies=[broken()] * 20)

    state = way(guarded(model), ask(), THREAD)

    assert "could not be carried out" in notes(model)[3]
    assert state["loopguard_exit"]["kind"] == "invalid"


def test_a_budget_holds_where_every_call_is_answered_with_the_reply() -> None:
    """A loop that never reaches the tools is bounded too."""
    model = ScriptedModel(replies=[broken()] * 20)

    state = guarded(model, Policy(budget=Budget(model_calls=2))).invoke(ask())

    assert state["loopguard_exit"]["budget"] == "model_calls"
    assert len(model.requests) == 2


class Answer(BaseModel):
    text: str


def test_structured_output_that_never_parses_climbs_the_ladder(way: Way) -> None:
    """The host answers such replies by itself; the guard still sees them."""
    model = ScriptedModel(replies=[call("Answer", wrong=1)] * 20)
    agent = guarded(model, response_format=ToolStrategy(Answer))

    state = way(agent, ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(model.requests) < 8


class AskAgain(AgentMiddleware):
    """Sends the model back whenever it wants to end."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Jump back to the model, unless the guard ended the run."""
        ended = "loopguard_exit" in state["messages"][-1].response_metadata
        again = HumanMessage("go on", additional_kwargs={"lc_source": "grader"})
        return None if ended else {"jump_to": "model", "messages": [again]}

    after_model.__can_jump_to__ = ["model"]  # type: ignore[attr-defined]


def test_text_only_turns_that_are_sent_back_are_a_loop() -> None:
    """A middleware's remark is no new run, and replies that end it count too."""
    model = ScriptedModel(replies=["it is done"] * 20)

    state = guarded(model, middleware=[AskAgain()]).invoke(ask())

    assert state["loopguard_exit"]["reason"] == "loop"


@pytest.mark.parametrize("id_", ["same", ""], ids=["equal", "empty"])
def test_calls_with_one_id_are_told_apart(id_: str, way: Way) -> None:
    """Each call of a batch is executed, counted and budgeted by its place."""
    batch = [call("search", id_, query=word) for word in "abc"]
    model = ScriptedModel(replies=[batch, "found"])
    policy = Policy(budget=Budget(tool_calls=2))

    way(guarded(model, policy, checkpointer=(saver := InMemorySaver())), ask(), THREAD)

    assert sorted(executed) == ["search a", "search b"]
    assert used(guarded(model, checkpointer=saver))["tool_calls"] == 2


def test_ids_that_come_again_in_the_next_turn_are_other_calls(way: Way) -> None:
    """A provider that numbers from 0 in each reply is counted right."""
    model = ScriptedModel(replies=[*[call("search", "0", query="x")] * 3, "found"])
    agent = guarded(model, checkpointer=InMemorySaver())

    way(agent, ask(), THREAD)

    assert used(agent)["tool_calls"] == 3
    assert "3 times" in notes(model)[3]


def test_calls_without_an_id_get_one(way: Way) -> None:
    """The host can't execute a call without an id."""
    calls = [
        {"name": "search", "args": {"query": word}, "id": None, "type": "tool_call"}
        for word in "ab"
    ]
    model = ScriptedModel(replies=[AIMessage("", tool_calls=calls), "found"])

    state = way(guarded(model), ask(), THREAD)

    assert sorted(executed) == ["search a", "search b"]
    assert last(state).text == "found"


def thought(n: int, tool: str = "search", **args: str) -> AIMessage:
    """A call after thinking, as a provider reports it under another model name."""
    blocks = [
        {"type": "thinking", "thinking": f"secret {n}", "signature": "s"},
        {"type": "text", "text": f"spoken {n}"},
    ]
    asked = {"name": tool, "args": args or {"query": "x"}, "id": f"t{n}"}
    return AIMessage(
        blocks, tool_calls=[asked], response_metadata={"model_name": "dated"}
    )


def shown(model: ScriptedModel, request: int) -> str:
    """The contents of a request."""
    return str([message.content for message in model.requests[request].messages])


def test_each_model_keeps_its_own_thoughts_only(way: Way) -> None:
    """Blocks of the other model are stripped in both directions, words stay."""
    loop = [thought(n) for n in range(4)]
    reads = [thought(7, "read", path="b"), call("read", path="c")]
    strong = ScriptedModel(replies=reads, model_name="strong")
    start = thought(9, "read", path="b")
    weak = ScriptedModel(replies=[start, *loop, "found"], model_name="weak")

    way(guarded(weak, laddered(strong)), ask(), THREAD)

    for_strong, for_weak = shown(strong, 1), shown(weak, 5)
    assert "secret 9" not in for_strong
    assert "secret 7" in for_strong
    assert "secret 7" not in for_weak
    assert "secret 9" in for_weak
    assert "spoken 7" in for_weak


def test_thoughts_of_the_strong_model_stay_out_of_the_next_run() -> None:
    """A new word takes the ladder down, but not the trace of the other model."""
    found = thought(7, "read", path="a")
    strong = ScriptedModel(replies=[found], model_name="strong")
    weak = ScriptedModel(replies=[*same(4), "here", "hello"], model_name="weak")
    agent = guarded(weak, laddered(strong), checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    agent.invoke(ask("hi"), THREAD)

    assert "spoken 7" in shown(weak, -1)
    assert "secret 7" not in shown(weak, -1)


class Forced(AgentMiddleware):
    """Forces a tool on every turn, as some apps do."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Force any tool."""
        return handler(request.override(tool_choice="any"))


@pytest.mark.parametrize(
    ("policy", "at"),
    [
        (Policy(), 3),
        (Policy(), 4),
        (Policy(budget=Budget(tool_calls=4, warn=0.5)), 2),
    ],
    ids=["reflect", "escalate", "budget warning"],
)
def test_a_forced_tool_choice_is_lifted_where_the_guard_speaks(
    policy: Policy, at: int
) -> None:
    """A model that is told to come to an end must be able to."""
    model = ScriptedModel(replies=[*same(at), "found"])
    agent = create_agent(
        model, TOOLS, middleware=[Forced(), LoopGuardMiddleware(policy)]
    )

    agent.invoke(ask())

    assert "loop guard" in notes(model)[at]
    assert model.requests[at].tool_choice is None
    assert model.requests[0].tool_choice == "any"


def test_broken_json_beside_a_good_call_is_answered_in_order(way: Way) -> None:
    """Strict providers want every call answered once, also where ids come again."""
    good = {"name": "search", "args": {"query": "a"}, "id": "g", "type": "tool_call"}
    mixed = broken().model_copy(update={"tool_calls": [good]})
    model = ScriptedModel(replies=[mixed, mixed, "found"])

    state = way(guarded(model), ask(), THREAD)

    assert executed == ["search a"] * 2
    assert last(state).text == "found"


@tool
def shoot(n: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Take a picture, which is shown as a person would show it."""
    picture = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    told = ToolMessage("see the picture", tool_call_id=tool_call_id)
    return Command(update={"messages": [told, HumanMessage([picture])]})


def test_what_a_tool_says_in_a_persons_place_is_no_new_run(way: Way) -> None:
    """Neither budgets nor the ladder start afresh in the middle of a run."""
    calls = [call("shoot", n=n) for n in range(9)]
    model = ScriptedModel(replies=calls)
    policy = Policy(budget=Budget(steps=5))

    state = way(guarded(model, policy, tools=[shoot]), ask(), THREAD)

    assert state["loopguard_exit"]["usage"]["steps"] == 5


def test_a_person_may_speak_with_every_run() -> None:
    """Words that come with new input are new runs, whatever stands before them."""
    model = ScriptedModel(default=call("deliver", what="a"))
    agent = guarded(
        model,
        Policy(budget=Budget(steps=1)),
        tools=[deliver],
        checkpointer=InMemorySaver(),
    )

    states = [agent.invoke(ask(str(n)), THREAD) for n in range(3)]

    assert all("loopguard_exit" not in state for state in states)


def test_a_stronger_model_that_fails_is_replaced_by_the_agents_own(way: Way) -> None:
    """An escalation never breaks a run that would have gone on without it."""
    strong = ScriptedModel(replies=[ConnectionError("no key")])
    weak = ScriptedModel(replies=same(4), default="found")

    state = way(guarded(weak, laddered(strong)), ask(), THREAD)

    assert last(state).text == "found"
    assert len(strong.requests) == 1
    assert "left out" in notes(weak)[4]


class Hanging(ScriptedModel):
    """Does not answer its fifth request on an event loop."""

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        if len(self.requests) == 4:
            await asyncio.Event().wait()
        return await super()._agenerate(*args, **kwargs)


async def test_the_own_model_in_place_of_a_stronger_one_is_cut_in_time() -> None:
    """The seconds that are left are its own, too."""
    strong = ScriptedModel(replies=[ConnectionError("down")])
    policy = laddered(strong).replace(budget=Budget(seconds=1))
    agent = guarded(Hanging(replies=same(4)), policy)

    state = await asyncio.wait_for(agent.ainvoke(ask()), 20)

    assert state["loopguard_exit"]["budget"] == "seconds"
    assert len(strong.requests) == 1


def test_an_error_of_the_agents_own_model_is_raised(way: Way) -> None:
    """The guard takes no error out of the hands of the app."""
    model = ScriptedModel(replies=[ConnectionError("down")])

    with pytest.raises(ConnectionError, match="down"):
        way(guarded(model), ask(), THREAD)

    assert len(model.requests) == 1


def test_giving_up_in_a_batch_ends_the_run_after_it(way: Way) -> None:
    """The other calls have their results, then the run exits with the reason."""
    batch = [call("give_up", reason="no such file"), call("read", path="a")]
    model = ScriptedModel(replies=[call("read", path="b"), batch])

    state = way(guarded(model), ask(), THREAD)

    assert executed == ["read b", "read a"]
    assert state["loopguard_exit"]["detail"] == "no such file"
