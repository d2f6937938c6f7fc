"""Going back for real: channels put back in place, and forks from the last good point.

The default rollback is logical: what is gone back over is out of the model's view, and
the state keeps it. Here are the two ways beyond that. `Escalate(restore=[...])` names
channels that are put back, in the run, to what they were at the last good point.
`fork_from_last_good` is for drivers: it makes another branch of the thread there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast, get_origin

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.errors import EmptyChannelError
from langgraph.types import Overwrite

from loopguard_lg import hooks, memory as memories, prompts
from loopguard_lg.adapters.driving import Do, Work
from loopguard_lg.adapters.graph_state import identified, parts, update_of
from loopguard_lg.adapters.messages import note
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.adapters.saved import Saved, channels
from loopguard_lg.errors import NothingGoodError
from loopguard_lg.findings import Finding
from loopguard_lg.ladder import Escalate
from loopguard_lg.memory import Memory, fold, write
from loopguard_lg.policy import Policy

_NOTE_BYTES = 1_000


def restored(
    plan: Plan, policy: Policy, config: RunnableConfig
) -> Work[dict[str, Any]]:
    """The update that puts the channels of an escalation back; empty where none is due.

    What can't be put back is logged and left as it is: a run is not broken for it.
    """
    rung = policy.ladder.at(plan.verdict.rung)
    names = rung.restore if isinstance(rung, Escalate) else ()
    if plan.verdict.action != "escalate" or not names or policy.observe_only:
        return {}
    point = plan.memory["host"].get("back")
    if point is None:
        hooks.logger.warning("loopguard: no checkpoint to put %s back from", names)
        return {}
    past = _Past(Saved(config, point), channels(config))
    try:
        found: dict[str, Any] = yield Do(
            lambda: past.read(names), lambda: past.aread(names)
        )
    except Exception:
        hooks.logger.exception("loopguard: %s could not be put back", names)
        return {}
    return found


@dataclass(frozen=True, slots=True)
class _Past:
    """A checkpoint of the thread that runs."""

    at: Saved
    channels: Mapping[str, Any]

    def read(self, names: Iterable[str]) -> dict[str, Any]:
        """The update that sets these channels to what they were."""
        at, saved = self.at, self.at.read()
        known, deltas = self._split(saved, names)
        written = (
            at.saver.get_delta_channel_history(config=at.where, channels=deltas)
            if deltas
            else {}
        )
        return self._update(saved, known, written)

    async def aread(self, names: Iterable[str]) -> dict[str, Any]:
        """The same on an event loop."""
        at, saved = self.at, await self.at.aread()
        known, deltas = self._split(saved, names)
        written = (
            await at.saver.aget_delta_channel_history(config=at.where, channels=deltas)
            if deltas
            else {}
        )
        return self._update(saved, known, written)

    def _split(self, saved: Any, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """The channels that there are, and those whose writes have to be replayed."""
        if saved is None:
            raise NothingGoodError(f"the checkpoint {self.at.point} is gone")
        known = [name for name in names if name in self.channels]
        for name in sorted({*names} - {*known}):
            hooks.logger.warning("loopguard: no channel %r to put back", name)
        values = saved.checkpoint["channel_values"]
        deltas = [n for n in known if hasattr(self.channels[n], "replay_writes")]
        return known, [n for n in deltas if n not in values]

    def _update(
        self, saved: Any, known: list[str], written: Mapping[str, Any]
    ) -> dict[str, Any]:
        values = saved.checkpoint["channel_values"]
        return {n: _write(self.channels[n], n, values, written.get(n)) for n in known}


def _write(channel: Any, name: str, values: Mapping[str, Any], written: Any) -> Any:
    """What sets a channel to what it was: a reducer would add to what is there."""
    if written is not None:
        was = channel.from_checkpoint(written["seed"]) if "seed" in written else None
        was = channel.from_checkpoint(None) if was is None else was
        was.replay_writes(written["writes"])
        return Overwrite(was.get())
    value = _empty(channel.typ)
    if name in values:
        with suppress(EmptyChannelError):
            value = channel.from_checkpoint(values[name]).get()
    adds = isinstance(channel, BinaryOperatorAggregate)
    is_delta = hasattr(channel, "replay_writes")
    return Overwrite(value) if adds or is_delta else value


def _empty(kind: Any) -> Any:
    """What stands for a value that was never set: nothing can unset a channel."""
    made = get_origin(kind) or kind
    return made() if made in (list, dict, set, str, tuple) else None


def plain(value: Any) -> Any:
    """What a channel is put back to, as nodes read it."""
    return value.value if isinstance(value, Overwrite) else value


def unwritten(out: Any, put: Mapping[str, Any]) -> dict[str, Any]:
    """What is put back, but for what a node itself has written in the same step."""
    updates = [update_of(part) for part in parts(out)]
    keys = {key for u in updates if isinstance(u, Mapping) for key in u}
    return {key: value for key, value in put.items() if key not in keys}


def fork_from_last_good(
    graph: Any,
    config: RunnableConfig,
    values: Mapping[str, Any] | None = None,
    *,
    as_node: str | None = None,
    name: str = "loopguard",
    messages_key: str = "messages",
) -> RunnableConfig:
    """Make another branch of a thread at its last good point.

    Finished nodes do not run again; `graph.invoke(None, config)` with what is returned
    goes on from there. The branch knows what was tried, ruled out and done, is told so
    in a message, and what was spent stays spent. The old branch stays as it is. Only
    the state goes back: files and what tools did elsewhere do not.

    Args:
        graph: The compiled graph, with its checkpointer.
        config: The thread; the newest checkpoint is looked at, or the one named.
        values: More to write into the fork, a hint for the model for example.
        as_node: The node that is taken to have written it, where LangGraph can't tell.
        name: The guard's own name, if it has one.
        messages_key: The state key of the conversation.

    Returns:
        The configuration of the fork.

    Raises:
        NothingGoodError: No good point is known, or its checkpoint is gone.
    """
    fork = _Fork(graph.get_state(config), values, name, messages_key)
    at = fork.checkpoint
    known = [graph.get_state(at)] if at else graph.get_state_history(fork.thread)
    good = next(filter(fork.is_good, known), None)
    forked: RunnableConfig = graph.update_state(*fork.update(good), as_node=as_node)
    saver = getattr(graph, "checkpointer", None)
    if isinstance(saver, BaseCheckpointSaver):
        missing = fork.missing(saver.get_tuple(forked), good, saver)
        if missing is not None:
            saver.put(*missing)
    return forked


async def afork_from_last_good(
    graph: Any,
    config: RunnableConfig,
    values: Mapping[str, Any] | None = None,
    *,
    as_node: str | None = None,
    name: str = "loopguard",
    messages_key: str = "messages",
) -> RunnableConfig:
    """`fork_from_last_good` on an event loop."""
    fork = _Fork(await graph.aget_state(config), values, name, messages_key)
    at = fork.checkpoint
    good = (
        await graph.aget_state(at)
        if at
        else await _first(graph.aget_state_history(fork.thread), fork.is_good)
    )
    good = good if good is not None and fork.is_good(good) else None
    forked: RunnableConfig = await graph.aupdate_state(
        *fork.update(good), as_node=as_node
    )
    saver = getattr(graph, "checkpointer", None)
    if isinstance(saver, BaseCheckpointSaver):
        missing = fork.missing(await saver.aget_tuple(forked), good, saver)
        if missing is not None:
            await saver.aput(*missing)
    return forked


async def _first(found: AsyncIterator[Any], fits: Callable[[Any], bool]) -> Any:
    async for one in found:
        if fits(one):
            return one
    return None


@dataclass(frozen=True, slots=True)
class _Fork:
    """A fork to be made: the newest state, and what goes into it."""

    newest: Any
    values: Mapping[str, Any] | None
    name: str
    key: str

    @property
    def channel(self) -> str:
        """The state key of the guard's memory."""
        return self.name if self.name == "loopguard" else f"loopguard_{self.name}"

    @property
    def memory(self) -> Memory:
        """What the guard knows now."""
        return memories.load(self.newest.values.get(self.channel))

    @property
    def point(self) -> list[Any]:
        """The last good point before the loop began.

        Raises:
            NothingGoodError: None is known.
        """
        memory = self.memory
        points = memory["host"].get("good") or []
        onset = memory["ladder"].get("onset")
        before = [p for p in points if onset is None or p[0] < onset] or points[:1]
        if not before:
            raise NothingGoodError(
                f"no good point is known to {self.channel!r}: has this thread run with "
                "a guard, and with a checkpointer?"
            )
        found: list[Any] = before[-1]
        return found

    @property
    def thread(self) -> RunnableConfig:
        """The thread, without a checkpoint."""
        settings = self.newest.config["configurable"]
        kept = {k: settings[k] for k in ("thread_id", "checkpoint_ns") if k in settings}
        return {"configurable": kept}

    @property
    def checkpoint(self) -> RunnableConfig | None:
        """Where the good point is, as far as it was noted."""
        id_ = self.point[2] if len(self.point) > 2 else None
        where = {**self.thread["configurable"], "checkpoint_id": id_}
        return {"configurable": where} if id_ else None

    def is_good(self, state: Any) -> bool:
        """Whether a state is the good point: it ends on that message, and goes on."""
        messages = identified(state.values.get(self.key) or [])
        return bool(state.next and messages and messages[-1].id == self.point[1])

    def update(self, good: Any) -> tuple[RunnableConfig, dict[str, Any]]:
        """Where to write, and what."""
        if good is None:
            raise NothingGoodError(
                f"the checkpoint of message {self.point[1]!r} is gone: with "
                "durability='exit' only the last one is kept"
            )
        values = dict(self.values or {})
        messages = [*self._told(self.memory), *_listed(values.pop(self.key, ()))]
        found = {self.channel: self._kept(good), **values}
        return good.config, {**found, self.key: messages} if messages else found

    def _kept(self, good: Any) -> Memory:
        """The write to the guard's channel: what is known, done and spent by now."""
        before, now = memories.load(good.values.get(self.channel)), self.memory
        kept = {"used": now["used"], "pad": now["pad"], "warned": now["warned"]}
        word, acts = now["host"].get("word"), now["host"].get("acts") or {}
        done = {name: acts[name] for name in ("done", "lost") if name in acts}
        forked = word if word != before["host"].get("word") else None
        host = {**before["host"], "acts": done, "forked": forked}
        return write(before, {**before, **kept, "host": host})

    def missing(
        self, saved: CheckpointTuple | None, good: Any, saver: BaseCheckpointSaver[Any]
    ) -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions] | None:
        """What has to be put in the fork's place; `None` where it is whole.

        Before the first node of a run LangGraph takes an update for input, of which
        it drops what callers may not give: the guard's channel.
        """
        if saved is None or saved.parent_config is None:
            return None
        found = saved.checkpoint["channel_values"]
        if memories.load(found.get(self.channel))["used"] == self.memory["used"]:
            return None
        versions = saved.checkpoint["channel_versions"]
        new = {self.channel: saver.get_next_version(max(versions.values()), None)}
        whole = fold(good.values.get(self.channel), self._kept(good))
        checkpoint = {
            **saved.checkpoint,
            "channel_values": {**found, self.channel: whole},
            "channel_versions": {**versions, **new},
        }
        return saved.parent_config, cast(Checkpoint, checkpoint), saved.metadata, new

    def _told(self, memory: Memory) -> Iterator[BaseMessage]:
        ladder = memory["ladder"]
        if ladder.get("detail"):
            finding = Finding(
                kind=ladder["kind"],
                steps=(),
                count=0,
                threshold=0,
                detail=ladder["detail"],
            )
            yield note(prompts.rollback(finding, memory["pad"], [], _NOTE_BYTES))


def _listed(found: Any) -> list[Any]:
    return [*found] if isinstance(found, list | tuple) else [found]
