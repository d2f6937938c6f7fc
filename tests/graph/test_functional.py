"""The guard around plain functions, and in the functional API of LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from loopguard_lg import AskUser, Budget, Policy, ToolPolicy, guarded
from loopguard_lg.errors import LoopHaltedError, PolicyError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.graphs import BY_NAME, Clock, stubborn
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    executed,
    laddered,
    notes,
    results,
    same,
)

Agent = Callable[..., Callable[[list[Any]], list[BaseMessage]]]


def plain(model: ScriptedModel, policy: Policy, **settings: Any) -> Any:
    """An agent of plain functions."""

    @guarded
    def ask(messages: list[BaseMessage]) -> AIMessage:
        return model.invoke(messages)

    @guarded
    def execute(asked: ToolCall) -> ToolMessage:
        return BY_NAME[asked["name"]].invoke(asked)

    @guarded(policy, tools=TOOLS, **settings)
    def agent(messages: list[Any]) -> list[Any]:
        while (reply := ask(messages)).tool_calls:
            messages = [*messages, reply, *map(execute, reply.tool_calls)]
        return [*messages, reply]

    return agent


def by_tasks(
    model: ScriptedModel, policy: Policy, observers: Any = (), **settings: Any
) -> Any:
    """The same with tasks and an entrypoint."""

    @guarded
    @task
    def ask(messages: list[BaseMessage]) -> AIMessage:
        return model.invoke(messages)

    @guarded
    @task
    def execute(asked: ToolCall) -> ToolMessage:
        return BY_NAME[asked["name"]].invoke(asked)

    @entrypoint(**settings)
    @guarded(policy, tools=TOOLS, observers=observers)
    def agent(messages: list[Any]) -> list[Any]:
        while (reply := ask(messages).result()).tool_calls:
            begun = [execute(asked) for asked in reply.tool_calls]
            messages = [*messages, reply, *[each.result() for each in begun]]
        return [*messages, reply]

    return agent if settings else lambda given: agent.invoke(given, THREAD)


def awaited(model: ScriptedModel, policy: Policy, observers: Any = ()) -> Any:
    """The same on an event loop."""

    @guarded
    async def ask(messages: list[BaseMessage]) -> AIMessage:
        return await model.ainvoke(messages)

    @guarded
    @task
    async def execute(asked: ToolCall) -> ToolMessage:
        return await BY_NAME[asked["name"]].ainvoke(asked)

    @entrypoint()
    @guarded(policy, tools=TOOLS, observers=observers)
    async def agent(messages: list[Any]) -> list[Any]:
        while (reply := await ask(messages)).tool_calls:
            found = await asyncio.gather(*map(execute, reply.tool_calls))
            messages = [*messages, reply, *found]
        return [*messages, reply]

    return lambda given: asyncio.run(agent.ainvoke(given))


@pytest.fixture(params=[plain, by_tasks, awaited])
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each way to write an agent of functions."""
    return request.param


def given() -> list[Any]:
    """What a run begins with."""
    return [HumanMessage("find it")]


def test_an_honest_run_is_the_same_as_without_the_guard(agent: Agent) -> None:
    """Nothing is said, and every call is executed."""
    replies = [[call("read", path="a"), call("read", path="b")], "found"]
    model = ScriptedModel(replies=replies)

    state = agent(model, Policy())(given())

    assert notes(model) == ["", ""]
    assert [m.type for m in state] == ["human", "ai", "tool", "tool", "ai"]


def test_the_first_trigger_is_a_note_to_the_model(agent: Agent) -> None:
    """It stands at the end of what the model is given, and nowhere else."""
    model = ScriptedModel(replies=[*same(3), call("read", path="a"), "found"])

    state = agent(model, Policy(advisors=()))(given())

    assert "`search` was called 3 times" in notes(model)[3]
    assert "[loop guard]" not in "".join(m.text for m in state)


def test_the_second_trigger_asks_the_stronger_model(agent: Agent) -> None:
    """It is given the tools, and the history without the loop."""
    strong = ScriptedModel(replies=[call("read", path="a")], model_name="strong")
    weak = ScriptedModel(replies=[*same(4), "found"])

    state = agent(weak, laddered(strong))(given())

    assert strong.requests[0].tool_names == ["search", "read", "write"]
    assert "no results" not in [m.text for m in strong.requests[0].messages]
    assert (executed, state[-1].text) == ([*["search x"] * 3, "read a"], "found")


def test_a_stronger_model_that_fails_is_done_without(agent: Agent) -> None:
    """The run goes on with the app's own function."""
    strong = ScriptedModel(replies=[ConnectionError("down")])
    weak = ScriptedModel(replies=[*same(4), "found"])

    assert agent(weak, laddered(strong))(given())[-1].text == "found"


def test_the_last_trigger_is_a_reply_with_the_report(agent: Agent) -> None:
    """The app's own loop ends by it, with a valid history."""
    state = agent(stubborn(), Policy())(given())

    assert state[-1].response_metadata["loopguard_exit"]["reason"] == "loop"
    validate_history(state, request=False)


def test_a_budget_has_no_room_for_the_rest_of_a_batch(agent: Agent) -> None:
    """Calls beyond it are answered, and the run ends."""
    batch = [call("read", path=name) for name in "abcd"]

    state = agent(ScriptedModel(replies=[batch]), Policy(budget=Budget(tool_calls=2)))(
        given()
    )

    refused = [m.text.startswith("Not executed") for m in results(state)]
    assert (sorted(executed), refused[1:3]) == (["read a", "read b"], [False, True])
    assert state[-1].response_metadata["loopguard_exit"]["budget"] == "tool_calls"


def test_a_run_starts_without_a_memory(agent: Agent) -> None:
    """The same function, called again, knows nothing of the call before."""
    run = agent(ScriptedModel(replies=[*same(2), "found"] * 2), Policy())
    run(given())
    run(given())

    assert executed == ["search x"] * 4


def test_a_person_is_asked_and_the_entrypoint_resumes() -> None:
    """The run is told again from the top; no task is executed twice."""
    agent = by_tasks(stubborn(), laddered(end=AskUser()), checkpointer=InMemorySaver())
    asked = agent.invoke(given(), THREAD)
    before = len(executed)

    state = agent.invoke(Command(resume="hint: look in a"), THREAD)

    assert asked["__interrupt__"][0].value["type"] == "loopguard_ask_user"
    assert (state[-1].text, len(executed)) == ("found", before)


def test_an_interrupt_of_the_app_loses_no_count() -> None:
    """What came before it still counts when the run goes on."""

    @guarded
    @task
    def fetch(url: str) -> str:
        executed.append(url)
        return "nothing"

    @entrypoint(checkpointer=InMemorySaver())
    @guarded(Policy(budget=Budget(tool_calls=3)))
    def agent(_: str) -> str:
        fetch("a").result(), fetch("b").result()
        interrupt("go on?")
        return "".join(fetch(url).result() for url in "cde")

    agent.invoke("", THREAD)
    with pytest.raises(LoopHaltedError, match="3 tool calls"):
        agent.invoke(Command(resume="yes"), THREAD)

    assert executed == ["a", "b", "c"]


def test_a_loop_of_plain_steps_ends_by_an_error() -> None:
    """Without a model nobody can be told, so it is the exit alone that acts."""

    @guarded
    def fetch(url: str) -> str:
        executed.append(url)
        return "nothing"

    @guarded(Policy())
    def agent() -> None:
        while True:
            fetch("a")

    with pytest.raises(LoopHaltedError) as stopped:
        agent()

    assert stopped.value.report["kind"] == "repeat"
    assert 3 < len(executed) < 12
    assert stopped.value.report["usage"]["model_calls"] == 0


def test_the_same_error_again_and_again_ends_a_loop_of_steps() -> None:
    """What a step raises is the app's own until the last trigger."""

    @guarded
    async def fetch(n: int) -> str:
        raise ValueError("unknown field `n`")

    @guarded(Policy())
    async def agent() -> None:
        for n in range(50):
            try:
                await fetch(n)
            except ValueError:
                continue

    with pytest.raises(LoopHaltedError, match="error"):
        asyncio.run(agent())


def test_outside_of_a_run_a_part_does_what_it_does() -> None:
    """No policy, no guard."""

    @guarded
    def double(n: int) -> int:
        return 2 * n

    assert [double(2) for _ in range(20)] == [4] * 20


def test_watching_changes_nothing(agent: Agent) -> None:
    """With `observe_only` the loop goes on, and the observers hear of it."""
    model = ScriptedModel(replies=[*same(6), "found"])

    state = agent(model, Policy(observe_only=True))(given())

    assert (len(executed), state[-1].text) == (6, "found")


def test_observers_are_told_under_the_name_of_the_run() -> None:
    """The function's name is the agent's."""
    told: list[tuple[str, str]] = []

    def note(event: GuardEvent) -> None:
        told.append((event.name, event.agent))

    plain(ScriptedModel(replies=[*same(3), "found"]), Policy(), observers=note)(given())

    assert ("reflected", "agent") in told


@pytest.mark.parametrize("wrong", [entrypoint()(lambda _: 1), 3])
def test_what_cannot_be_guarded_says_so(wrong: Any) -> None:
    """An entrypoint is guarded beneath its decorator."""
    with pytest.raises(PolicyError, match="put `@entrypoint` above"):
        guarded(Policy())(wrong)


def test_a_generator_is_refused() -> None:
    """Its values come when nobody is around."""

    def stream() -> Any:
        yield 1

    class Stream:
        def __call__(self) -> Any:
            yield 1

    for one in (stream, partial(stream), Stream()):
        with pytest.raises(PolicyError, match="a generator can't be guarded"):
            guarded(Policy())(one)


def test_a_call_is_given_its_idempotency_key() -> None:
    """The same call of the same run has the same one, whatever the model gives."""
    paid: list[str] = []
    key = ToolPolicy(role="write", idempotency_key="key")
    reply = AIMessage("", tool_calls=[ToolCall(name="pay", args={"amount": 1}, id="1")])

    @guarded(kind="tool")
    def pay(asked: dict[str, Any]) -> ToolMessage:
        paid.append(asked["args"].get("key", ""))
        return ToolMessage("paid", tool_call_id=asked["id"])

    @guarded(Policy(tools={"pay": key}))
    def run(messages: list[Any]) -> None:
        guarded(kind="model")(lambda given: reply)(messages)
        for _ in range(2):
            pay(reply.tool_calls[0])

    run([HumanMessage("go", id="w")])
    run([HumanMessage("go", id="v")])

    assert paid[0] == paid[1] != paid[2] == paid[3]
    assert all(paid)


def test_an_object_with_an_async_call_is_a_run() -> None:
    """What it calls is in the run, though it is no coroutine function itself."""
    clock = Clock()
    nap = guarded(clock.takes(1))

    class Run:
        async def __call__(self) -> int:
            for _ in range(9):
                nap(None)
            return 9

    budget = Policy(budget=Budget(steps=3))
    with pytest.raises(LoopHaltedError):
        asyncio.run(guarded(budget, clock=clock)(Run())())
    assert asyncio.run(Run()()) == 9


def test_a_function_without_a_signature_is_a_step() -> None:
    """A builtin gives what it gives."""
    largest = guarded(max)

    @guarded(Policy())
    def run() -> int:
        return largest([1, 2])

    assert run() == 2


def test_a_task_may_be_asked_for_its_result_again() -> None:
    """It gives, or raises, the same each time."""

    @guarded
    @task
    def half(n: int) -> int:
        return 4 // n

    @entrypoint()
    @guarded(Policy())
    def agent(_: str) -> list[Any]:
        good, bad = half(2), half(0)
        raised = []
        for _ in range(2):
            try:
                bad.result()
            except ZeroDivisionError as error:
                raised.append(error)
        return [good.result(), good.result(), raised[0] is raised[1]]

    assert agent.invoke("") == [2, 2, True]


@pytest.mark.parametrize("first", [("user", "go"), {"role": "user", "content": "go"}])
def test_messages_may_be_given_as_one_gives_them_to_a_model(first: Any) -> None:
    """Pairs and dicts are messages too."""
    state = plain(ScriptedModel(default=call("search", query="x")), Policy())([first])

    assert state[-1].response_metadata["loopguard_exit"]["reason"] == "loop"
