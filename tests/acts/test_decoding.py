from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import (
    Budget,
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
)
from loopguard_lg.acts import decoding
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.ladder import Rung
from loopguard_lg.testing.doubles import Request, ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, guarded, last

LOOP = call("search", query="x")
OTHER = call("read", path="answer")


def policy(*rungs: Rung, **settings: Any) -> Policy:
    """A policy with these rungs before the exit."""
    return Policy(ladder=Ladder(*rungs, GiveUp()), **settings)


def looping(gets_on: Callable[[Request], bool]) -> ScriptedModel:
    """A model that searches in vain until a request is of another kind; then it reads
    the answer and is done.
    """
    model: ScriptedModel

    def reply(messages: list[BaseMessage]) -> Any:
        if any("contents of answer" in m.text for m in messages):
            return "found"
        return OTHER if gets_on(model.requests[-1]) else LOOP

    model = ScriptedModel(default=reply, temperature=0.0)
    return model


def ends(way: Way, model: ScriptedModel, *rungs: Rung, **settings: Any) -> str:
    """The last words of a guarded run."""
    return last(way(guarded(model, policy(*rungs), **settings), ask(), THREAD)).text


def is_warm(request: Request) -> bool:
    """Whether the temperature is high enough for another idea."""
    return (request.temperature or 0) >= 0.7


def has_no_search(request: Request) -> bool:
    """Whether the looping tool is left out."""
    return "search" not in request.tool_names


def has_no_write(request: Request) -> bool:
    """Whether only reading is left."""
    return "write" not in request.tool_names


@pytest.mark.parametrize(
    ("rung", "gets_on"),
    [
        (Reflect(temperature=0.9), is_warm),
        (Escalate(temperature=0.9), is_warm),
        (Reflect(hide_tool=True), has_no_search),
        (Escalate(hide_tool=True), has_no_search),
        (Reflect(reading_only=2), has_no_write),
        (Escalate(reading_only=2), has_no_write),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value)[:28],
)
def test_an_option_gets_an_agent_on(way: Way, rung: Any, gets_on: Any) -> None:
    """On a plain rung of the same kind the same agent loops to the exit."""
    assert ends(way, looping(gets_on), rung) == "found"
    assert "I stopped" in ends(way, looping(gets_on), type(rung)())


def test_a_run_that_does_not_loop_is_left_alone(way: Way) -> None:
    """All its requests are what they are without the options."""
    options: Any = {"temperature": 0.9, "samples": 3, "reading_only": 2}
    requests = []
    for rung in (Reflect(hide_tool=True, **options), Reflect()):
        model = ScriptedModel(replies=[OTHER, call("write", path="a", text="x"), "k"])
        way(guarded(model, policy(rung)), ask(), THREAD)
        requests.append(
            [(r.temperature, r.tool_names, len(r.messages)) for r in model.requests]
        )

    assert requests[0] == requests[1]


def temperatures(model: ScriptedModel) -> list[float | None]:
    """The temperature of each request."""
    return [request.temperature for request in model.requests]


def test_a_reflection_warms_one_turn() -> None:
    """The turn after it is as cold as before."""
    other = call("read", path="b")
    model = ScriptedModel(replies=[LOOP] * 3 + [other, "done"], temperature=0.0)
    guarded(model, policy(Reflect(temperature=0.9))).invoke(ask(), THREAD)

    assert temperatures(model) == [0, 0, 0, 0.9, 0]


def test_an_escalation_warms_its_turns() -> None:
    """Until it is over, or there is progress."""
    model = ScriptedModel(replies=[LOOP] * 6 + ["done"], temperature=0.0)
    rung = Escalate(temperature=0.9, turns=2, patience=9)
    guarded(model, policy(rung)).invoke(ask(), THREAD)

    assert temperatures(model)[3:6] == [0.9, 0.9, 0]


class Cold(ScriptedModel):
    """A model that takes no temperature."""

    def _reply(
        self, messages: list[BaseMessage], streamed: bool, settings: dict[str, Any]
    ) -> AIMessage:
        if settings.get("temperature"):
            raise ValueError("temperature is not supported by this model")
        return super()._reply(messages, streamed, settings)


def test_a_model_that_takes_no_temperature_goes_on_without(way: Way) -> None:
    """The option fails, not the run."""
    model = Cold(replies=[LOOP] * 3 + [OTHER, "found"])

    assert ends(way, model, Reflect(temperature=0.9)) == "found"


def sampler(*replies: Any) -> ScriptedModel:
    """A model that loops three times, and then says these one by one."""
    return ScriptedModel(replies=[*[LOOP] * 3, *replies], default="done")


def longest(messages: Sequence[BaseMessage], reply: AIMessage) -> float:
    """A verifier: the longest path is best."""
    return max([len(c["args"].get("path", "")) for c in reply.tool_calls], default=0)


async def along(messages: Sequence[BaseMessage], reply: AIMessage) -> float:
    """The same on an event loop."""
    return longest(messages, reply)


PATHS = [call("read", path=path) for path in ("a", "answer", "b")]


def test_a_verifier_picks_one_reply(way: Way) -> None:
    """The calls of the others are never made."""
    rung = Reflect(samples=3, verifier=longest)
    ends(way, sampler(*PATHS), rung)

    assert executed[3:] == ["read answer"]


def test_a_verifier_may_be_a_coroutine() -> None:
    """In runs on an event loop."""
    from tests.middleware.runs import ainvoke

    ends(ainvoke, sampler(*PATHS), Reflect(samples=3, verifier=along))

    assert executed[3:] == ["read answer"]


def test_without_a_verifier_the_first_that_repeats_nothing_is_taken(way: Way) -> None:
    """A call that was tried before is passed over, and so is silence."""
    ends(way, sampler(LOOP, "", OTHER), Reflect(samples=3))

    assert executed[3:] == ["read answer"]


def test_a_reply_that_can_not_be_carried_out_is_passed_over(way: Way) -> None:
    """One that calls a tool which is left out would be refused."""
    write = call("write", path="a", text="x")
    ends(way, sampler(write, OTHER), Reflect(samples=2, reading_only=1))

    assert executed[3:] == ["read answer"]


def test_samples_get_an_agent_on(way: Way) -> None:
    """An agent that has the right idea once in three times."""
    tries = [LOOP, LOOP, OTHER]

    assert ends(way, sampler(*tries, "found"), Reflect(samples=3)) == "found"
    assert "I stopped" in ends(way, sampler(*tries), Reflect())


def test_a_verifier_that_fails_costs_its_vote(way: Way) -> None:
    """The run goes on with the first reply."""

    def broken(messages: Any, reply: Any) -> float:
        raise RuntimeError("no")

    ends(way, sampler(*PATHS), Reflect(samples=3, verifier=broken))

    assert executed[3:] == ["read a"]


def test_a_sample_that_fails_leaves_those_before_it(way: Way) -> None:
    """One reply is enough; the first one has to come."""
    ends(way, sampler(LOOP, OTHER, ConnectionError("down")), Reflect(samples=4))

    assert executed[3:] == ["read answer"]


def used(agent: Any) -> dict[str, Any]:
    """What the run has used."""
    spent: dict[str, Any] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


def test_all_samples_are_paid_for(way: Way) -> None:
    """Each is a model call of the budget, with its tokens."""
    model = sampler(*PATHS)
    agent = guarded(model, policy(Reflect(samples=3)), checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)

    assert used(agent)["model_calls"] == len(model.requests) == 7


def test_a_budget_of_calls_limits_the_samples(way: Way) -> None:
    """No more are asked for than there is room for."""
    model = sampler(*PATHS)
    settings = policy(Reflect(samples=3), budget=Budget(model_calls=5, warn=1))
    way(guarded(model, settings), ask(), THREAD)

    assert len(model.requests) == 5


def streamed(agent: Any) -> str:
    """All text that a stream of messages shows."""
    chunks = agent.stream(ask(), THREAD, stream_mode="messages")
    return "".join(chunk.text for chunk, _ in chunks)


def test_what_was_not_taken_is_not_streamed() -> None:
    """The reply that was is in the stream, once."""

    def prefers(messages: Any, reply: AIMessage) -> bool:
        return reply.text == "right"

    rung = Reflect(samples=2, verifier=prefers)
    text = streamed(guarded(sampler("wrong", "right"), policy(rung)))

    assert text.count("right") == 1
    assert "wrong" not in text


def test_a_hidden_tool_is_refused_all_the_same(way: Way) -> None:
    """A model can call from memory what it is not offered."""
    model = ScriptedModel(replies=[*[LOOP] * 3, call("search", query="y")], default="k")
    state = way(guarded(model, policy(Reflect(hide_tool=True))), ask(), THREAD)

    assert "is not there in this turn" in state["messages"][-2].text
    assert executed == ["search x"] * 3


def test_reading_only_refuses_to_write_in_graphs_too(way: Way) -> None:
    """There it holds where calls are made, as the node has its own model."""
    write = call("write", path="a", text="x")
    model = ScriptedModel(replies=[*[LOOP] * 3, write, OTHER, write], default="done")
    builder = graphs.react(model)
    graphs.run(way, graphs.guarded(builder, policy(Reflect(reading_only=2))))

    assert executed[3:] == ["read answer", "write a"]


def test_a_graph_refuses_what_only_a_middleware_can_do() -> None:
    """Its node calls the model by itself."""
    for rung in (Reflect(temperature=0.5), Escalate(samples=2)):
        with pytest.raises(PolicyError, match=r"in a graph the node calls its model"):
            graphs.guarded(graphs.react(sampler()), policy(rung))


class Forces(AgentMiddleware[Any, Any]):
    """An app that forces a tool."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Force the search."""
        return handler(request.override(tool_choice="search"))


@pytest.mark.parametrize("lifts", [True, False])
def test_a_forced_choice_is_lifted_unless_told_otherwise(lifts: bool) -> None:
    """What the app forces is what makes the loop."""
    model = ScriptedModel(replies=[LOOP] * 3, default="done")
    guard = LoopGuardMiddleware(policy(Reflect(lift_tool_choice=lifts)))
    agent = create_agent(model, TOOLS, middleware=[Forces(), guard])
    agent.invoke(ask(), THREAD)

    forced = [request.tool_choice is not None for request in model.requests]
    assert forced == [True, True, True, not lifts]


def test_a_second_escalation_goes_another_way_and_knows_the_first() -> None:
    """The scratchpad names the branch that was left and how it was tried."""
    seen: list[GuardEvent] = []
    first, second = Escalate(temperature=0.4), Escalate(temperature=0.8)
    model = ScriptedModel(default=LOOP)
    settings = policy(first, second)
    agent = guarded(
        model, settings, observers=[seen.append], checkpointer=InMemorySaver()
    )
    agent.invoke(ask(), THREAD)

    warm = [t for t in temperatures(model) if t]
    pad = agent.get_state(THREAD).values["loopguard"]["pad"]
    assert (warm[0], warm[-1]) == (0.4, 0.8)
    assert pad["branches"][-1].endswith("(temperature 0.4)")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("temperature", -1, "a number of at least 0"),
        ("temperature", "hot", "a number of at least 0"),
        ("samples", 0, "a whole number of at least 1"),
        ("reading_only", -1, "a whole number of at least 0"),
        ("hide_tool", 1, "give True or False"),
        ("verifier", "best", "a function of"),
    ],
)
@pytest.mark.parametrize("rung", [Reflect, Escalate])
def test_a_wrong_option_is_refused(
    rung: Any, name: str, value: Any, wanted: str
) -> None:
    """With its name, its value and what would be right."""
    with pytest.raises(PolicyError, match=rf"{rung.__name__}\.{name}=.*{wanted}"):
        rung(**{name: value})


ROLES = st.sampled_from(["read", "write", "other", "exit", "plan", "poll"])


@given(
    roles=st.dictionaries(st.text(max_size=2), ROLES, max_size=6),
    reads=st.booleans(),
    hidden=st.text(max_size=2),
)
def test_there_is_always_a_tool_to_act_with(
    roles: Any, reads: bool, hidden: str
) -> None:
    """Nothing is left out where only leaving would be left."""
    way = decoding.Decoding(reads=reads, hidden=hidden)
    left = decoding.offered(way, roles)

    assert left <= {*roles}
    if left != {*roles}:
        assert {roles[name] for name in left} & {"read", "write", "other", "poll"}
        assert hidden not in left
