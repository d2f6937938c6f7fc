"""What a watched run comes to: each of its agents judged, the run's usage together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from loopguard_lg import budgets, hooks
from loopguard_lg.adapters import exits
from loopguard_lg.adapters.estimates import estimated
from loopguard_lg.adapters.messages import (
    newest_reply,
    newest_word,
    pair,
    text_of,
    tokens_of,
    turn_of,
    with_mark,
)
from loopguard_lg.adapters.transcript import (
    current_run,
    events_of,
    step_alone,
    without_reply,
)
from loopguard_lg.budgets import Exceeded, Used
from loopguard_lg.engine import Verdict, decide
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent, Observer
from loopguard_lg.memory import Memory, fresh
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event, Human, Turn
from loopguard_lg.telemetry import prices

_AGENTS = 64
"""Agents of one run that are remembered; more are forgotten, the oldest first."""

_ACTIONS = 64
"""Things that would have been done in one run that are kept, the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldHave:
    """One thing that the guard would have done.

    Attributes:
        agent: Whose turn it was.
        i: The turn, counted for each agent.
        action: `reflect`, `escalate` or `exit`.
        kind: The kind of finding, `budget` for a budget.
        detail: What was seen, for a person.
    """

    agent: str
    i: int
    action: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What was seen of one run.

    Attributes:
        id: The run's id with LangChain.
        thread: The thread, where there is one.
        would: What the guard would have done, in order.
        usage: What all agents of the run took together, by unit of a budget.
        halted: The exit report, if the run was ended.
    """

    id: str
    thread: str = ""
    would: tuple[WouldHave, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    halted: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _Agent:
    """One agent of a run: what is remembered, and the reply that is open."""

    name: str = ""
    memory: Memory = field(default_factory=fresh)
    verdict: Verdict = field(default_factory=Verdict)
    reply: AIMessage | None = None
    results: list[ToolMessage] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    word: str | None = None
    new: bool = True


class RunWatch:
    """One run that is watched; agents are told apart by `scope`."""

    def __init__(
        self, policy: Policy, id_: str, thread: str, observers: tuple[Observer, ...]
    ) -> None:
        self.policy = policy
        self.id = id_
        self.thread = thread
        self.observers = observers
        self.would: list[WouldHave] = []
        self.halted: dict[str, Any] | None = None
        self.spent: Used = {}
        self.agents: OrderedDict[str, _Agent] = OrderedDict()

    def _agent(self, scope: str, name: str | None = None) -> _Agent:
        agent = self.agents.setdefault(scope, _Agent())
        while len(self.agents) > _AGENTS:
            self.agents.popitem(last=False)
        agent.name = name if name is not None else agent.name
        return agent

    def asked(self, scope: str, name: str, sent: Sequence[BaseMessage]) -> None:
        """A model is called with these messages."""
        self._closed(self._agent(scope), sent)
        agent = self._agent(scope, name)
        word = newest_word(sent, through=True)
        text = text_of(word) if word is not None else None
        if agent.new:  # the run goes on from an earlier one, or is resumed
            *past, last = events_of(current_run(sent, self.policy) or sent[-1:])
            for event in past:
                agent.memory = decide(self.policy, agent.memory, event)[1]
            self._fed(agent, last)
        elif text != agent.word:
            self._fed(agent, Human(text=text or ""))
        agent.new, agent.word = False, text

    def replied(
        self,
        scope: str,
        name: str,
        reply: BaseMessage,
        sent: Sequence[BaseMessage],
        seconds: float,
    ) -> None:
        """A model has replied."""
        self._closed(self._agent(scope), sent)
        agent = self._agent(scope, name)
        if not isinstance(reply, AIMessage):
            return
        tokens = tokens_of(reply) or estimated(sent, reply)
        model = reply.response_metadata.get("model_name")
        cost = prices.cost(model, tokens, self.policy.prices)
        known: dict[str, Any] = {
            "model": model,
            "tokens": tokens,
            "cost": cost,
            "seconds": seconds,
        }
        agent.reply, agent.known, agent.results = reply, known, []
        self.spent = budgets.add(self.spent, budgets.model_spend(Turn(**known)))

    def result(
        self,
        scope: str,
        call: Mapping[str, Any],
        result: ToolMessage,
        seconds: float,
    ) -> None:
        """A tool has returned, or raised."""
        agent = self._agent(scope)
        result = with_mark(result, {"seconds": seconds})
        asked = _asked(agent, call)
        if asked is not None:
            id_ = asked["id"] or ""
            agent.results.append(result.model_copy(update={"tool_call_id": id_}))
            return
        alone = {**call, "id": ""}
        told = result.model_copy(update={"tool_call_id": ""})
        agent.memory = without_reply(agent.memory)
        self._fed(agent, step_alone(alone, told, agent.name))

    def inside_ended(self, tool: UUID) -> None:
        """A tool has ended, and with it the agents in it."""
        for scope in [s for s in self.agents if s.startswith(f"{tool}|")]:
            self._closed(self.agents.pop(scope), ())

    def check(self, scope: str) -> None:
        """Whether the run may go on.

        Raises:
            LoopHaltedError: The guard would have ended it.
        """
        agent = self._agent(scope)
        used = {"run": self.spent, "thread": self.spent}
        out = budgets.exceeded(self.policy.budgets, used)
        verdict = agent.verdict
        if out is None and verdict.action != "exit":
            return
        self.halted = exits.report(
            *_why(verdict, out), agent.memory, (), verdict if out is None else None
        )
        raise LoopHaltedError(self.halted)

    def report(self) -> Watched:
        """What was seen, now that the run has ended."""
        for agent in self.agents.values():
            self._closed(agent, ())
        return Watched(
            id=self.id,
            thread=self.thread,
            would=tuple(self.would),
            usage=dict(self.spent),
            halted=self.halted,
        )

    def _closed(self, agent: _Agent, sent: Sequence[BaseMessage]) -> None:
        """Judge the open reply with its results.

        Results of what is no tool of LangChain's are only in what is sent next.
        """
        reply, results = agent.reply, agent.results
        if reply is None:
            return
        found = reply
        if reply.id and any(result is None for _, result in pair(reply, results)):
            told, others = newest_reply(sent, reply.id)
            found, results = (told, others) if told and others else (reply, results)
        turn = turn_of(found, results, {}, agent=agent.name, **agent.known)
        agent.reply, agent.results = None, []
        self._fed(agent, turn)

    def _fed(self, agent: _Agent, event: Event) -> None:
        agent.verdict, agent.memory = decide(self.policy, agent.memory, event)
        verdict = agent.verdict
        if verdict.action != "continue" and len(self.would) < _ACTIONS:
            kind, detail = _why(verdict, verdict.exceeded)
            if verdict.exceeded is None and verdict.finding is not None:
                kind = verdict.finding.kind
            self.would.append(
                WouldHave(
                    agent=agent.name,
                    i=verdict.i,
                    action=verdict.action,
                    kind=kind,
                    detail=detail,
                )
            )
        self._tell(agent.name, event, verdict)

    def _tell(self, name: str, event: Event, verdict: Verdict) -> None:
        acts = verdict.action != "continue" and verdict.finding is not None
        names: list[hooks.Name] = ["seen", "detected"] if acts else ["seen"]
        for what in names if self.observers else ():
            told = GuardEvent(
                name=what,
                thread=self.thread or self.id,
                agent=name,
                event=event,
                verdict=verdict,
                text=verdict.finding.detail if verdict.finding else "",
            )
            hooks.notify(self.observers, told)


def _asked(agent: _Agent, call: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The call of the open reply that a tool was executed for."""
    if agent.reply is None:
        return None
    left = [c for c, found in pair(agent.reply, agent.results) if found is None]
    same_id = (c for c in left if call["id"] and c["id"] == call["id"])
    same = (c for c in left if (c["name"], c["args"]) == (call["name"], call["args"]))
    return next(same_id, None) or next(same, None)


def _why(verdict: Verdict, out: Exceeded | None) -> tuple[str, str]:
    """The reason of an exit, and one sentence for a person."""
    if out is not None:
        return "budget", str(out)
    return "loop", verdict.finding.detail if verdict.finding else ""
