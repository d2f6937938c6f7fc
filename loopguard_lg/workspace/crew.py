"""Agents that are run, stopped with their children, and started again.

`recovery` decides; `Crew` carries it out on an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from loopguard_lg.errors import WorkspaceError
from loopguard_lg.hooks import GuardEvent, logger
from loopguard_lg.workspace import recovery
from loopguard_lg.workspace.locks import Locks
from loopguard_lg.workspace.recovery import Act, Ending, Respawn, State


@dataclass(kw_only=True)
class Attempt:
    """One start of an agent, as its function sees it.

    Attributes:
        agent: Its name.
        number: Which start this is, from 1.
        partial: What it has so far; kept when it is stopped. After a fresh start it is
            what the run before has left.
        stepped: Whether it has done anything: before that, an error is a failed start.
    """

    agent: str
    number: int
    partial: Any = None
    stepped: bool = False

    def keep(self, partial: Any) -> None:
        """Note what there is so far; the first time, the start has worked."""
        self.partial, self.stepped = partial, True


Start: TypeAlias = Callable[[Attempt], Awaitable[Any]]
"""Runs an agent once and returns its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an agent ended, after all its starts.

    Attributes:
        agent: Its name.
        act: `done`, or what is left to do: `park`, `escalate`.
        result: What it returned, if it is done.
        partial: What it had, if not.
        reason: Why it is not done.
        starts: How often it was started.
    """

    agent: str
    act: Act
    result: Any = None
    partial: Any = None
    reason: str = ""
    starts: int = 1


@dataclass(kw_only=True)
class Crew:
    """The agents under way in this process.

    Attributes:
        respawn: How often they are started again.
        locks: What they hold is free when they end.
        ending: Reads from a result whether the run ended in a loop or a budget.
        asleep: Lets seconds pass on an event loop.
    """

    respawn: Respawn = field(default_factory=Respawn)
    locks: Locks | None = None
    ending: Callable[[Any], tuple[Ending, str]] = lambda result: ("done", "")
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict, init=False)
    _parents: dict[str, str] = field(default_factory=dict, init=False)
    _stopped: dict[str, str] = field(default_factory=dict, init=False)
    _states: dict[str, State] = field(default_factory=dict, init=False)
    _orphans: set[str] = field(default_factory=set, init=False)

    async def run(self, agent: str, start: Start, *, parent: str = "") -> Outcome:
        """Run an agent until it is done, parked, or its orchestrator's to decide.

        Args:
            agent: Its name, of which there is one at a time.
            start: Runs it once.
            parent: The agent for which it works: it is stopped with that one.

        Raises:
            WorkspaceError: An agent of that name runs, or is parked.
        """
        parked = self._states.get(agent, {}).get("parked")
        if agent in self._parents or parked:
            why = f"is parked: {parked}" if parked else "runs already"
            raise WorkspaceError(f"agent {agent!r} {why}")
        self._parents[agent] = parent
        try:
            return await self._until_over(agent, start)
        finally:
            del self._parents[agent]
            self._stopped.pop(agent, None)
            self._orphans.discard(agent)

    async def _until_over(self, agent: str, start: Start) -> Outcome:
        number, partial = 0, None
        while True:
            number += 1
            attempt = Attempt(agent=agent, number=number, partial=partial)
            result, ending, detail = await self._once(attempt, start)
            partial = attempt.partial
            before = self._states.get(agent, {})
            state, then = recovery.after(self.respawn, before, ending, detail)
            self._states[agent] = state
            if agent in self._orphans:  # whoever wanted it has been stopped
                then = recovery.Next(act="escalate", reason=detail)
            if then.act != "start":
                return Outcome(
                    agent=agent,
                    act=then.act,
                    result=result if then.act == "done" else None,
                    partial=partial,
                    reason=then.reason,
                    starts=number,
                )
            await self.asleep(then.after)

    async def _once(self, attempt: Attempt, start: Start) -> tuple[Any, Ending, str]:
        agent = attempt.agent

        async def begun() -> Any:
            return await start(attempt)

        task = asyncio.create_task(begun())
        self._tasks[agent] = task
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # from outside: nobody waits for a result
            self.stop(agent, "cancelled")
            await asyncio.wait({task})
            raise
        finally:
            del self._tasks[agent]
            await self._freed(agent)
        if task.cancelled():
            return None, "loop", self._stopped.pop(agent, "cancelled")
        error = task.exception()
        if error is not None:
            said = f"{type(error).__name__}: {error}"
            return None, "failed" if attempt.stepped else "spawn_failed", said
        result = task.result()
        return result, *self.ending(result)

    async def _freed(self, agent: str) -> None:
        """Clear its locks; those of a store that is down end with their leases."""
        try:
            if self.locks:
                await asyncio.to_thread(self.locks.clear, agent)
        except Exception as error:  # its result is worth more than its locks
            logger.warning("loopguard: locks of %s are not cleared: %s", agent, error)

    def stop(self, agent: str, reason: str) -> None:
        """Stop an agent and, before it, the agents that work for it.

        Its partial result is kept, its locks and waits are cleared, and `run` decides
        what comes next. Call it on the crew's event loop.
        """
        for name in reversed(self._family(agent)):
            why = reason
            if name != agent:
                self._orphans.add(name)
                why = f"its parent {self._parents[name]} was stopped"
            if name in self._tasks:
                self._stopped[name] = why
                self._tasks[name].cancel()

    def _family(self, agent: str) -> list[str]:
        """An agent, and those that work for it, each after the one it works for."""
        found = [agent]
        for name in found:  # grows; whose work goes in a circle is in it once
            found += [
                child
                for child, parent in self._parents.items()
                if parent == name and child not in found
            ]
        return found

    def watching(self, *kinds: str) -> Callable[[GuardEvent], None]:
        """An observer that stops an agent when its guard sees a loop of these kinds.

        The guard's `name` is the agent's. Without kinds, any loop that is acted on.
        """
        loop = asyncio.get_running_loop()

        def observe(event: GuardEvent) -> None:
            finding = event.verdict.finding
            if event.name != "detected" or finding is None:
                return
            if not kinds or finding.kind in kinds:
                logger.warning("loopguard: agent %s is stopped", event.agent)
                loop.call_soon_threadsafe(self.stop, event.agent, finding.detail)

        return observe

    def unpark(self, agent: str) -> None:
        """Let a parked agent be started again."""
        self._states[agent] = recovery.unparked(self._states.get(agent, {}))

    def report(self) -> Mapping[str, Any]:
        """Who runs for whom, who is parked, and how the locks are, as plain data."""
        return {
            "running": dict(self._parents),
            "parked": {
                a: s["parked"] for a, s in self._states.items() if s.get("parked")
            },
            "locks": self.locks.report() if self.locks else {},
        }
