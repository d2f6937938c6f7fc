from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from loopguard_lg import Budget, LoopGuardMiddleware, Policy, ToolPolicy
from loopguard_lg.fleet import Fleet, FleetBudget
from loopguard_lg.fleet.postgres import PostgresLedger
from loopguard_lg.fleet.redis import RedisLedger
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.test_runs_again import by_node as paying
from tests.middleware.killed import weak
from tests.middleware.runs import TOOLS, ask, executed, laddered, last, results
from tests.servers.kept import SERIALIZED, THREAD, asking, climbing, make, opened


def acts(told: list[GuardEvent]) -> list[tuple[str, int]]:
    """What was done, and at which turn."""
    return [(e.name, e.verdict.i) for e in told if e.name not in ("seen", "detected")]


def expected() -> list[tuple[str, int]]:
    """What is done with a checkpointer in memory."""
    told: list[GuardEvent] = []
    climbing(InMemorySaver(), observers=told.append).invoke(ask(), THREAD)
    return acts(told)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_checkpointer_keeps_the_same_run(
    kind: str, where: str, durability: str
) -> None:
    """With each durability the ladder is climbed as in memory, and stands there."""
    told: list[GuardEvent] = []
    async with opened(kind, where) as kept:
        agent = climbing(kept.saver, observers=told.append)
        await kept.run(agent, ask(), durability=durability)
    async with opened(kind, where) as again:
        state = await again.state(climbing(again.saver))

    assert acts(told) == expected()
    assert state["loopguard_exit"]["reason"] == "loop"
    validate_history(state["messages"][:-1])


async def test_a_thread_that_was_rolled_back_goes_on_elsewhere(
    kind: str, where: str
) -> None:
    """Another process shows its model what the first one had left in view, and no more.

    The state keeps all messages; those of the loop are named in the guard's channel.
    """
    async with opened(kind, where) as kept:
        agent = climbing(kept.saver)
        await kept.run(agent, ask())
        before = await kept.state(agent)
    model = ScriptedModel(["done"])
    async with opened(kind, where) as again:
        await again.run(make(again.saver, model), ask("go on"))

    ids = [message.id for message in model.requests[0].messages]
    hidden = [m.id for m in before["messages"] if m.id not in ids]
    assert before["loopguard"]["host"]["hidden"]
    assert 0 < len(hidden) < len(before["messages"])
    assert before["loopguard"]["host"]["good"][0][1] in ids


async def test_the_counts_of_a_thread_go_on_elsewhere(kind: str, where: str) -> None:
    """A budget of the whole thread holds in the process that takes it over."""
    policy = laddered().replace(budget=Budget(model_calls=3, scope="thread"))
    async with opened(kind, where) as kept:
        first = make(kept.saver, ScriptedModel(["one"]), policy=policy)
        await kept.run(first, ask())
    model = ScriptedModel(default=lambda m: call("read", path=f"{len(m)}"))
    async with opened(kind, where) as again:
        state = await again.run(make(again.saver, model, policy=policy), ask())

    assert len(model.requests) == 2
    assert last(state).response_metadata["loopguard_exit"]["budget"] == "model_calls"


@pytest.mark.parametrize("kind", SERIALIZED)
async def test_a_strict_serializer_takes_all_that_the_guard_keeps(
    kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it has to be registered: it is plain data."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    async with opened(kind, where, strict) as kept:
        agent = climbing(kept.saver)
        with caplog.at_level(logging.WARNING):
            await kept.run(agent, ask())
            state = await kept.state(agent)

    assert not [r for r in caplog.records if "langgraph" in r.name]
    assert json.loads(json.dumps(state["loopguard"])) == state["loopguard"]


@pytest.mark.parametrize("kind", SERIALIZED)
async def test_an_encrypting_serializer_takes_it_as_well(kind: str, where: str) -> None:
    """The run goes on from data that nobody can read."""
    key = b"sixteen bytes ..".ljust(16)
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key)
    async with opened(kind, where, serde) as kept:
        await kept.run(climbing(kept.saver), ask())
    async with opened(kind, where, serde) as again:
        state = await again.state(climbing(again.saver))

    assert state["loopguard_exit"]["reason"] == "loop"
    if not kind.startswith("postgres"):
        assert b"ruled" not in await asyncio.to_thread(Path(where).read_bytes)


async def test_a_deep_agent_s_messages_are_found(kind: str, where: str) -> None:
    """They are in a delta channel: a checkpoint has what changed, the state has all."""
    strong = ScriptedModel(["found it"])
    guard = LoopGuardMiddleware(laddered(strong))
    model = ScriptedModel(default=weak)
    async with opened(kind, where) as kept:
        agent = create_deep_agent(
            model, TOOLS, middleware=[guard], checkpointer=kept.saver
        )
        state = await kept.run(agent, ask())
    shown = strong.requests[0].messages

    assert last(state).text == "found it"
    assert len(shown) < len(state["messages"])
    validate_history(shown)


def test_the_strict_mode_of_the_environment_changes_nothing(
    database: str, tmp_path: Path
) -> None:
    """`LANGGRAPH_STRICT_MSGPACK` blocks unregistered types, and nothing is blocked."""
    command = [sys.executable, "-m", "tests.middleware.killed", str(tmp_path)]
    command += ["--server", database, "--points", "1"]
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    whole, killed = json.loads(done.stdout)

    assert done.stderr == ""
    assert (killed["exit"], killed["used"]) == (whole["exit"], whole["used"])


def test_a_question_of_one_process_is_answered_in_another(database: str) -> None:
    """The interrupt waits in the database, with all that the guard knows."""
    thread = THREAD["configurable"]["thread_id"]
    command = [sys.executable, "-m", "tests.servers.kept", database, thread]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    with PostgresSaver.from_conn_string(database) as saver:
        agent = asking(saver)
        state = agent.invoke(Command(resume="stop"), THREAD)

    assert "search" in asked.stdout
    assert state["loopguard_exit"]["detail"] == "a person said to stop"


@pytest.mark.parametrize("server", ["database", "redis_url"])
async def test_two_workers_on_one_thread_lose_no_call(
    server: str, request: pytest.FixtureRequest, database: str
) -> None:
    """LangGraph lets the last one win; a fleet's budget per thread counts both."""
    url = request.getfixturevalue(server)
    ledger = (RedisLedger if server == "redis_url" else PostgresLedger)(url)
    limit = FleetBudget(Budget(model_calls=7), per="thread_id", name=database)
    fleet = Fleet(ledger, limit)
    model = ScriptedModel(default=lambda m: call("read", path=f"{id(m)} {len(m)}"))
    async with opened("postgres on a loop", database) as kept:
        agent = make(kept.saver, model, fleet=fleet)
        await asyncio.gather(*(kept.run(agent, ask(word)) for word in "ab"))
    ledger.close()

    assert len(model.requests) == 7


async def test_what_is_done_once_is_kept_beside_a_question(
    kind: str, where: str
) -> None:
    """Another process answers the question, and has the result of before."""
    policy = Policy(tools={"pay_by": ToolPolicy(role="write", once=True)})
    replies = [[call("boss", question="?"), call("pay_by", amount=1)], "done"]
    executed.clear()
    async with opened(kind, where) as kept:
        await kept.run(paying(replies, policy, kept.saver), ask())
    async with opened(kind, where) as again:
        graph = paying(replies[1:], policy, again.saver)
        state = await again.run(graph, Command(resume="yes"))

    assert executed == ["pay 1"]
    assert [m.text for m in results(state["messages"])][1] == "paid 1"
