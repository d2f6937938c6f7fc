"""One guard on one stretch of messages, whatever host they come from.

A host (middleware, graph node) calls `Guard.before_model` with the memory and the
messages of its state, then `after_model` with the reply, and `before_tool` for each
call. The guard holds settings only; what belongs to a run is in the memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from loopguard_lg import budgets, engine, hooks, memory as memories, prompts
from loopguard_lg.adapters import answers, aside, exits, past, pricing, tree
from loopguard_lg.adapters.acting import Acts, Ask
from loopguard_lg.adapters.estimates import Size
from loopguard_lg.adapters.leave import offers_leave
from loopguard_lg.adapters.messages import (
    defaults,
    mark_of,
    nested_of,
    newest_reply,
    pair,
    refused,
    text_of,
    turn_of,
)
from loopguard_lg.adapters.plan import Plan, Seen, counted, due, ended, leaving
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.admission import admit
from loopguard_lg.budgets import Exceeded
from loopguard_lg.engine import Verdict
from loopguard_lg.ladder import Escalate, Reflect
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Compaction, Event, Human, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The settings of a guard, bound to nothing that runs.

    Attributes:
        policy: The settings.
        agent: Who acts, for events and recordings.
        observers: Who is told.
        stronger: Names of the models of the ladder, for their prices.
        wall: Seconds since some fixed day, for the time between two turns.
        sleep: Lets seconds pass.
        asleep: The same on an event loop.
        acts: What it does beside stopping.
        switches: Whether an escalation names another model.
    """

    policy: Policy
    agent: str = ""
    observers: tuple[hooks.Observer, ...] = ()
    stronger: tuple[str | None, ...] = ()
    sleep: Callable[[float], Any] = time.sleep
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    wall: Callable[[], float] = time.time
    acts: Acts = field(init=False)
    switches: bool = field(init=False)

    def __post_init__(self) -> None:
        policy = self.policy.acting
        acts = Acts(policy=policy, sleep=self.sleep, asleep=self.asleep)
        object.__setattr__(self, "acts", acts)
        rungs = self.policy.ladder.rungs
        models = (r.model for r in rungs if isinstance(r, Escalate))
        object.__setattr__(self, "switches", any(m is not None for m in models))

    def before_model(self, data: Any, scene: Scene) -> Plan:
        """What to do before the next model call.

        Args:
            data: The channel's value, as it was stored.
            scene: What the host knows.

        Raises:
            PolicyError: A budget in dollars can't be kept, as the model has no price.
        """
        before = memories.load(data)
        self._check_price(scene, before)
        for start in (dict, memories.afresh):
            try:
                return self._plan(start(before), scene)
            except Exception:  # a fault costs what was remembered, not the run
                hooks.logger.exception("loopguard: a turn can't be judged")
        return Plan(before=before, memory=memories.afresh(before), verdict=Verdict())

    def _plan(self, before: Memory, scene: Scene) -> Plan:
        verdict, memory = self._catch_up(before, scene)
        if scene.thread and before["rev"]:
            tree.goes_on(scene.thread, memory)
        if self.policy.observe_only:
            return Plan(before=before, memory=memory, verdict=verdict)
        verdict = engine.held_to(verdict, tree.exceeded())
        leave = leaving(memory, scene, verdict)
        if leave is not None:
            return self._exit(before, memory, scene, verdict, leave)
        return self._go_on(before, memory, scene, verdict)

    def after_model(
        self, plan: Plan, scene: Scene, result: Sequence[BaseMessage], seconds: float
    ) -> Memory:
        """The memory after the model's reply.

        Args:
            plan: What `before_model` planned.
            scene: As it was given to `before_model`; `model` may have changed.
            result: The reply, and results that came with it.
            seconds: How long the model took.
        """
        try:
            return self._replied(plan, scene, result, seconds)
        except Exception:  # a fault costs what would have been seen, not the reply
            hooks.logger.exception("loopguard: a reply can't be judged")
            return counted(plan.memory, seconds)

    def _replied(
        self, plan: Plan, scene: Scene, result: Sequence[BaseMessage], seconds: float
    ) -> Memory:
        reply, results = newest_reply(result)
        if reply is None:
            return plan.memory
        host = plan.memory["host"]
        size = pricing.size_of(self.policy, reply, scene.seen, host.get("sized"))
        known = self.measured(reply, scene, seconds, size) | {"t": self._t(host)}
        noted: dict[str, Any] = {"sized": size} if size else {}
        if all(found is not None for _, found in pair(reply, results)):
            turn = turn_of(reply, results, scene.tools, agent=self.agent, **known)
            verdict, memory = self.feed(plan.memory, turn, past.thread_of(host))
            noted |= {"open": None, "due": past.due(verdict)}
            noted["over"] = not reply.tool_calls
            if reply.invalid_tool_calls:  # nobody answers these but the view
                noted["untidy"] = True
            return past.with_host(memory, **noted)
        spend = budgets.model_spend(Turn(nested=nested_of([mark_of(reply)]), **known))
        opened = {"id": reply.id, "spend": spend, **past.packed(known)}
        opened |= self.acts.asked(reply, scene.tools)
        return past.with_host(plan.memory, open=opened, **noted)

    def cut_off(self, plan: Plan, scene: Scene, seconds: float) -> Plan:
        """The plan where the model was cut off after `seconds`: the run leaves."""
        memory = counted(plan.memory, seconds)
        out = budgets.exceeded(self.policy.budgets, memory["used"]) or tree.exceeded()
        late = budgets.cut_off(seconds, prompts.cut_off())
        return self.refused(replace(plan, memory=memory), scene, out or late)

    def refused(self, plan: Plan, scene: Scene, out: Exceeded) -> Plan:
        """The plan where a budget has no room for the model call: the run leaves."""
        verdict = engine.held_to(plan.verdict, out)
        why = ("budget", str(out))
        return self._exit(plan.before, plan.memory, scene, verdict, why)

    def before_tool(self, ask: Ask, place: int | None = None) -> ToolMessage | None:
        """The answer to a call that is not to be executed; `None` if it is.

        Args:
            ask: The call, and what is known then.
            place: How many of its batch were sent out before it, where the host knows;
                its id does not tell where ids are used twice.
        """
        if self.policy.observe_only:
            return None
        try:
            return self._answer(ask, place)
        except Exception:  # the budgets are checked again before the next model call
            hooks.logger.exception("loopguard: a call can't be judged, so it is made")
            return None

    def _answer(self, ask: Ask, place: int | None) -> ToolMessage | None:
        call, memory, name = ask.call, ask.memory, ask.call["name"]
        reply, results = newest_reply(ask.messages)
        if reply is not None and exits.KEY in reply.response_metadata:
            return None  # the guard itself asks
        ahead = past.ahead(reply, results, call, place)
        made = self.acts.made(ask, ahead)
        if past.is_early(call, reply, memory) and offers_leave(ask.tools):
            return refused(call, prompts.nothing_tried(), "early")
        refusal = admit(
            self.policy,
            memory,
            name,
            {**defaults(ask.tools.get(name)), **call["args"]},
            ahead=[other["name"] for other in made],
            spend=tree.asked(memory),
            outer=tree.refuses_call(),
        )
        if refusal is None:
            return self.acts.answered(ask, ahead)
        text = refusal.text(name)
        thread = past.thread_of(memory["host"])
        self._tell("blocked", thread, None, Verdict(), text)
        return refused(call, text, refusal.why)

    def ask(
        self,
        data: Any,
        call: Mapping[str, Any],
        messages: Sequence[BaseMessage],
        tools: Mapping[str, BaseTool],
    ) -> Ask:
        """A call, and what is known of it, for `before_tool` and `acts`.

        Args:
            data: The channel's value, as it was stored.
            call: The call.
            messages: The messages of the state.
            tools: The tools by name, as far as the host knows them.
        """
        memory = memories.load(data)
        left = self.seconds_left(memory)
        return Ask(call=call, memory=memory, messages=messages, tools=tools, left=left)

    def seconds_left(self, memory: Memory) -> float | None:
        """Active seconds left before a call has to be cut; `None` for no limit."""
        if self.policy.observe_only:
            return None
        spend, used = tree.asked(memory), memory["used"]
        own = budgets.seconds_left(self.policy.budgets, used, spend)
        return tree.seconds_left(own)

    def _check_price(self, scene: Scene, memory: Memory) -> None:
        """Refuse at the start of a thread; what is met later is counted as free."""
        if scene.named_later or self.policy.observe_only or past.is_priced(memory):
            return
        pricing.at_start(self.policy, scene.model, self.stronger)

    def measured(
        self, reply: AIMessage, scene: Scene, seconds: float, size: Size | None = None
    ) -> dict[str, Any]:
        """What a reply took."""
        known = pricing.measured(self.policy, reply, scene.seen, scene.model, size=size)
        return {**known, "seconds": seconds}

    def _t(self, host: Mapping[str, Any]) -> float | None:
        """Seconds since the run began, waiting included."""
        began = host.get("began")
        if not isinstance(began, int | float):
            return None
        return round(max(0.0, self.wall() - began), 3)

    def feed(self, memory: Memory, event: Event, thread: str) -> tuple[Verdict, Memory]:
        """What is decided on an event, and the memory after it; observers are told."""
        verdict, after = engine.decide(self.policy, memory, event)
        for where, error in verdict.faults:
            if where in memory["faults"]:  # said when it failed first
                continue
            hooks.logger.warning(
                "loopguard: %s failed and was left out: %s", where, error
            )
        self._tell("seen", thread, event, verdict)
        if verdict.faults:
            self._tell("faulted", thread, event, verdict)
        if verdict.finding is not None and verdict.action != "continue":
            self._tell("detected", thread, event, verdict, verdict.finding.detail)
        return verdict, after

    def _tell(
        self,
        name: hooks.Name,
        thread: str,
        event: Event | None,
        verdict: Verdict,
        text: str = "",
    ) -> None:
        if self.observers:
            told = hooks.GuardEvent(
                name=name,
                thread=thread,
                agent=self.agent,
                event=event,
                verdict=verdict,
                text=text,
            )
            hooks.notify(self.observers, told)

    def _catch_up(self, memory: Memory, scene: Scene) -> tuple[Verdict, Memory]:
        before = memory
        events, noted = past.caught_up(memory, scene, self.agent, self.policy)
        thread = past.thread_of(noted)
        events, left = aside.told(events, scene.beside)
        seen, memory = self._fed(memory, scene, events, thread)
        noted["priced"] = past.is_priced(memory) or not scene.named_later
        if "began" not in memory["host"] or any(map(past.starts_afresh, events)):
            noted["began"] = self.wall()
        vain = bool(noted.get("vain"))
        verdict = due(self.policy, seen, before, memory, vain=vain)
        noted |= {"exit": None} if verdict.hands_up else {}
        chosen = noted.pop("chosen", None)
        memory = answers.carried_out(chosen, self.policy, before, memory, scene)
        noted["acts"] = (
            self.acts.derived(run, scene.tools)
            if (run := past.joined(before, scene))
            else self.acts.noted(memory["host"], scene, noted, events)
        )
        memory = past.with_host(memory, **noted, **scene.pace(memory["host"]))
        out, memory = aside.charged(self.policy, memory, scene, left)
        refused = past.refused_by_fleet(memory["host"])
        return engine.held_to(verdict, refused or out), memory

    def _fed(
        self, memory: Memory, scene: Scene, events: Sequence[Event], thread: str
    ) -> tuple[Seen, Memory]:
        """What is decided on events, and the memory with the points that are good."""
        verdict: Verdict | None = None
        warned = tuple((memory["host"].get("due") or {}).get("warnings", ()))
        for event in events:
            seen, memory = self.feed(memory, event, thread)
            if seen.action != "continue" or not isinstance(event, Compaction):
                verdict = seen  # a compaction answers no finding
            warned = () if past.starts_afresh(event) else (*warned, *seen.warnings)
            word = isinstance(event, Human)
            if seen.good or word:
                memory = past.marked_good(memory, seen.i, scene, word=word)
        return (verdict, warned), memory

    def _exit(
        self,
        before: Memory,
        memory: Memory,
        scene: Scene,
        verdict: Verdict,
        why: tuple[str, str],
    ) -> Plan:
        plan = ended(self.policy, self.agent, before, memory, scene, verdict, why)
        assert plan.final is not None
        assert plan.report is not None
        name: hooks.Name = "asked" if plan.asks else "exited"
        text = plan.report["detail"] if plan.asks else text_of(plan.final)
        self._tell(name, past.thread_of(memory["host"]), None, verdict, text)
        return plan

    def _go_on(
        self, before: Memory, memory: Memory, scene: Scene, verdict: Verdict
    ) -> Plan:
        thread = past.thread_of(memory["host"])
        memory, said = self._intervened(memory, scene, verdict, thread)
        if verdict.warnings:
            warning = prompts.budget_warning(verdict.warnings)
            said = f"{said}\n{warning}" if said else warning
            self._tell("budget_warned", thread, None, verdict, warning)
        if verdict.recovered:
            self._tell("recovered", thread, None, verdict)
        rung = self.policy.ladder.at(memory["ladder"].get("rung", 0))
        climbed = isinstance(rung, Escalate) and memory["ladder"].get("left", 0) > 0
        stronger = rung.model if climbed and isinstance(rung, Escalate) else None
        if stronger is not None:
            memory = past.with_host(memory, switched=True)
        return Plan(
            before=before,
            memory=memory,
            verdict=verdict,
            note=said,
            stronger=stronger,
        )

    def _intervened(
        self, memory: Memory, scene: Scene, verdict: Verdict, thread: str
    ) -> tuple[Memory, str]:
        """The memory after a reflection or an escalation, and the note for the end."""
        finding, action = verdict.finding, verdict.action
        if finding is None or action not in ("reflect", "escalate"):
            return memory, ""
        if action == "escalate" and not scene.counted:
            memory, text = past.rolled_back(memory, scene, finding)
            self._tell("escalated", thread, None, verdict, text)
            return memory, ""
        rung = self.policy.ladder.at(verdict.rung)
        tokens = rung.tokens if isinstance(rung, Reflect) else Reflect().tokens
        text = prompts.reflection(finding, memory["pad"], list(scene.tools), tokens)
        name: hooks.Name = "reflected" if action == "reflect" else "escalated"
        self._tell(name, thread, None, verdict, text)
        return memory, text
