from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema_rs import Draft202012Validator
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from pydantic import TypeAdapter

from loopguard_lg import AskUser, Budget, LoopGuardMiddleware, Policy, guard_graph
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
    results,
    same,
)
from tests.multi.restarted import looping_agent, run_first_half
from tests.multi.teams import child, delegate_to, parent

ASKS = Policy(leave_tools=("ask_user",))


def asking(policy: Policy | None = None, model: Any = None) -> Any:
    """An agent that loops until it asks a person."""
    model = model or ScriptedModel(replies=[call("read", path="a")], default=same(1)[0])
    saver = InMemorySaver()
    return guarded(model, policy or laddered(end=AskUser()), checkpointer=saver)


def question(agent: Any, config: Any = THREAD) -> dict[str, Any]:
    """The value of the one interrupt that is open."""
    (pending,) = agent.get_state(config).interrupts
    value: dict[str, Any] = pending.value
    return value


def decided(kind: str, **more: Any) -> Any:
    """An answer as an inbox sends it."""
    return Command(resume={"decisions": [{"type": kind, **more}]})


def test_the_payload_has_the_shape_of_the_hosts_own_requests() -> None:
    """An inbox for LangChain's human-in-the-loop requests can show it."""
    agent = asking()
    agent.invoke(ask(), THREAD)

    payload = question(agent)

    shape = TypeAdapter(HITLRequest).validate_python(payload)
    (action,) = shape["action_requests"]
    assert action["name"] == shape["review_configs"][0]["action_name"] == "ask_user"
    assert "search" in action["description"]
    assert payload["report"]["ruled_out"]


ANSWERS: list[Any] = [
    "look elsewhere",
    {"choice": "hint", "text": "look elsewhere"},
    {"decisions": [{"type": "respond", "message": "look elsewhere"}]},
    {
        "decisions": [
            {
                "type": "edit",
                "edited_action": {
                    "name": "ask_user",
                    "args": {"choice": "hint", "text": "look elsewhere"},
                },
            }
        ]
    },
]


@pytest.mark.parametrize("answer", ANSWERS, ids=["text", "choice", "respond", "edit"])
def test_every_shape_of_a_hint_is_read_by_the_model(answer: Any) -> None:
    """What a person wrote is the result of the question, and fits the schema."""
    agent = asking()
    agent.invoke(ask(), THREAD)
    Draft202012Validator(question(agent)["answer_schema"]).validate(answer)

    state = agent.invoke(Command(resume=answer), THREAD)

    answers = [m.text for m in results(state["messages"]) if m.name == "ask_user"]
    assert answers[0].endswith("look elsewhere")


@pytest.mark.parametrize("edited", ["left", ["left"], {"args": "left"}, {"args": 1}])
def test_an_edit_of_another_shape_is_read_as_it_is(edited: Any) -> None:
    """A form's mistake ends no run."""
    agent = asking(model=loops_until("left", "went left"))
    agent.invoke(ask(), THREAD)

    answer = {"type": "edit", "edited_action": edited}
    state = agent.invoke(Command(resume=answer), THREAD)

    answers = [m.text for m in results(state["messages"]) if m.name == "ask_user"]
    assert "edited_action" in answers[0]


def test_answers_that_do_not_fit_the_schema_are_told_apart() -> None:
    """The schema names the choices, so that a form can be made from it."""
    agent = asking()
    agent.invoke(ask(), THREAD)
    valid = Draft202012Validator(question(agent)["answer_schema"]).is_valid

    assert question(agent)["choices"] == ["hint", "rollback", "stop"]
    assert valid({"choice": "stop"})
    assert not valid({"choice": "change_model"})
    assert not valid({"decisions": []})


@pytest.mark.parametrize(
    "answer",
    [{"choice": "stop"}, {"decisions": [{"type": "reject", "message": "enough"}]}],
    ids=["choice", "reject"],
)
def test_a_person_can_stop_the_run(answer: Any, way: Way) -> None:
    """Stopping and rejecting end it with the report."""
    agent = asking()
    way(agent, ask(), THREAD)

    state = way(agent, Command(resume=answer), THREAD)

    assert state["loopguard_exit"]["reason"] == "gave_up"
    assert not last(state).tool_calls


def test_a_person_can_have_the_run_go_back(way: Way) -> None:
    """The loop is out of the model's view, the work before it and the answer stay."""
    model = ScriptedModel(replies=[call("read", path="a"), *same(11)], default="found")
    agent = asking(model=model)
    way(agent, ask(), THREAD)
    asked = len(model.requests)

    way(agent, Command(resume={"choice": "rollback", "text": "try tags"}), THREAD)

    shown = model.requests[asked].messages
    assert [c["name"] for m in shown for c in getattr(m, "tool_calls", ())] == [
        "read",
        "ask_user",
    ]
    assert shown[-1].text == "rollback: try tags"


def test_a_person_can_change_the_model(way: Way) -> None:
    """The stronger model of the ladder goes on."""
    strong = ScriptedModel(replies=same(2), default="found by the strong one")
    agent = asking(laddered(strong, AskUser(), turns=2), loops_until("never"))
    way(agent, ask(), THREAD)
    offered = question(agent)["choices"]

    state = way(agent, Command(resume={"choice": "change_model"}), THREAD)

    assert "change_model" in offered
    assert last(state).text == "found by the strong one"


@pytest.mark.parametrize("choice", ["rollbak", "raise_budget", "change_model", 7])
def test_an_unknown_choice_is_no_hint(choice: Any, way: Way) -> None:
    """The person is asked again, and the model reads only what was meant."""
    agent = asking(model=loops_until("left", "went left"))
    way(agent, ask(), THREAD)
    way(agent, Command(resume={"choice": choice}), THREAD)
    again = question(agent)

    state = way(agent, Command(resume="left"), THREAD)

    assert f"'{choice}' was not carried out" in again["question"]
    assert "`hint`, `rollback`, `stop`" in again["action_requests"][0]["description"]
    assert last(state).text == "went left"


@wrap_tool_call
def absent(request: Any, handler: Any) -> ToolMessage:
    """Answers questions in a person's place, without a choice."""
    if request.tool_call["name"] != "ask_user":
        return cast(ToolMessage, handler(request))
    return ToolMessage("nobody is here", tool_call_id=request.tool_call["id"])


def test_what_another_middleware_answers_spends_nothing() -> None:
    """Where nobody can be asked again, the run ends."""
    policy = laddered(end=AskUser()).replace(budget=Budget(tool_calls=2))
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(9)])
    middleware: list[Any] = [absent, LoopGuardMiddleware(policy)]
    saver = InMemorySaver()
    agent = create_agent(model, TOOLS, middleware=middleware, checkpointer=saver)

    state = agent.invoke(ask(), THREAD)

    assert len(executed) == 2
    assert "did not choose to raise it" in state["loopguard_exit"]["detail"]


def test_several_threads_ask_and_are_answered_apart(way: Way) -> None:
    """Each answer goes to its own thread, in any order."""
    agent = asking(model=loops_until("left", "went left"))
    threads = [{"configurable": {"thread_id": word}} for word in ("a", "b")]
    for thread in threads:
        way(agent, ask(), thread)

    state = way(agent, Command(resume="left"), threads[1])

    assert last(state).text == "went left"
    assert question(agent, threads[0])["type"] == "loopguard_ask_user"


def test_a_question_is_answered_after_a_restart(tmp_path: Path) -> None:
    """Another process, days later, knows the question and goes on from the answer."""
    run_first_half(tmp_path / "t.db", "loop")

    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        agent = looping_agent(saver)
        asked = question(agent)
        state = agent.invoke(Command(resume="left"), THREAD)

    assert asked["report"]["reason"] == "loop"
    assert last(state).text == "went left"


def test_a_child_asks_through_its_parent(way: Way) -> None:
    """The question of a guarded child in a tool reaches the thread, and back."""
    inner = child([], laddered(end=AskUser()), model=loops_until("left", "went left"))
    agent = parent(
        [call("delegate", task="a"), "found"],
        [delegate_to(inner)],
        checkpointer=InMemorySaver(),
    )
    way(agent, ask(), THREAD)
    asked = question(agent)

    state = way(agent, Command(resume="left"), THREAD)

    assert asked["report"]["agent"] == "inner"
    assert results(state["messages"])[0].text == "went left"


def test_two_children_ask_at_once_and_are_answered_apart() -> None:
    """Answers by id find the child that asked."""
    inner = child([], laddered(end=AskUser()), model=loops_until("left", "went left"))
    batch = [call("delegate", task=word) for word in "ab"]
    agent = parent([batch, "found"], [delegate_to(inner)], checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    first, second = agent.get_state(THREAD).interrupts
    agent.invoke(Command(resume={first.id: "left"}), THREAD)

    state = agent.invoke(Command(resume={second.id: "left"}), THREAD)

    assert [m.text for m in results(state["messages"])] == ["went left"] * 2


def test_the_models_own_question_offers_words_alone(way: Way) -> None:
    """There is nothing to stop or to raise; an inbox answers it with a text."""
    model = ScriptedModel(replies=[call("ask_user", question="where?"), "found"])
    agent = asking(ASKS, model)
    way(agent, ask(), THREAD)
    payload = question(agent)

    state = way(agent, decided("respond", message="in the attic"), THREAD)

    assert payload["review_configs"][0]["allowed_decisions"] == ["respond"]
    assert results(state["messages"])[0].text == "in the attic"


def asking_graph(strong: Any) -> Any:
    """A hand-written graph that loops until it asks, with a stronger model."""
    weak = ScriptedModel(replies=[call("read", path="a")], default=same(1)[0])
    bound = weak.bind_tools(TOOLS)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda s: {"messages": [bound.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    policy = laddered(strong, AskUser(), turns=2)
    guarded = guard_graph(builder, policy, model="agent", tools="tools")
    return guarded.compile(checkpointer=InMemorySaver()), weak


def test_a_graph_asks_in_the_same_shape_and_changes_the_model(way: Way) -> None:
    """The node that asks takes the same answers; the stronger node goes on."""
    strong = ScriptedModel(replies=same(2), default="found by the strong one")
    graph, _ = asking_graph(strong)
    way(graph, ask(), THREAD)
    payload = question(graph)

    state = way(graph, Command(resume={"choice": "change_model"}), THREAD)

    TypeAdapter(HITLRequest).validate_python(payload)
    assert "change_model" in payload["choices"]
    assert last(state).text == "found by the strong one"


def test_a_graph_goes_back_where_a_person_says_so() -> None:
    """The loop is out of the view of the model's node."""
    graph, weak = asking_graph(ScriptedModel(default=same(1)[0]))
    graph.invoke(ask(), THREAD)
    asked = len(weak.requests)

    graph.invoke(Command(resume={"choice": "rollback"}), THREAD)

    shown = weak.requests[asked].messages
    names = [c["name"] for m in shown for c in getattr(m, "tool_calls", ())]
    assert names == ["read", "ask_user"]


def test_an_agent_as_a_node_asks_through_its_graph(way: Way) -> None:
    """A graph without a guard carries the question out, and the answer in."""
    worker = child([], laddered(end=AskUser()), model=loops_until("left", "went left"))
    builder = StateGraph(MessagesState)
    builder.add_node("worker", worker)
    builder.add_edge(START, "worker")
    graph = builder.compile(checkpointer=InMemorySaver())
    way(graph, ask(), THREAD)

    state = way(graph, Command(resume="left"), THREAD)

    assert last(state).text == "went left"
