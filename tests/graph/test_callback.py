"""What is watched by a callback alone: chains, agents, graphs, subagents."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage
from langchain_core.outputs import LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardCallback, Policy
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import by_hand, react, stubborn
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, results, same

Watch = LoopGuardCallback


def run(way: Way, graph: Any, watch: Watch, given: Any = None) -> dict[str, Any]:
    """Run under the callback."""
    return way(graph, given or ask(), {"callbacks": [watch], "recursion_limit": 60})


def actions(watch: Watch) -> list[tuple[str, str]]:
    """What would have been done in the newest run."""
    return [(would.action, would.kind) for would in watch.runs[-1].would]


@pytest.fixture(params=["agent", "graph", "by_hand"])
def looping(request: pytest.FixtureRequest) -> Any:
    """Hosts of an agent that makes the same call six times, then answers."""
    model = ScriptedModel(replies=[*same(6), "found"])
    if request.param == "agent":
        return create_agent(model, TOOLS)
    return react(model, tools=by_hand if request.param == "by_hand" else None).compile()


def test_it_says_what_would_have_happened_and_changes_nothing(
    way: Way, looping: Any
) -> None:
    """The loop runs its course; the report names each rung that it came to."""
    watch = Watch()

    state = run(way, looping, watch)

    assert {m.text for m in results(state["messages"])} == {"no results"}
    assert executed == ["search x"] * 6
    kinds = [(action, "repeat") for action in ("reflect", "escalate", "exit")]
    assert actions(watch)[:3] == kinds
    assert watch.runs[-1].usage["model_calls"] == 7


def test_an_honest_run_would_have_been_left_alone(way: Way) -> None:
    """Nothing is reported of a run that makes progress."""
    replies = [[call("read", path="a"), call("read", path="b")], "found"]
    watch = Watch()

    run(way, create_agent(ScriptedModel(replies=replies), TOOLS), watch)

    assert actions(watch) == []
    assert (watch.runs[-1].halted, len(watch.runs)) == (None, 1)


def test_with_halt_the_run_ends_by_an_error(way: Way) -> None:
    """It carries the report, and the report of the run has it too."""
    watch = Watch(halt=True)

    with pytest.raises(LoopHaltedError, match="`search` was called") as stopped:
        run(way, create_agent(stubborn(), TOOLS), watch)

    assert stopped.value.report["kind"] == "repeat"
    assert watch.runs[-1].halted == stopped.value.report
    assert repr(stopped.value) == f"LoopHaltedError({str(stopped.value)!r})"
    assert len(executed) < 10


def subagent(inner: ScriptedModel, outer: ScriptedModel) -> Any:
    """An agent that is a tool of another one."""
    child = create_agent(inner, TOOLS)

    @tool
    def delegate(task: str) -> str:
        """Let the other agent do it."""
        return str(child.invoke(ask(task))["messages"][-1].text)

    return create_agent(outer, [delegate])


def test_a_subagent_is_judged_by_itself_and_counted_in_the_run(way: Way) -> None:
    """Its loop is found, and what it took is in the usage of the whole run."""
    inner = ScriptedModel(replies=[*same(4), "nothing"])
    outer = ScriptedModel(replies=[call("delegate", task="find it"), "found"])
    watch = Watch()

    run(way, subagent(inner, outer), watch)

    assert actions(watch) == [("reflect", "repeat"), ("escalate", "repeat")]
    assert watch.runs[-1].usage["model_calls"] == 7


def test_two_subagents_that_do_the_same_are_no_loop(way: Way) -> None:
    """What one has done does not count against the other."""
    inner = ScriptedModel(replies=[*same(2), "nothing"] * 3)
    asked = [call("delegate", task=task) for task in "abc"]
    watch = Watch()

    run(way, subagent(inner, ScriptedModel(replies=[*asked, "found"])), watch)

    assert actions(watch) == []


def test_the_budget_spans_the_subagents(way: Way) -> None:
    """Their model calls use up what the run is allowed."""
    inner = ScriptedModel(default=call("read", path="a"))
    outer = ScriptedModel(replies=[call("delegate", task="find it")])
    watch = Watch(Policy(budget=Budget(model_calls=3)), halt=True)

    with pytest.raises(LoopHaltedError, match="3 model calls"):
        run(way, subagent(inner, outer), watch)

    assert len(inner.requests) == 2


def test_a_chain_without_a_graph_can_be_stopped() -> None:
    """Any loop around a model and tools is a run, if it runs in a runnable."""
    model = ScriptedModel(default=call("search", query="x"))

    def loop(text: str) -> None:
        messages: list[Any] = [HumanMessage(text)]
        while True:
            reply = model.invoke(messages)
            found = [TOOLS[0].invoke(asked) for asked in reply.tool_calls]
            messages += [reply, *found]

    with pytest.raises(LoopHaltedError):
        RunnableLambda(loop).invoke("go", {"callbacks": [Watch(halt=True)]})


def test_tools_that_no_model_asked_for_are_steps() -> None:
    """A loop of them is found, though nothing can stop it."""

    def loop(_: str) -> None:
        for _ in range(5):
            TOOLS[0].invoke({"query": "x"})

    watch = Watch()
    RunnableLambda(loop).invoke("go", {"callbacks": [watch]})

    assert ("reflect", "repeat") in actions(watch)
    assert watch.runs[-1].usage == {}


def test_a_tool_that_raises_is_an_error_of_that_step() -> None:
    """The same error again and again is a loop."""

    @tool
    def fetch(n: int) -> str:
        """Fetch."""
        raise ValueError("unknown field `n`")

    replies = [call("fetch", n=n) for n in range(6)]
    model = ScriptedModel(replies=[*replies, "nothing"])

    def loop(_: str) -> None:
        messages: list[Any] = [HumanMessage("go")]
        while (reply := model.invoke(messages)).tool_calls:
            try:
                fetch.invoke(reply.tool_calls[0])
            except ValueError as error:
                found = {"role": "tool", "content": str(error)}
                id_ = reply.tool_calls[0]["id"]
                messages += [reply, {**found, "tool_call_id": id_}]

    watch = Watch()
    RunnableLambda(loop).invoke("go", {"callbacks": [watch]})

    assert actions(watch)[0] == ("reflect", "recurring_error")


def test_a_person_who_speaks_starts_afresh(way: Way) -> None:
    """The past of the thread is known, and is no loop in the new run."""
    model = ScriptedModel(replies=[*same(2), "found"] * 2)
    agent, watch = create_agent(model, TOOLS), Watch()
    state = run(way, agent, watch)

    run(way, agent, watch, {"messages": [*state["messages"], ("user", "again")]})

    assert [len(seen.would) for seen in watch.runs] == [0, 0]


def test_a_run_that_is_resumed_is_the_same_run() -> None:
    """What the model is shown tells what came before the interrupt."""
    model = ScriptedModel(replies=[*same(3), "found"])
    saver = InMemorySaver()
    agent = create_agent(model, TOOLS, interrupt_before=["tools"], checkpointer=saver)
    watch = Watch()
    for given in (ask(), None, None, None):
        agent.invoke(given, {**THREAD, "callbacks": [watch]})

    assert [len(seen.would) for seen in watch.runs] == [0, 0, 0, 1]


def test_many_runs_at_once_do_not_mix() -> None:
    """One object tells them apart, and keeps the newest reports."""
    watch = Watch(keep=3)

    async def runs() -> None:
        config: Any = {"callbacks": [watch]}
        models = [ScriptedModel(replies=[*same(2), "a"]) for _ in range(5)]
        each = [create_agent(model, TOOLS).ainvoke(ask(), config) for model in models]
        await asyncio.gather(*each)

    asyncio.run(runs())

    assert [len(seen.would) for seen in watch.runs] == [0, 0, 0]


def test_a_model_of_texts_is_counted() -> None:
    """Its tokens are estimated, as it does not say."""
    watch = Watch()

    FakeListLLM(responses=["a"]).invoke("say a", {"callbacks": [watch]})

    usage = watch.runs[-1].usage
    assert (usage["model_calls"], usage["estimated"]) == (1, 1)


def test_a_model_that_fails_is_not_counted() -> None:
    """Nothing is left of the call."""
    watch, model = Watch(), ScriptedModel(replies=[ConnectionError("down")])

    with pytest.raises(ConnectionError):
        model.invoke("go", {"callbacks": [watch]})

    assert watch.runs[-1].usage == {}


def test_observers_hear_of_each_turn(way: Way) -> None:
    """They are told the agent's node and what was found."""
    told: list[tuple[str, str]] = []

    def note(event: GuardEvent) -> None:
        told.append((event.name, event.agent))

    agent = create_agent(ScriptedModel(replies=[*same(3), "found"]), TOOLS)
    run(way, agent, Watch(observers=note))

    assert told.count(("detected", "model")) == 1


def test_a_fault_in_the_callback_does_not_reach_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, with `halt` as well."""
    broken = LLMResult.model_construct(generations=[[3]])
    watch, id_ = Watch(halt=True), uuid4()
    watch.on_chat_model_start({}, [[HumanMessage("go")]], run_id=id_)

    watch.on_llm_end(broken, run_id=id_)

    assert "the callback failed" in caplog.text


def test_runs_whose_end_is_not_heard_are_forgotten() -> None:
    """Memory is bounded where only a model has the callback."""
    watch = Watch()
    for _ in range(300):
        parent = uuid4()
        watch.on_chat_model_start(
            {}, [[HumanMessage("go")]], run_id=uuid4(), parent_run_id=parent
        )

    assert len(watch.runs) == 32


class Asking(BaseRetriever):
    """A retriever that asks a model for its queries."""

    model: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        self.model.invoke(query, {"callbacks": run_manager.get_child()})
        return []


def test_nothing_is_kept_of_a_run_that_was_halted(way: Way) -> None:
    """Its last model call was begun, and nothing is told of its end."""
    watch = LoopGuardCallback(halt=True)

    with pytest.raises(LoopHaltedError):
        run(way, react(stubborn()).compile(), watch)

    kept = [name for name, value in vars(watch).items() if isinstance(value, dict)]
    assert kept
    assert not any(getattr(watch, name) for name in kept)


def test_a_model_inside_a_retriever_is_part_of_the_run() -> None:
    """It is counted with what is around."""
    watch, model = Watch(), ScriptedModel(default="well")
    chain = Asking(model=model) | RunnableLambda(lambda _: model.invoke("go"))

    chain.invoke("find it", {"callbacks": [watch]})

    assert [seen.usage["model_calls"] for seen in watch.runs] == [2]


def test_a_retriever_that_fails_ends_its_run() -> None:
    """Nothing of it is kept as if it went on."""
    watch = Watch()
    retriever = Asking(model=ScriptedModel(replies=[ConnectionError("down")]))

    with pytest.raises(ConnectionError):
        retriever.invoke("find it", {"callbacks": [watch]})

    assert len(watch.runs) == 1
