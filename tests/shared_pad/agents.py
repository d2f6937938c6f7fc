"""Agents with a shared scratchpad, and stores that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.adapters.shared_store import Entry
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS, same

NOON = 1_700_000_000.0
ACME = SharedScratchpad(namespace=("acme",), clock=lambda: NOON)
LEARNED = Entry('search(query="x")', "3x: no results")
"""What a run of `looping` rules out."""


def of_user(config: RunnableConfig, context: Any) -> tuple[str, ...]:
    """The namespace of a run: that of the user in its config."""
    return ("acme", config["configurable"]["user"])


def agent(
    model: ScriptedModel,
    store: Any,
    shared: SharedScratchpad | None = ACME,
    policy: Policy | None = None,
    **settings: Any,
) -> Any:
    """An agent whose guard shares what it rules out."""
    guard = LoopGuardMiddleware(policy, shared=shared, **settings.pop("guard", {}))
    return create_agent(model, TOOLS, middleware=[guard], store=store, **settings)


def looping(times: int = 9, then: str = "nothing found") -> ScriptedModel:
    """A model that makes a fruitless call again and again, and then answers."""
    return ScriptedModel(replies=[*same(times), then])


def user(name: str, thread: str = "t") -> RunnableConfig:
    """The config of a user's run."""
    return {"configurable": {"thread_id": thread, "user": name}}


class Watched(InMemoryStore):
    """Notes what it is asked, and may do something then."""

    def __init__(self, act: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.act = act

    def batch(self, ops: Iterable[Any]) -> Any:
        """Note the operations, then do them."""
        ops = [*ops]
        self._note(ops)
        return super().batch(ops)

    async def abatch(self, ops: Iterable[Any]) -> Any:
        """Note the operations, then do them."""
        ops = [*ops]
        self._note(ops)
        return await super().abatch(ops)

    def _note(self, ops: list[Any]) -> None:
        names = {SearchOp: "search", PutOp: "put"}
        self.asked += [names[type(op)] for op in ops]
        self.act()


class Hung(InMemoryStore):
    """Never answers on an event loop."""

    async def abatch(self, ops: Iterable[Any]) -> Any:
        """Wait for ever."""
        await asyncio.Event().wait()


def broken() -> Any:
    """What a store does that can't be reached."""
    raise ConnectionError("no route to the store")
