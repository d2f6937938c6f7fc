from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from loopguard_lg import AskUser, Budget, Ladder, LoopGuardMiddleware, Policy
from loopguard_lg.adapters.graph import guard_graph
from loopguard_lg.budgets import Price
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet import Balance, Fleet, FleetBudget, MemoryLedger
from loopguard_lg.fleet.limits import claims
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import TOOLS, WAYS, Way, ask, guarded, laddered, last

NOW = 1_700_000_000.0
CALLS = FleetBudget(Budget(model_calls=3), per="tenant")


def of(tenant: str = "acme", thread: str = "t") -> dict[str, Any]:
    """The config of a tenant's run."""
    return {"configurable": {"thread_id": thread, "tenant": tenant}}


def drawing(
    budgets: Any = CALLS, ledger: Any = None, **settings: Any
) -> tuple[Fleet, MemoryLedger]:
    """A fleet with a ledger in memory, and that."""
    ledger = ledger or MemoryLedger()
    return Fleet(ledger, budgets, clock=lambda: NOW, **settings), ledger


def stands(ledger: Any, budget: FleetBudget = CALLS, tenant: str = "acme") -> Balance:
    """What stands under the first limit of a budget."""
    labels = {"tenant": tenant, "model": "scripted"}
    return ledger.balance(claims([budget], labels, {}, NOW)[0].key, NOW)


def working() -> ScriptedModel:
    """A model that always has something new to read."""
    return ScriptedModel(
        default=lambda messages: call("read", path=f"file {len(messages)}")
    )


def agent(fleet: Fleet, model: Any = None, policy: Any = None, **settings: Any) -> Any:
    """An agent that draws from a fleet's budgets."""
    guard = LoopGuardMiddleware(policy, fleet=fleet)
    return create_agent(model or working(), TOOLS, middleware=[guard], **settings)


def graph(fleet: Fleet, model: Any = None) -> Any:
    """The same as a graph of one's own."""
    model = (model or working()).bind_tools(TOOLS)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition, ["tools", END])
    builder.add_edge("tools", "agent")
    return guard_graph(builder, model="agent", tools="tools", fleet=fleet).compile()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [agent, graph])
def test_a_run_ends_where_the_fleet_s_budget_is_out(make: Any, way: Way) -> None:
    """The exit names the fleet's limit and whose it is, and all calls are counted."""
    fleet, ledger = drawing()
    report = last(way(make(fleet), ask(), of())).response_metadata["loopguard_exit"]

    assert (report["reason"], report["budget"]) == ("budget", "fleet:model_calls")
    assert "3 model calls for tenant 'acme', day 2023-11-14" in report["detail"]
    assert stands(ledger) == Balance(spent=3)


@pytest.mark.parametrize("make", [agent, graph])
def test_another_run_of_the_tenant_finds_it_used(make: Any) -> None:
    """Runs of one tenant share a budget; another tenant has its own."""
    fleet, _ = drawing()
    model = ScriptedModel(default="done")
    made = make(fleet, model)
    for _ in range(4):
        made.invoke(ask(), of())
    made.invoke(ask(), of("other"))

    assert len(model.requests) == 4


def test_the_next_word_is_taken_when_there_is_room_again() -> None:
    """The thread goes on as usual in the next window."""
    times = [NOW]
    fleet = Fleet(MemoryLedger(), CALLS, clock=lambda: times[0])
    made = agent(fleet, checkpointer=InMemorySaver())
    assert made.invoke(ask(), of())["loopguard_exit"]["reason"] == "budget"
    times[0] += 86_400

    made.invoke(ask("go on"), of())
    assert made.get_state(of()).values["loopguard"]["used"]["run"]["model_calls"] == 3


@pytest.mark.parametrize("make", [agent, graph])
def test_a_failed_call_gives_back_what_was_held(make: Any) -> None:
    """A provider's error takes nothing from the fleet."""
    fleet, ledger = drawing()
    with pytest.raises(ConnectionError):
        make(fleet, ScriptedModel([ConnectionError("down")])).invoke(ask(), of())

    assert stands(ledger) == Balance()


class Hung(ScriptedModel):
    """Never answers on an event loop."""

    begun: Any = None

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        self.begun.set()
        await asyncio.Event().wait()


async def test_a_cancelled_call_is_spent_as_it_was_held() -> None:
    """Nobody can tell what the provider charges for it."""
    fleet, ledger = drawing()
    begun = asyncio.Event()
    run = asyncio.create_task(agent(fleet, Hung(begun=begun)).ainvoke(ask(), of()))
    await begun.wait()
    assert stands(ledger) == Balance(held=1)
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    assert stands(ledger) == Balance(spent=1)


def test_tokens_and_dollars_are_settled_as_they_were() -> None:
    """The estimate that was held makes room for what the provider reports."""
    budget = FleetBudget(Budget(total_tokens=100_000, usd=5.0), per="model")
    fleet, ledger = drawing(budget)
    price = {"scripted": Price(input=100, output=1_000)}
    made = agent(fleet, ScriptedModel(["four"]), Policy(prices=price))
    usage = made.invoke(ask(), of())["messages"][-1].usage_metadata

    total = claims([budget], {"model": "scripted"}, {}, NOW)
    spent = [ledger.balance(claim.key, NOW).spent for claim in total]
    dollars = usage["input_tokens"] / 1e4 + usage["output_tokens"] / 1e3
    assert spent == pytest.approx([usage["total_tokens"], dollars])


def test_a_call_that_may_not_fit_is_not_made() -> None:
    """What is estimated of a call has to fit before it is made."""
    fleet, _ = drawing(FleetBudget(Budget(output_tokens=999)), reply_tokens=1_000)
    model = ScriptedModel()
    agent(fleet, model).invoke(ask(), of())

    assert not model.requests


class Down(MemoryLedger):
    """A ledger that can't be reached."""

    def reserve(self, hold: Any, now: float) -> Any:
        """Fail as a driver does."""
        raise ConnectionError("no route to 10.0.0.1, password=secret")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [agent, graph])
def test_a_run_ends_while_the_ledger_is_down(make: Any, way: Way) -> None:
    """Budgets fail closed: the exit says that they can't be checked, and no secret."""
    fleet, _ = drawing(ledger=Down())
    report = last(way(make(fleet), ask(), of())).response_metadata["loopguard_exit"]

    assert (report["reason"], report["budget"]) == ("budget", "fleet:unreachable")
    assert report["detail"] == "the fleet's budgets can't be checked: ConnectionError"


@pytest.mark.parametrize("make", [agent, graph])
def test_a_run_goes_on_while_the_ledger_is_down_if_told_so(make: Any) -> None:
    """`when_down="open"` lets runs go on uncounted."""
    fleet, _ = drawing(ledger=Down(), when_down="open")
    state = make(fleet, ScriptedModel(["done"])).invoke(ask(), of())

    assert last(state).text == "done"


class Forgetful(MemoryLedger):
    """A ledger that goes down while a model answers."""

    def settle(self, hold: Any, spent: Any, now: float) -> None:
        """Fail as a driver does."""
        raise ConnectionError("gone")


def test_a_reply_is_kept_where_it_can_t_be_settled() -> None:
    """The run goes on, and what was held stays held until it expires."""
    fleet, ledger = drawing(ledger=Forgetful())
    state = agent(fleet, ScriptedModel(["done"])).invoke(ask(), of())

    assert last(state).text == "done"
    assert stands(ledger) == Balance(held=1)


@pytest.mark.parametrize("make", [agent, graph])
def test_a_label_that_is_missing_is_named(make: Any) -> None:
    """A run that says nothing of its tenant is refused with what to give."""
    fleet, _ = drawing()

    with pytest.raises(PolicyError, match=r'"configurable": \{"tenant": "..."\}'):
        make(fleet).invoke(ask())


def test_labels_are_made_of_config_and_context() -> None:
    """A function says whose run it is."""
    fleet, ledger = drawing(labels=lambda config, context: {"tenant": context["who"]})
    made = agent(fleet, ScriptedModel(["done"]), context_schema=dict)
    made.invoke(ask(), context={"who": "ann"})

    assert stands(ledger, tenant="ann") == Balance(spent=1)


def test_a_model_without_a_price_is_refused() -> None:
    """A budget in dollars that can't be kept is a wrong setting."""
    fleet, _ = drawing(FleetBudget(Budget(usd=5.0)))

    with pytest.raises(PolicyError, match="no price is known for the model 'scripted'"):
        agent(fleet).invoke(ask(), of())


def test_watching_counts_and_refuses_nothing() -> None:
    """A policy that only watches draws from the ledger, and lets all go on."""
    fleet, ledger = drawing()
    model = ScriptedModel([*[call("read", path=p) for p in "abcd"], "done"])
    state = agent(fleet, model, Policy(observe_only=True)).invoke(ask(), of())

    assert last(state).text == "done"
    assert stands(ledger) == Balance(spent=5)


def test_nobody_is_asked_to_raise_the_fleet_s_budget() -> None:
    """A person on one thread can't grant what is not theirs."""
    fleet, _ = drawing()
    policy = Policy(ladder=Ladder(AskUser()))
    state = agent(fleet, policy=policy, checkpointer=InMemorySaver()).invoke(
        ask(), of()
    )

    assert "__interrupt__" not in state
    assert state["loopguard_exit"]["budget"] == "fleet:model_calls"


def test_the_stronger_model_draws_under_its_own_name() -> None:
    """A budget per model counts each model that was called."""
    budget = FleetBudget(Budget(model_calls=50), per="model")
    fleet, ledger = drawing(budget)
    strong = ScriptedModel(["done"], model_name="strong")
    weak = ScriptedModel(default=call("search", query="x"))
    agent(fleet, weak, laddered(strong)).invoke(ask(), of())
    (claim,) = claims([budget], {"model": "strong"}, {}, NOW)

    assert ledger.balance(claim.key, NOW) == Balance(spent=1)
    assert stands(ledger, budget) == Balance(spent=len(weak.requests))


def test_without_a_fleet_nothing_is_different() -> None:
    """The guard asks no ledger where none is given."""
    state = guarded(ScriptedModel(["done"])).invoke(ask())

    assert last(state).text == "done"
