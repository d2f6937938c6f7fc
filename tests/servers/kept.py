"""Checkpointers on real servers, and agents that are kept on them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from loopguard_lg import AskUser, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.killed import SAVERS, strong, weak
from tests.middleware.runs import TOOLS, ask, laddered

SERIALIZED = [kind for kind in SAVERS if not kind.startswith("redis")]
"""Those that take a serializer; Redis's needs its own, which makes JSON of all."""

# A Redis may be shared with another process of the tests, and have no empty database.
THREAD: Any = {"configurable": {"thread_id": f"t-{uuid4()}"}}


@dataclass(frozen=True)
class Kept:
    """A checkpointer, and how agents on it are used."""

    saver: Any
    awaits: bool

    async def run(self, agent: Any, given: Any, **settings: Any) -> dict[str, Any]:
        """Run an agent to its end, or to a question."""
        if self.awaits:
            return await agent.ainvoke(given, THREAD, **settings)
        return await asyncio.to_thread(agent.invoke, given, THREAD, **settings)

    async def state(self, agent: Any) -> dict[str, Any]:
        """The state that is kept of the thread."""
        if self.awaits:
            return (await agent.aget_state(THREAD)).values
        return (await asyncio.to_thread(agent.get_state, THREAD)).values


@asynccontextmanager
async def opened(
    kind: str, where: str, serde: SerializerProtocol | None = None
) -> AsyncIterator[Kept]:
    """A checkpointer by its name, with a connection of its own.

    Args:
        kind: One of `SAVERS`.
        where: A file, or the address of a database.
        serde: Its serializer.
    """
    saver = resolve_name(SAVERS[kind]).from_conn_string(where)
    if kind.endswith("loop"):
        async with saver as made:
            made.serde = serde or made.serde
            await made.setup()
            yield Kept(made, awaits=True)
        return
    with saver as made:
        made.serde = serde or made.serde
        made.setup()
        yield Kept(made, awaits=False)


def make(saver: Any, model: Any, **settings: Any) -> Any:
    """An agent with the guard on a checkpointer."""
    guard = LoopGuardMiddleware(**settings)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)


def climbing(saver: Any, policy: Policy | None = None, **settings: Any) -> Any:
    """An agent that goes in circles up to the exit, by way of a stronger model."""
    policy = policy or laddered(ScriptedModel(default=strong), turns=2)
    guard = LoopGuardMiddleware(policy, **settings)
    model = ScriptedModel(default=weak)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)


def asking(saver: Any) -> Any:
    """The same, asking a person at the end."""
    return climbing(saver, laddered(ScriptedModel(default=strong), AskUser(), 2))


def main(database: str, thread: str) -> None:
    """Run up to the question, in this process."""
    config: Any = {"configurable": {"thread_id": thread}}
    with PostgresSaver.from_conn_string(database) as saver:
        saver.setup()
        state = asking(saver).invoke(ask(), config)
        (question,) = state["__interrupt__"]
        sys.stdout.write(question.value["question"])


if __name__ == "__main__":
    main(*sys.argv[1:])
