"""Guarded tool nodes: calls that must not be executed are answered by the guard."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from loopguard_lg import budgets, memory as memories
from loopguard_lg.adapters import driving, graph_files, leave
from loopguard_lg.adapters.acting import Ask
from loopguard_lg.adapters.driving import CutOffError, Run
from loopguard_lg.adapters.graph_joined import joined, latest, merged
from loopguard_lg.adapters.graph_nodes import Node, Work
from loopguard_lg.adapters.graph_site import is_resumable
from loopguard_lg.adapters.graph_state import (
    CHANNEL,
    State,
    opened,
    rewritten,
    written,
)
from loopguard_lg.adapters.kept import once
from loopguard_lg.adapters.ledger import spent
from loopguard_lg.adapters.messages import newest_reply, pair, step_of, with_mark
from loopguard_lg.adapters.saved import unreduced
from loopguard_lg.adapters.tool_batch import carried
from loopguard_lg.adapters.tool_call import failed, leads_on
from loopguard_lg.steps import Step

Call = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Batch:
    """The calls that a tool node is about to execute.

    Attributes:
        messages: The messages that they are read from.
        calls: The calls in order.
        open: Positions of those that have no result yet.
        place: How many calls of the reply were sent out before these.
        reply: The reply that they stand in, unless they came by themselves.
    """

    messages: Sequence[BaseMessage]
    calls: Sequence[Call]
    open: Sequence[int]
    place: int = 0
    reply: AIMessage | None = None

    def trimmed(self, left: Sequence[Call]) -> list[BaseMessage]:
        """The messages with only the calls in the reply that are left."""
        assert self.reply is not None
        kept = self.reply.model_copy(update={"tool_calls": [*left]})
        return [kept if m is self.reply else m for m in self.messages]


def _batch(messages: Sequence[BaseMessage], sent: Any, place: int) -> _Batch:
    calls = _sent_calls(sent)
    if calls:
        return _Batch(messages, calls, range(len(calls)), place)
    reply, results = newest_reply(messages)
    if reply is None:
        return _Batch(messages, (), ())
    pairs = pair(reply, results)
    open_ = [n for n, (_, found) in enumerate(pairs) if found is None]
    return _Batch(messages, reply.tool_calls, open_, 0, reply)


def _sent_calls(sent: Any) -> list[Call]:
    """The calls in the argument of a `Send`: alone, in a list, or under a key."""
    if isinstance(sent, Mapping):
        sent = [sent, *sent.values()]
    found = sent if isinstance(sent, list) else []
    return [item for item in found if _is_call(item)]


def _is_call(item: Any) -> bool:
    return isinstance(item, Mapping) and {"name", "args", "id"} <= item.keys()


def _place(config: RunnableConfig) -> int:
    """How many tasks of the superstep were sent out before this one."""
    path = config.get("metadata", {}).get("langgraph_path", ())
    sent = len(path) > 1 and path[0] == "__pregel_push" and isinstance(path[1], int)
    return path[1] if sent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsNode(Node):
    """A node that executes calls."""

    def work(self, given: Any, config: RunnableConfig) -> Work:
        """Answer what must not be executed, hand on the rest, note how it went."""
        state, sent = opened(given)
        batch = _batch(self.site.messages(state), sent, _place(config))
        answers = self._answers(state, config, batch)
        answers |= yield from self._locked(state, batch, answers)
        left = [
            self._ask(state, batch, call)
            for n, call in enumerate(batch.calls)
            if n not in answers
        ]
        if answers and not left:
            return self._refused(state, config, [*answers.values()])
        outs, took = [], list[Mapping[str, float]]()
        for group in self._groups(left):
            work = self._executed(state, sent, batch, group, took)
            work = graph_files.watched(self.site, state, group, work)
            out = yield from self._once(group, config, work)
            if batch.reply is not None:
                out = rewritten(out, self.site.key, lambda found: _whole(found, batch))
            outs.append(out)
        spend = budgets.add(*took) if took else None
        if len(outs) > 1:
            outs = latest(outs, self.site.key, unreduced(config))
        out = joined(outs, self.site.key, batch.calls)
        out = merged(out, self.site.key, answers, batch.calls)
        return self.done(state, config, carried(out, self.site.key), spend)

    def _once(self, group: list[Ask], config: RunnableConfig, work: Work) -> Work:
        """`work`, done once where the call that it executes is made at most once."""
        if len(group) != 1:
            return work
        site = self.site
        return once(site.guard.acts.policy, group[0], config, site.key, work)

    def _ask(self, state: State, batch: _Batch, call: Call) -> Ask:
        site = self.site
        return site.guard.ask(state.get(CHANNEL), call, batch.messages, site.tools)

    def _groups(self, left: list[Ask]) -> list[list[Ask]]:
        """The calls in the groups that they are executed in: what has to wait, or may
        be tried again, comes last and alone.
        """
        apart = self._apart(left)
        rest = [ask for ask in left if ask.call["id"] not in apart]
        single = [[ask] for ask in left if ask.call["id"] in apart]
        return [rest, *single] if rest or not single else single

    def _apart(self, left: list[Ask]) -> set[str]:
        """Ids of calls that are executed alone. Calls that share an id stay together:
        only their order tells whose result is whose.
        """
        ids = {ask.call["id"] for ask in left}
        if len(left) == 1 or len(ids) < len(left):
            return set()
        is_alone = self.site.guard.acts.is_alone
        return {ask.call["id"] for ask in left if is_alone(ask)}

    def _answers(
        self, state: State, config: RunnableConfig, batch: _Batch
    ) -> dict[int, ToolMessage]:
        """The guard's answers by position: refused calls, and questions to a person."""
        found: dict[int, ToolMessage] = {}
        for at, n in enumerate(batch.open, batch.place):
            call = batch.calls[n]
            ask = self._ask(state, batch, call)
            answer = self.site.guard.before_tool(ask, at)
            if answer is None and self._asks(call):
                resumable = is_resumable(config)
                answer = leave.asked(call, batch.messages, resumable=resumable)
            if answer is not None:
                found[n] = answer
        return found

    def _locked(
        self, state: State, batch: _Batch, answers: Collection[int]
    ) -> driving.Work[dict[int, ToolMessage]]:
        """The answers to calls on whose files others work, by position."""
        found: dict[int, ToolMessage] = {}
        for n in batch.open:
            if n not in answers:
                call = batch.calls[n]
                refusal = yield from graph_files.refusal(self.site, state, call)
                if refusal is not None:
                    found[n] = refusal
        return found

    def _asks(self, call: Call) -> bool:
        tool = self.site.tools.get(call["name"])
        return call["name"] == "ask_user" and tool is leave.ask_user

    def _refused(
        self, state: State, config: RunnableConfig, answers: list[ToolMessage]
    ) -> Any:
        """The output where nothing is left to execute."""
        out: Any = {self.site.key: answers}
        if self.ends:
            out = Command(update=out, goto=self.site.model)
        return self.done(state, config, out)

    def _trimmed(
        self, state: State, sent: Any, batch: _Batch, left: Sequence[Call]
    ) -> tuple[State, Any]:
        """The node's input with only the calls in it that are to be executed."""
        if [*left] == [*batch.calls]:
            return state, sent
        if batch.reply is None:
            return state, [*left] if isinstance(sent, list) else sent
        messages, key = batch.trimmed(left), self.site.key
        if sent is None:
            return {**state, key: messages}, None
        return state, {**sent, key: messages} if isinstance(sent, Mapping) else messages

    def _executed(
        self,
        state: State,
        sent: Any,
        batch: _Batch,
        group: list[Ask],
        took: list[Mapping[str, float]],
    ) -> Work:
        """What the node returned, marked with what it took; else `took` is told."""
        site, mark = self.site, dict[str, Any]()

        def given(asked: Sequence[Ask]) -> Any:
            calls = [site.guard.acts.prepared(ask) for ask in asked]
            return self.given(*self._trimmed(state, sent, batch, calls))

        started = site.clock()
        with site.level(state, started) as entry:
            if len(group) == 1:
                out = yield from self._alone(group[0], given(group), started, mark)
            else:
                limit = site.guard.seconds_left(memories.load(state.get(CHANNEL)))
                out = yield from self._together(group, given, limit)
            seconds = site.clock() - started
        if not any(isinstance(m, ToolMessage) for m in written(out, site.key)):
            took.append(spent(entry, seconds))
            return out
        marks = [{**mark, "seconds": seconds, **entry.mark()}]
        asked = [*group]

        def noted(found: Sequence[BaseMessage]) -> list[BaseMessage]:
            return _marked([self._advised(m, asked) for m in found], marks)

        return rewritten(out, site.key, noted)

    def _alone(
        self, ask: Ask, given: Any, started: float, mark: dict[str, Any]
    ) -> Work:
        """What the node made of one call, with the pauses and tries that are due."""
        site = self.site
        try:
            return (
                yield from site.guard.acts.executed(
                    ask,
                    lambda left: Run(given, left, self.inner),
                    lambda found: self._step(found, ask),
                    lambda: site.clock() - started,
                    mark,
                )
            )
        except Exception as error:
            return self._failed(error, [ask])

    def _together(
        self,
        group: list[Ask],
        given: Callable[[Sequence[Ask]], Any],
        limit: float | None,
    ) -> Work:
        """What the node made of several calls at once.

        Where a raised error is to be a result, each call is a run of a `ToolNode` of
        its own, side by side: else it would not be known which of them raised. A node
        of another kind runs once: it may write more than results.
        """
        site, apart = self.site, isinstance(self.inner, ToolNode)
        try:
            if not (group and apart and self._returns):
                return (yield Run(given(group), limit, self.inner))
            parts = [given([ask]) for ask in group]
            outs = yield Run(parts, limit, self.inner, each=True)
        except Exception as error:
            return self._failed(error, group)
        done = [
            self._failed(out, [ask]) if isinstance(out, Exception) else out
            for out, ask in zip(outs, group, strict=True)
        ]
        return joined(done, site.key, [ask.call for ask in group])

    @property
    def _returns(self) -> bool:
        """Whether a raised error is to be the result of its call."""
        policy = self.site.guard.policy
        return policy.tool_errors == "return" and not policy.observe_only

    def _step(self, out: Any, ask: Ask) -> Step | None:
        """How a try of a call went, as far as its result tells."""
        for message in written(out, self.site.key):
            if isinstance(message, ToolMessage):
                return step_of(ask.call, message, {}, ask.tools.get(ask.call["name"]))
        return None

    def _advised(self, message: BaseMessage, asked: list[Ask]) -> BaseMessage:
        """The result of one of the calls, which is taken out, with advice."""
        ids = [ask.call["id"] or "" for ask in asked]
        if not isinstance(message, ToolMessage) or message.tool_call_id not in ids:
            return message
        ask = asked.pop(ids.index(message.tool_call_id))
        return self.site.guard.acts.advised(ask, message)

    def _failed(self, error: Exception, asked: Sequence[Ask]) -> dict[str, Any]:
        """The results of calls that raised, or were cut off.

        Raises:
            Exception: `error`, where the policy lets it pass, or it is no failure.
        """
        taken = self._returns or isinstance(error, CutOffError)
        if not taken or not asked or leads_on(error):
            raise error
        return {self.site.key: [failed(ask.call, error) for ask in asked]}


def _marked(
    found: Sequence[BaseMessage], marks: list[dict[str, Any]]
) -> list[BaseMessage]:
    """The results with the time of the batch; what ran inside is in the first one."""
    out: list[BaseMessage] = []
    for message in found:
        if isinstance(message, ToolMessage):
            message = with_mark(message, marks[-1])
            marks.append({"seconds": marks[0]["seconds"]})
        out.append(message)
    return out


def _whole(found: Sequence[BaseMessage], batch: _Batch) -> list[BaseMessage]:
    """What a node wrote, with the reply whole again if it is in there."""
    reply = batch.reply
    return [reply if reply and m.id and m.id == reply.id else m for m in found]
