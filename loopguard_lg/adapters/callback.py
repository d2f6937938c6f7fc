"""`LoopGuardCallback`: watches anything that LangChain runs.

It hears of model calls and tools, wherever in chains, graphs, subgraphs and subagents
they run, and changes nothing: what the guard would have done is reported. A callback
can't answer a call or speak to a model; the one thing it can do is to end a run by an
error. What it knows of a run is dropped when the run ends.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult

from loopguard_lg import hooks
from loopguard_lg.adapters.watching import RunWatch, Watched
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import Observer
from loopguard_lg.policy import Policy

_RUNS = 256
"""Runs that are watched at once; more are forgotten, the oldest first."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something runs: in which run, and in which of its tools, if any."""

    root: UUID
    tool: UUID | None = None


@dataclass(slots=True)
class _Started:
    """A model call or a tool that is running."""

    agent: str
    scope: str
    at: float
    sent: Sequence[BaseMessage] = ()
    call: Mapping[str, Any] = field(default_factory=dict)


class LoopGuardCallback(BaseCallbackHandler):
    """Reports what the guard would have done; with `halt` it ends a run by an error.

    One object may watch any number of runs at once. Give it in
    `config={"callbacks": [...]}`.

    Args:
        policy: The settings; the default policy is safe for production.
        halt: Raise `LoopHaltedError` before the next model call where the guard would
            have ended the run.
        observers: Are told what the guard saw.
        keep: Reports of finished runs that are kept.
        clock: Seconds from any start.

    Attributes:
        runs: What was seen in the runs that have ended, the newest last.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        halt: bool = False,
        observers: Sequence[Observer] | Observer = (),
        keep: int = 32,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.policy = Policy.checked(policy)
        self.raise_error = halt
        # inline, an error would leave the other handlers of the event unawaited
        self.run_inline = not halt
        self.runs: deque[Watched] = deque(maxlen=keep)
        self._observers = hooks.checked(observers)
        self._clock = clock
        self._live: OrderedDict[UUID, RunWatch] = OrderedDict()
        self._places: dict[UUID, _Place] = {}
        self._started: dict[UUID, _Started] = {}
        self._lock = RLock()  # parts of a run may run in threads

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember where it runs."""
        with self._quietly():
            self._placed(run_id, parent_run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Report the run, if it has ended."""
        with self._quietly():
            self._left(run_id)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Report the run, if it has ended."""
        with self._quietly():
            self._left(run_id)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember where it runs: a model may be asked inside."""
        self.on_chain_start(
            serialized, query, run_id=run_id, parent_run_id=parent_run_id
        )

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget where it ran."""
        self.on_chain_end(documents, run_id=run_id)

    def on_retriever_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Forget where it ran."""
        self.on_chain_error(error, run_id=run_id)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Judge what happened since the model was last called.

        Raises:
            LoopHaltedError: The guard would have ended the run, and may.
        """
        with self._quietly():
            watch, started = self._begun(run_id, parent_run_id, metadata or {})
            started.sent = [m for part in messages for m in part]
            watch.asked(started.scope, started.agent, started.sent)
            if self.raise_error and not self.policy.observe_only:
                self._check(watch, started.scope, run_id)

    def _check(self, watch: RunWatch, scope: str, run_id: UUID) -> None:
        """Halt where the guard would: LangChain tells nothing more of such a call."""
        try:
            watch.check(scope)
        except LoopHaltedError:
            self._started.pop(run_id, None)
            self._places.pop(run_id, None)
            raise

    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """The same for a model that completes texts."""
        self.on_chat_model_start(
            serialized,
            [[HumanMessage(text) for text in prompts]],
            run_id=run_id,
            parent_run_id=parent_run_id,
            metadata=metadata,
        )

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Count the reply, and keep it until its calls have results."""
        with self._quietly():
            place, started = self._ended(run_id)
            found = [made[0] for made in response.generations if made]
            for made in found[:1] if started else ():
                reply = _message(made)
                seconds = self._clock() - started.at
                watch = self._watch(place.root, {})
                watch.replied(
                    started.scope, started.agent, reply, started.sent, seconds
                )
            self._left(run_id)

    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Let go of a call that failed."""
        with self._quietly():
            self._ended(run_id)
            self._left(run_id)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember the call; what runs inside is another agent's."""
        with self._quietly():
            _, started = self._begun(run_id, parent_run_id, metadata or {})
            name = kwargs.get("name") or (serialized or {}).get("name") or "tool"
            args = inputs if inputs is not None else {"input": input_str}
            started.call = {"name": name, "args": args, "id": tool_call_id or ""}
            self._places[run_id] = _Place(self._places[run_id].root, run_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the result for the turn that it belongs to."""
        with self._quietly():
            self._result(run_id, output, "success")

    def on_tool_error(
        self, error: BaseException, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep the error for the turn that it belongs to."""
        with self._quietly():
            self._result(run_id, f"{type(error).__name__}: {error}", "error")

    def _result(self, run_id: UUID, output: Any, status: Any) -> None:
        place, started = self._ended(run_id)
        if started is not None:
            if not isinstance(output, ToolMessage):
                output = ToolMessage(str(output), tool_call_id="", status=status)
            watch = self._watch(place.root, {})
            watch.inside_ended(run_id)
            seconds = self._clock() - started.at
            watch.result(started.scope, started.call, output, seconds)
        self._left(run_id)

    def _begun(
        self, run_id: UUID, parent: UUID | None, metadata: Mapping[str, Any]
    ) -> tuple[RunWatch, _Started]:
        place = self._placed(run_id, parent)
        ns = str(metadata.get("langgraph_checkpoint_ns") or "").rpartition("|")[0]
        agent = str(metadata.get("langgraph_node") or "")
        scope = f"{place.tool or ''}|{ns}"
        started = _Started(agent, scope, self._clock())
        self._started[run_id] = started
        return self._watch(place.root, metadata), started

    def _placed(self, run_id: UUID, parent: UUID | None) -> _Place:
        at = self._places.get(parent) if parent is not None else None
        place = at or _Place(parent or run_id)
        self._places[run_id] = place
        return place

    def _watch(self, root: UUID, metadata: Mapping[str, Any]) -> RunWatch:
        watch = self._live.get(root)
        if watch is None:
            thread = str(metadata.get("thread_id") or "")
            watch = RunWatch(self.policy, str(root), thread, self._observers)
            self._live[root] = watch
            while len(self._live) > _RUNS:
                self.runs.append(self._live.popitem(last=False)[1].report())
        return watch

    def _ended(self, run_id: UUID) -> tuple[_Place, Any]:
        place = self._places.get(run_id) or _Place(run_id)
        return place, self._started.pop(run_id, None)

    def _left(self, run_id: UUID) -> None:
        self._places.pop(run_id, None)
        watch = self._live.pop(run_id, None)
        if watch is not None:
            self.runs.append(watch.report())

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """A fault in here costs what would have been seen, not the run."""
        try:
            with self._lock:
                yield
        except LoopHaltedError:
            raise
        except Exception:
            hooks.logger.exception("loopguard: the callback failed")


def _message(made: Generation) -> BaseMessage:
    return made.message if isinstance(made, ChatGeneration) else AIMessage(made.text)
