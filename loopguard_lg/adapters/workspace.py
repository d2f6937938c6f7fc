"""What a guard does about the files that its agent works on.

Snapshots at checks that pass, the way back to them, edits that no call tells of, and
locks for agents that work in one folder at the same time. What fails here is logged
once for each message and never costs the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest

from loopguard_lg import prompts
from loopguard_lg.adapters import exits, past, touched
from loopguard_lg.adapters.driving import Do, Work, off_loop
from loopguard_lg.adapters.messages import refused, step_of
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.adapters.tool_call import Actor, Result
from loopguard_lg.adapters.touched import Touched
from loopguard_lg.errors import WorkspaceError
from loopguard_lg.hooks import GuardEvent, logger
from loopguard_lg.ladder import Escalate
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.workspace import targets
from loopguard_lg.workspace.git import Change, Snapshots
from loopguard_lg.workspace.locks import Locks
from loopguard_lg.workspace.waits import Grant
from loopguard_lg.workspace.watch import Call, Change as Seen, Watch

T = TypeVar("T")
Asked: TypeAlias = tuple[ToolCall, BaseTool | None]
"""A call, and its tool where that is known."""


class Workspace:
    """A folder that agents work in, for `LoopGuardMiddleware(workspace=...)`.

    One object may serve any number of agents and threads at once; agents that are to
    keep out of each other's files share one, or the locks of one server.

    Args:
        root: The folder.
        snapshots: Saves the files whenever a check passes; `None` for none. By default
            in the user's cache folder.
        watch: Sees edits that no call tells of; `None` for none.
        locks: Who may edit which file; `None`: anybody.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        snapshots: Snapshots | None | bool = True,
        watch: Watch | None | bool = True,
        locks: Locks | None = None,
    ) -> None:
        if not os.fspath(root):  # a variable that is not set; `Path` reads it as "."
            raise WorkspaceError(f"root={root!r} is not a folder: give one")
        self.root = Path(root)
        self.snapshots = Snapshots(root=self.root) if snapshots is True else snapshots
        self.watch = Watch(root=self.root) if watch is True else watch
        self.locks = locks
        if self.watch and locks:
            self.watch.holders = self._holders
        self._said: set[str] = set()

    def restore(
        self, state: Mapping[str, Any], *, dry_run: bool = False
    ) -> list[Change]:
        """Put the files of a thread back to its newest good snapshot, on your word.

        Args:
            state: What the run returned, if the guard ended it, or the values of the
                thread's state: `graph.get_state(config).values`.
            dry_run: Only say what would be done.

        Raises:
            WorkspaceError: No check has passed so far, or files can't be put back.
        """
        ended = (exits.ended(state) or {}).get("workspace") or {}
        memory = state.get("loopguard") or {}
        known = memory.get("host", {}).get("workspace") or {}
        good = ended.get("snapshot") or known.get("good")
        if not good:
            raise WorkspaceError(
                "no check has passed in this thread: no snapshot is good"
            )
        return self._restored(good, dry_run=dry_run)

    def undo(self) -> list[Change]:
        """Put back what the newest restore has changed; again: do it once more.

        Raises:
            WorkspaceError: Nothing was restored so far.
        """
        done = self._shots.undo()
        if self.watch:
            self.watch.forget()
        return done

    @property
    def _shots(self) -> Snapshots:
        if not self.snapshots:
            raise WorkspaceError("this workspace takes no snapshots: give it some")
        return self.snapshots

    def _restored(
        self, good: str, *, agent: str = "", dry_run: bool = False
    ) -> list[Change]:
        if dry_run:
            return self._shots.compare(good)
        holders = self._holders() if agent else {}
        others = [path for path, who in holders.items() if who != agent]
        done = self._shots.restore(good, keep=others)
        if self.watch:
            self.watch.forget()  # nobody edited that
        return done

    def before(self, actor: Actor, plan: Plan, told: Sequence[GuardEvent]) -> Plan:
        """The plan of a model call, with what is done about the files.

        Args:
            actor: Who acts.
            plan: What the guard plans.
            told: What it has seen and decided since the last look, oldest first.
        """
        return self._tried(lambda: self._planned(actor, plan, told)) or plan

    def _planned(self, actor: Actor, plan: Plan, told: Sequence[GuardEvent]) -> Plan:
        policy, agent = actor.policy, actor.agent
        known = dict(plan.memory["host"].get("workspace") or {})
        state, back = self._looked(policy, known, told)
        if back and state.get("good") and not policy.observe_only:
            plan, state = self._gone_back(plan, state, agent), {**state, "edits": []}
        if state != known:
            plan = replace(plan, memory=past.with_host(plan.memory, workspace=state))
        return plan if plan.report is None else self._left(plan, state, agent)

    def _looked(
        self, policy: Policy, state: targets.State, told: Sequence[GuardEvent]
    ) -> tuple[targets.State, bool]:
        """What is known after some events, and whether they ask for the files back."""
        back = False
        for event in told:
            kinds = [finding.kind for finding in event.verdict.findings]
            state, good = targets.after(state, event.event, kinds, policy.tools)
            if good and (saved := self._saved(event)):
                state = {**state, "good": saved, "edits": []}
            back |= targets.asks_back(event.event) or _goes_back(policy, event)
        return state, back

    def _saved(self, event: GuardEvent) -> str | None:
        if not self.snapshots:
            return None
        note = f"{event.agent} turn {event.verdict.i}: a check passed"
        shot = self._tried(lambda: self._shots.take(note))
        return shot.id if shot else None

    def _gone_back(self, plan: Plan, state: Mapping[str, Any], agent: str) -> Plan:
        done = self._tried(lambda: self._restored(state["good"], agent=agent))
        paths = [change.path for change in done or () if change.act != "keep"]
        if done is None or (state.get("edits") and not paths):
            return plan  # ignored, too large, others': the edits are still there
        said = prompts.restored(paths)
        return replace(
            plan,
            memory=_with_edits_undone(plan.memory, state),
            note=f"{plan.note}\n{said}" if plan.note else said,
        )

    def _left(self, plan: Plan, state: Mapping[str, Any], agent: str) -> Plan:
        """The end of a run: its report says how the files are, its locks are free."""
        final = plan.final
        assert plan.report is not None
        assert final is not None
        files: dict[str, Any] = {"snapshot": state.get("good")}
        if self.locks:
            files["locks"] = self._tried(self.locks.report)
        report = {**plan.report, "workspace": files}
        metadata = {**final.response_metadata, exits.KEY: report}
        final = final.model_copy(update={"response_metadata": metadata})
        if not final.tool_calls:  # a question is not the end
            self.done(agent)
        return replace(plan, report=report, final=final)

    def done(self, agent: str) -> None:
        """An agent's run is over: what it holds is free."""
        locks = self.locks
        if locks:
            self._tried(lambda: locks.release(agent))

    def around(
        self, actor: Actor, request: ToolCallRequest, work: Work[Result]
    ) -> Work[Result]:
        """Execute a call with the lock on its file, and note which files it changes.

        Args:
            actor: Who acts.
            request: The call.
            work: Executes it.
        """
        asked = (request.tool_call, request.tool)
        refusal = yield from self.refusal(actor, asked)
        if refusal is not None:
            work.close()
            return refusal
        return (yield from self.watched(actor, [asked], work, touched.noted))

    def refusal(self, actor: Actor, asked: Asked) -> Work[ToolMessage | None]:
        """The answer to a call on whose file others work; else its lock is taken."""
        path, _ = self._file(actor, asked)
        if not path or not self.locks or actor.policy.observe_only:
            return None
        text = yield from self._locked(self.locks, path, actor.agent)
        return refused(asked[0], text, "locked") if text else None

    def watched(
        self,
        actor: Actor,
        asked: Sequence[Asked],
        work: Work[T],
        noted: Callable[[T, Touched], T],
    ) -> Work[T]:
        """Execute calls, and note which files each has changed.

        Args:
            actor: Who acts.
            asked: The calls.
            work: Executes them.
            noted: What `work` gives, with what was changed by the call of each id.
        """
        watch, paths = self.watch, self._changing(actor, asked)
        if not watch or not paths:
            return (yield from work)
        going = _Going(watch, actor.agent, paths)
        end = self._aside(going.end)
        if not (yield from _or_else(_carried_out(self._aside(going.begin)), end)):
            yield end
            return (yield from work)
        result = yield from _or_else(work, end)
        seen = yield self._aside(
            lambda: {id_: self._seen(watch, call) for id_, call in going.calls.items()}
        )
        return noted(result, touched.rows(seen or {}, actor.began))

    def _file(self, actor: Actor, asked: Asked) -> tuple[str, bool]:
        """The file that a call writes, if it names one, and whether it may write."""
        call, tool = asked

        def named() -> tuple[str, bool]:
            step = step_of(call, None, {}, tool)
            path, changes = targets.names_file(step, actor.policy.tools)
            return self._inside(path), changes

        return self._tried(named) or ("", False)

    def _changing(self, actor: Actor, asked: Sequence[Asked]) -> dict[str, str]:
        """The file, if any, that each call names which may write, by the call's id."""
        found = [(call["id"] or "", self._file(actor, (call, t))) for call, t in asked]
        return {id_: path for id_, (path, changes) in found if changes}

    def _seen(self, watch: Watch, call: Call) -> list[Seen]:
        """What a call has changed, without what the tree ignores: logs, builds."""
        found = watch.end(call)
        if not found or not self.snapshots:
            return found
        ignored = self.snapshots.ignored(change.path for change in found)
        return [change for change in found if change.path not in ignored]

    def _locked(self, locks: Locks, path: str, agent: str) -> Work[str]:
        """Why a file may not be edited now; nothing where locks are out of order."""
        grant = yield from self._granted(locks, path, agent)
        if grant is None or (grant.held and not grant.again):
            return ""
        return prompts.locked(path, "" if grant.held else grant.by.partition("/")[0])

    def _granted(self, locks: Locks, path: str, agent: str) -> Work[Grant | None]:
        """The lock on a file, if it can be had in time; `None`: locks are out of order.

        Whoever is refused leaves the line.
        """
        slept, attempt = 0.0, 0
        while True:
            attempt += 1
            grant: Grant | None = yield self._aside(lambda: locks.attempt(path, agent))
            if grant is None or grant.held:
                return grant
            if slept >= locks.patience:
                yield self._aside(lambda: locks.release(agent, path))
                return grant
            pause = locks.pause(attempt, slept)
            slept += pause
            yield Do(partial(locks.sleep, pause), partial(locks.asleep, pause))

    def _inside(self, path: str) -> str:
        """A path relative to the folder, as far as it is in it."""
        top = os.fspath(self.root)
        with suppress(ValueError):
            if path.startswith("/"):
                return os.path.relpath(path, top) if _is_in(path, top) else path
        return path

    def _holders(self) -> Mapping[str, str]:
        locks = self.locks
        found = self._tried(locks.report) if locks else None
        return found["held"] if found else {}

    def _aside(self, work: Callable[[], Any]) -> Do:
        """Something to do off the event loop; gives `None` where it fails."""
        return off_loop(self._tried, work)

    def _tried(self, work: Callable[[], T]) -> T | None:
        """What `work` gives; a failure is logged, once for each message."""
        try:
            return work()
        except Exception as error:  # files are an extra: the run goes on without
            said = f"{type(error).__name__}: {error}"
            if said not in self._said:
                self._said = {*[*self._said][:99], said}
                logger.warning("loopguard: workspace %s: %s", self.root, error)
            return None


class _Going:
    """Calls while they are watched, by their ids.

    They are begun in a thread, which goes on where the run is cancelled meanwhile.
    """

    def __init__(self, watch: Watch, agent: str, paths: Mapping[str, str]) -> None:
        self.calls: dict[str, Call] = {}
        self._watch, self._agent, self._paths = watch, agent, paths
        self._over = False

    def begin(self) -> bool:
        """Begin them all; whether that is done, for who sees no failure."""
        for id_, path in self._paths.items():
            self.calls[id_] = self._watch.begin(self._agent, path)
        if self._over:  # nobody else ends what has begun since
            self.end()
        return True

    def end(self) -> None:
        """End those that have begun: from now on changes are others'."""
        self._over = True
        for call in [*self.calls.values()]:
            self._watch.end(call)


def _with_edits_undone(memory: Memory, state: Mapping[str, Any]) -> Memory:
    """The memory without what was written since the files were last good."""
    host = memory["host"]
    acts, hidden = dict(host.get("acts") or {}), list(past.hidden_of(host))
    for receipts in ("done", "cache"):  # of what is no longer so
        acts.pop(receipts, None)
    first, last, text = hidden.pop() if hidden else (None, None, "")
    pad, text = targets.undone(state, memory["pad"], text)
    hidden += [[first, last, text]] if last else []
    return past.with_host({**memory, "pad": pad}, acts=acts, hidden=hidden)


def _carried_out(act: Do) -> Work[Any]:
    return (yield act)


def _or_else(work: Work[T], act: Do) -> Work[T]:
    """`work`, with something to do if it fails."""
    try:
        return (yield from work)
    except Exception:
        yield act
        raise
    except BaseException:  # cancelled: nobody waits for anything more
        act.plain()
        raise


def _goes_back(policy: Policy, event: GuardEvent) -> bool:
    rung = policy.ladder.at(event.verdict.rung)
    opted = isinstance(rung, Escalate) and rung.files
    return opted and event.name == "escalated"


def _is_in(path: str, top: str) -> bool:
    return os.path.commonpath([os.path.normpath(path), top]) == top
