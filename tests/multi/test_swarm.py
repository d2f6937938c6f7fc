from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm

from loopguard_lg import Budget, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, last, notes

OTHER = {"alice": "bob", "bob": "alice"}


def member(name: str, model: Any, policy: Policy | None) -> Any:
    """An agent that may hand over to the other one, with a guard of its own."""
    handoff = create_handoff_tool(agent_name=OTHER[name])
    guard = LoopGuardMiddleware(policy, name=f"guard_of_{name}")
    return create_agent(model, [*TOOLS, handoff], middleware=[guard], name=name)


def swarm(
    replies: dict[str, list[Any]], policy: Policy | None = None
) -> tuple[Any, dict[str, ScriptedModel]]:
    """Two agents that hand over to each other, each guarded separately."""
    models = {
        name: ScriptedModel(
            replies=replies.get(name, ()), default=call(f"transfer_to_{other}")
        )
        for name, other in OTHER.items()
    }
    agents = [member(name, model, policy) for name, model in models.items()]
    built = create_swarm(agents, default_active_agent="alice")
    return built.compile(checkpointer=InMemorySaver()), models


def calls(models: dict[str, ScriptedModel]) -> int:
    """Model calls of all agents."""
    return sum(len(model.requests) for model in models.values())


def test_ping_pong_is_caught_across_agents_that_are_guarded_apart(way: Way) -> None:
    """Each guard reads what the others did off the messages that they share."""
    app, models = swarm({})

    state = way(app, ask(), THREAD)

    report = last(state).response_metadata["loopguard_exit"]
    assert report["reason"] == "loop"
    assert report["kind"] in ("ping_pong", "oscillation")
    assert calls(models) < 12


def test_the_agent_is_told_before_the_run_is_ended(way: Way) -> None:
    """The first trigger is a note, on which the agent may do something else."""
    app, models = swarm({})
    way(app, ask(), THREAD)

    told = [text for model in models.values() for text in notes(model) if text]

    assert "handed over to each other" in told[0]


def test_a_call_that_two_agents_repeat_by_turns_is_a_loop(way: Way) -> None:
    """Two tries of each, with the same result for both."""
    same = [call("search", query="x")] * 2
    replies = {"alice": [*same, call("transfer_to_bob")], "bob": [*same, "done"]}
    app, models = swarm(replies)

    way(app, ask(), THREAD)

    (told,) = filter(None, notes(models["bob"]))
    assert "`search` was called 4 times" in told
    assert not any(notes(models["alice"]))


def test_work_between_hand_overs_is_no_ping_pong(way: Way) -> None:
    """Two agents that each do a part are left alone."""
    replies: dict[str, list[Any]] = {"alice": [], "bob": []}
    for n in range(4):
        replies["alice"] += [call("read", path=f"a{n}"), call("transfer_to_bob")]
        replies["bob"] += [call("read", path=f"b{n}"), call("transfer_to_alice")]
    replies["alice"].append("done")
    app, models = swarm(replies)

    state = way(app, ask(), THREAD)

    assert last(state).text == "done"
    assert not any(text for model in models.values() for text in notes(model))


def test_a_budget_of_hand_overs_spans_the_swarm(way: Way) -> None:
    """Whose turn it is makes no difference to what the run has used."""
    replies = {
        name: [
            part
            for n in range(9)
            for part in (call("read", path=f"{name}{n}"), call(f"transfer_to_{other}"))
        ]
        for name, other in OTHER.items()
    }
    app, _ = swarm(replies, Policy(budget=Budget(handoffs=3)))

    state = way(app, ask(), THREAD)

    report = last(state).response_metadata["loopguard_exit"]
    assert report["budget"] == "handoffs"
    assert len(executed) == 3


def test_a_budget_of_tokens_spans_the_swarm() -> None:
    """What the other agents took is in their messages."""
    app, models = swarm({}, Policy(budget=Budget(model_calls=3), detectors=()))

    state = app.invoke(ask(), THREAD)

    assert last(state).response_metadata["loopguard_exit"]["budget"] == "model_calls"
    assert calls(models) == 3


def test_a_new_word_of_a_person_begins_a_new_run(way: Way) -> None:
    """The thread goes on with fresh budgets after the exit, with a valid history."""
    policy = Policy(ladder=Ladder(Reflect(), GiveUp()))
    app, models = swarm({}, policy)
    way(app, ask(), THREAD)
    for model in models.values():
        model._script.default = "hello"

    state = way(app, ask("hi"), THREAD)

    validate_history(state["messages"][:-1])
    assert last(state).text == "hello"
    assert "loopguard_exit" not in last(state).response_metadata


def test_a_task_that_goes_round_is_caught(way: Way) -> None:
    """Three agents that pass it on make no pair, but nothing is done either."""
    ring = {"alice": "bob", "bob": "carol", "carol": "alice"}
    models = {
        name: ScriptedModel(default=call(f"transfer_to_{other}"))
        for name, other in ring.items()
    }
    agents = [
        create_agent(
            models[name],
            [*TOOLS, create_handoff_tool(agent_name=other)],
            middleware=[LoopGuardMiddleware(name=f"guard_of_{name}")],
            name=name,
        )
        for name, other in ring.items()
    ]
    app = create_swarm(agents, default_active_agent="alice").compile()

    state = way(app, ask(), {"recursion_limit": 100})

    assert last(state).response_metadata["loopguard_exit"]["reason"] == "loop"
    assert calls(models) < 20


def test_a_hand_over_beside_other_calls_leaves_none_unanswered(way: Way) -> None:
    """Their results stay behind in the agent that is left; the others read that."""
    batch = [call("search", query="x"), call("transfer_to_bob"), call("read", path="a")]
    app, models = swarm({"alice": [batch], "bob": ["done"]})

    state = way(app, ask(), THREAD)

    validate_history([*state["messages"], ("user", "and now?")])
    texts = [m.text for m in models["bob"].requests[0].messages[2:]]
    assert [text.startswith("No result") for text in texts] == [True, False, True]
