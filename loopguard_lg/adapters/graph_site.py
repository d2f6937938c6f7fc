"""What all guarded parts of one graph share: the settings, and the one question asked.

The question is what the guard would do before the next model call. An edge asks it
ahead, silently, to send the run to the guard's node that is due; the node asks it again
and acts. So the decision stays in `Guard`, and the graph only follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END
from langgraph.types import Command

from loopguard_lg import budgets, hooks, memory as memories
from loopguard_lg.adapters import past, tree
from loopguard_lg.adapters.graph_state import (
    BESIDE,
    CHANNEL,
    REMAINING,
    State,
    add_beside,
    identified,
    made_by_nodes,
    parts,
    pending,
    unseen,
    update_of,
)
from loopguard_lg.adapters.ledger import Ledger
from loopguard_lg.adapters.messages import newest_word
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.adapters.saved import checkpoint_of
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.fleet import Fleet
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.ladder import AskUser, Escalate
from loopguard_lg.memory import Memory, fold, write

if TYPE_CHECKING:  # git and locks are for those who use them
    from loopguard_lg.adapters.workspace import Workspace

REFLECT = "loopguard_reflect"
ESCALATE = "loopguard_escalate"
ASK_USER = "loopguard_ask_user"
GIVE_UP = "loopguard_give_up"

NODES = (REFLECT, ESCALATE, ASK_USER, GIVE_UP)
"""The guard's nodes; the way into the model's node may lead to any of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the guard saw at one point of the run.

    Attributes:
        plan: What it would do before the next model call.
        scene: What it knew.
        due: The guard's node that has to act on that; `None` for the model's node.
        told: What observers are to be told once it is acted on.
    """

    plan: Plan
    scene: Scene
    due: str | None
    told: Sequence[GuardEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The settings that all guarded parts of one graph share; no state of a run.

    Attributes:
        guard: Decides.
        model: Name of the model's node.
        key: The state key of the messages.
        add: The reducer of the messages.
        reports: The state has a key for the exit report.
        tools: The tools by name, as far as the tool nodes tell.
        clock: Seconds from any start.
        shared: What runs of other threads ruled out, if that is shared.
        fleet: Budgets that other runs draw from as well.
        workspace: The files that the graph works on.
    """

    guard: Guard
    model: str
    key: str
    add: Callable[[Any, Any], Any]
    reports: bool
    tools: Mapping[str, BaseTool]
    clock: Callable[[], float]
    shared: SharedScratchpad | None = None
    fleet: Fleet | None = None
    workspace: Workspace | None = None

    @property
    def asks(self) -> bool:
        """Whether a run may end by a question to a person."""
        return isinstance(self.guard.policy.ladder.rungs[-1], AskUser)

    @property
    def exits(self) -> tuple[str, ...]:
        """Where a run goes whose budget is out."""
        return (ASK_USER, GIVE_UP) if self.asks else (GIVE_UP,)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The guard's nodes in this graph: those that the ladder can reach."""
        return (REFLECT, ESCALATE, *self.exits)

    def messages(self, state: State) -> Sequence[BaseMessage]:
        """The messages of the state, with ids."""
        return identified(state.get(self.key) or [])

    def look(
        self,
        state: State,
        config: RunnableConfig,
        *,
        node: str | None = None,
        ahead: int = 0,
    ) -> Look:
        """What the guard would do before the next model call.

        Args:
            state: The state with the guard's channels.
            config: The task's.
            node: Whose model call it is; the model's node if `None`.
            ahead: Supersteps from here to the call.
        """
        memory = memories.load(state.get(CHANNEL))
        scene = self._scene(state, config, memory, node or self.model, ahead)
        told: list[GuardEvent] = []
        quiet = replace(self.guard, observers=(told.append,))
        plan = quiet.before_model(memory, scene)
        seen = past.with_host(plan.memory, route=None)
        plan = replace(plan, memory=seen)
        return Look(plan=plan, scene=scene, due=self._due(plan), told=told)

    def tell(self, look: Look) -> None:
        """Tell the observers, now that it is acted on."""
        for event in look.told:
            hooks.notify(self.guard.observers, event)

    def _scene(
        self,
        state: State,
        config: RunnableConfig,
        memory: Memory,
        node: str,
        ahead: int,
    ) -> Scene:
        host = memory["host"]
        messages = self.messages(state)
        step, limit = step_of(config), state.get(REMAINING)
        if step is None:  # not in a run but in `update_state`, which knows no limit
            limit = None
        known = host.get("names", {})
        return Scene(
            messages=messages,
            seen=messages,
            tools=self.tools,
            model=known.get(node),
            named_later=node not in known,
            thread=str(config.get("configurable", {}).get("thread_id") or ""),
            resumable=is_resumable(config),
            remaining=None if limit is None else limit - ahead,
            step=None if step is None else step + ahead,
            beside=unseen(state.get(BESIDE), host.get("beside"), self.word(state)),
            counted_beside=state.get(BESIDE),
            made=made_by_nodes(state),
            checkpoint=checkpoint_of(config),
            shared=True,
        )

    def word(self, state: State) -> str | None:
        """The id of the human word with which the run began."""
        made = made_by_nodes(state)
        word = newest_word(self.messages(state), made, through=True)
        return word.id if word is not None else None

    def pending(self, state: State) -> list[Any]:
        """The calls that wait for their results."""
        return pending(self.messages(state), made_by_nodes(state))

    def _due(self, plan: Plan) -> str | None:
        if self.guard.policy.observe_only:
            return None
        if plan.final is not None:
            return ASK_USER if plan.final.tool_calls else GIVE_UP
        if plan.verdict.action == "reflect":
            return REFLECT
        return ESCALATE if self.is_escalated(plan.memory) else None

    def is_escalated(self, memory: Memory) -> bool:
        """Whether it is the stronger model's turn."""
        ladder = memory["ladder"]
        rung = self.guard.policy.ladder.at(ladder.get("rung", 0))
        return isinstance(rung, Escalate) and ladder.get("left", 0) > 0

    def diversion(
        self, state: State, config: RunnableConfig, targets: Collection[str]
    ) -> str | None:
        """The guard's node that the run goes to instead of `targets`, if any.

        Where nothing but the end is ahead the run is let go: it is over anyway.
        """
        if not set(targets) - {END} or self.guard.policy.observe_only:
            return None
        if self.pending(state):
            return self._exit(config) if self._is_out(state) else None
        look = self.look(state, config, ahead=1)
        is_out = look.plan.verdict.exceeded is not None
        return look.due if is_out or self.model in targets else None

    def level(self, state: State, started: float) -> AbstractContextManager[Ledger]:
        """What runs inside charges this graph, and is held to its budgets."""
        memory, guard = memories.load(state.get(CHANNEL)), self.guard
        seen = memory["host"].get("beside")
        beside = unseen(state.get(BESIDE), seen, self.word(state))
        return tree.level(
            guard.policy, guard.agent, memory, self.clock, started, **beside
        )

    def _exit(self, config: RunnableConfig) -> str:
        return ASK_USER if self.asks and is_resumable(config) else GIVE_UP

    def _is_out(self, state: State) -> bool:
        """Whether a budget leaves no room for the calls that are pending."""
        memory = memories.load(state.get(CHANNEL))
        seen = memory["host"].get("beside")
        beside = unseen(state.get(BESIDE), seen, self.word(state))
        used = {
            scope: budgets.add(amounts, tree.asked(memory), beside[scope])
            for scope, amounts in memory["used"].items()
        }
        policy = self.guard.policy
        return budgets.refuses_call(policy.budgets, used, {}) is not None

    def after(self, state: State, out: Any) -> State:
        """The state as it will be after a node's update, as far as the guard reads."""
        reducers = {self.key: self.add, CHANNEL: fold, BESIDE: add_beside}
        new = dict(state)
        for part in parts(out):
            update = update_of(part)
            for key, reduce in reducers.items():
                if isinstance(update, Mapping) and key in update:
                    empty: Any = [] if key == self.key else None
                    new[key] = reduce(new.get(key) or empty, update[key])
        return new

    def sent_to(self, state: State, source: str, to: str) -> Command[Any]:
        """Go from `source` to `to`; the edges of `source` stay still."""
        before = memories.load(state.get(CHANNEL))
        marked = past.with_host(before, route=source)
        return Command(update={CHANNEL: write(before, marked)}, goto=to)


def is_routed(state: State, source: str) -> bool:
    """Whether `source` has gone elsewhere by itself."""
    memory = state.get(CHANNEL) or {}
    route: str | None = memory.get("host", {}).get("route")
    return route == source


def is_resumable(config: RunnableConfig) -> bool:
    """Whether the run has a checkpointer, without which no answer can come back."""
    return config.get("configurable", {}).get("__pregel_checkpointer") is not None


def step_of(config: RunnableConfig) -> int | None:
    """The number of the superstep."""
    step: int | None = config.get("metadata", {}).get("langgraph_step")
    return step


def is_answered(config: RunnableConfig) -> bool:
    """Whether a person's answer has come into this task."""
    scratchpad = config.get("configurable", {}).get("__pregel_scratchpad")
    return bool(getattr(scratchpad, "resume", None))
