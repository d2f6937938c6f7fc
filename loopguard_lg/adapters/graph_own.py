"""The guard's own nodes, and the edges that lead to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.types import Send

from loopguard_lg import prompts
from loopguard_lg.adapters import graph_files, graph_shared, leave, past, tree
from loopguard_lg.adapters.exits import KEY
from loopguard_lg.adapters.graph_nodes import Work
from loopguard_lg.adapters.graph_site import (
    ASK_USER,
    GIVE_UP,
    REFLECT,
    Site,
    is_resumable,
    is_routed,
)
from loopguard_lg.adapters.graph_state import (
    CHANNEL,
    OWN,
    Shape,
    State,
    enclosed,
    is_left,
    names,
)
from loopguard_lg.adapters.messages import MARK, newest_reply, with_mark
from loopguard_lg.memory import write


@dataclass(frozen=True, slots=True)
class Own:
    """The guard's nodes; each method is the work of one.

    A node looks again before it acts: if something else is due by now, because a node
    beside the last one wrote too, the run goes there.
    """

    site: Site

    def reflect(self, state: State, config: RunnableConfig) -> Work:
        """Keep for the model's node what it is to be told."""
        look = self.site.look(state, config)
        if look.due != REFLECT:
            return self.site.sent_to(state, REFLECT, look.due or self.site.model)
        look = yield from graph_files.before(self.site, look)
        self.site.tell(look)
        host = look.plan.before["host"]
        pace = {"step": host.get("step"), "lap": host.get("lap")}
        memory = past.with_host(look.plan.memory, note=look.plan.note, **pace)
        return {CHANNEL: write(look.plan.before, memory)}

    def ask_user(self, state: State, config: RunnableConfig) -> Work:
        """Write the question down; the next time, ask it."""
        if is_asking(self.site, state):
            messages = self.site.messages(state)
            (call,) = self.site.pending(state)
            resumable = is_resumable(config)
            return {self.site.key: [leave.asked(call, messages, resumable=resumable)]}
        return (yield from self._ended(state, config, ASK_USER))

    def give_up(self, state: State, config: RunnableConfig) -> Work:
        """Write the last message and the report."""
        if is_left(self.site.messages(state), self._place(config)):
            return None
        return (yield from self._ended(state, config, GIVE_UP))

    def _ended(self, state: State, config: RunnableConfig, name: str) -> Work:
        site = self.site
        answers = self._answers(state)
        after = site.after(state, {site.key: answers})
        look = site.look(after, config)
        final = look.plan.final
        if look.due != name or final is None:
            return site.sent_to(state, name, look.due or site.model)
        look = yield from graph_files.before(site, look)
        final = with_mark(look.plan.final or final, {"place": self._place(config)})
        look = yield from graph_shared.before(site, look, config)
        site.tell(look)
        if look.plan.report is not None and name == GIVE_UP:
            tree.left(look.plan.report)
        update: dict[str, Any] = {
            site.key: [*answers, final],
            CHANNEL: write(look.plan.before, look.plan.memory),
        }
        if site.reports:
            update[KEY] = look.plan.report
        return update

    def _place(self, config: RunnableConfig) -> str:
        """Whose exit this is: where the graph runs, and its guard."""
        inside = str(config.get("metadata", {}).get("langgraph_checkpoint_ns", ""))
        return f"{inside.rpartition('|')[0]}|{self.site.guard.agent}"

    def _answers(self, state: State) -> list[ToolMessage]:
        """A result for each call that the budget leaves no room for."""
        return [
            ToolMessage(
                prompts.refused(call["name"], "the budget is used"),
                name=call["name"],
                tool_call_id=call["id"] or "",
                status="error",
                response_metadata={MARK: {"blocked": "budget"}},
            )
            for call in self.site.pending(state)
        ]


def is_asking(site: Site, state: State) -> bool:
    """Whether a question of the guard's waits for its answer."""
    reply, _ = newest_reply(site.messages(state))
    asks = reply is not None and KEY in reply.response_metadata
    return asks and bool(site.pending(state))


class Way(RunnableLambda[Any, Any]):
    """A way on from a node: where the user's graph goes, or the guard's node instead.

    Attributes:
        site: The settings of the graph.
        source: The node that it leads away from.
        path: The user's own condition; `None` for plain edges.
        targets: Where it leads; of a condition, by what it returns, where known.
        guards: The guard's nodes that it may lead to instead.
        shape: What the condition reads; `None` for all but the guard's own.
    """

    def __init__(
        self,
        name: str,
        site: Site,
        source: str,
        targets: dict[Any, str] | None,
        guards: Collection[str],
        path: Runnable[Any, Any] | None = None,
        shape: Shape | None = None,
    ) -> None:
        super().__init__(self.invoke, self.ainvoke, name=name)
        self.site = site
        self.source = source
        self.targets = targets
        self.guards = guards
        self.path = path
        self.shape = shape

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Where the run goes."""
        config = ensure_config(config)
        if is_routed(input, self.source):
            return []
        found: Any = list(self.targets or ())
        if self.path is not None:
            found = self.path.invoke(self._own(input), config, **kwargs)
        return self._checked(input, config, found)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Where the run goes."""
        config = ensure_config(config)
        if is_routed(input, self.source):
            return []
        found: Any = list(self.targets or ())
        if self.path is not None:
            found = await self.path.ainvoke(self._own(input), config, **kwargs)
        return self._checked(input, config, found)

    def _own(self, state: State) -> Any:
        if self.shape is not None:
            return self.shape.of(state)
        return {key: value for key, value in state.items() if key not in OWN}

    def _checked(self, state: State, config: RunnableConfig, found: Any) -> Any:
        way = list(found) if isinstance(found, list | tuple) else [found]
        ends = [self._end(item) for item in way]
        to = self.site.diversion(state, config, names(ends))
        if to in self.guards:  # else the model's node sees to it by itself
            return [to]
        return [
            enclosed(item, state, self.site.key) if isinstance(item, Send) else item
            for item in way
        ]

    def _end(self, item: Any) -> Any:
        if isinstance(item, Send) or self.targets is None:
            return item
        return self.targets.get(item, item)


class AskedOn(Way):
    """The way on from the question to a person."""

    def _checked(self, state: State, config: RunnableConfig, found: Any) -> Any:
        if is_asking(self.site, state):
            return [ASK_USER]
        return super()._checked(state, config, found)
