"""What happened since the guard last looked, read off the messages of the state.

Results are taken from the messages themselves, not from what the tool calls report:
so a retry around the guard, a node that runs again, a raised error that another
middleware turned into a result, and a process that died half-way all count once.

What an adapter keeps for itself in `memory["host"]`:

    {"open": the reply whose calls are under way, "word": id of the newest human word,
     "over": the run has ended, as far as the guard can tell,
     "priced": prices were asked for, "began": when the run began,
     "thread": what events are reported under,
     "first": id of the first message in view,
     "good": [[turn, message id, checkpoint id where there is one], ...],
     "back": the checkpoint id of the good point that was gone back to,
     "hidden": [[after id, up to id, text], ...], "asked": questions so far,
     "untidy": not every call has its result in its place,
     "exit": the reason where the model gave up,
     "fleet": [limit, why] where a fleet's budgets had no room for a model call,
     "sized": how large the newest request was, where its tokens are estimated,
     "vain": another middleware refused the question to a person,
     "due": what the newest verdict asked for where it came after the reply,
     "switched": a stronger model has replied,
     "shared": what `shared_pad` notes, "workspace": what `workspace.targets` does,
     "acts": what the acts remember,
     "names", "route", "note", "beside": what the nodes of a guarded graph note,
     "step": superstep of the newest look, "lap": supersteps from the one before,
     "forked": id of the word that a fork went back to,
     "stop": superstep at which the recursion limit is reached}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool

from loopguard_lg import prompts
from loopguard_lg.adapters import tree
from loopguard_lg.adapters.leave import choice_of, offers_leave, raised_to
from loopguard_lg.adapters.messages import (
    nested_of,
    newest_reply,
    newest_word,
    pair,
    text_of,
    turn_of,
)
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.adapters.transcript import events_of
from loopguard_lg.adapters.view import answered
from loopguard_lg.budgets import Exceeded
from loopguard_lg.engine import Verdict
from loopguard_lg.findings import Finding
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Compaction, Event, Human, Tokens, Turn

_GOOD = 6
_HIDDEN = 8
_NOTE_BYTES = 1_000
_NO_RAISE = "the budget is used, and the answer did not choose to raise it"


def with_host(memory: Memory, **changes: Any) -> Memory:
    """The memory with other facts of the adapter's."""
    return {**memory, "host": {**memory["host"], **changes}}


def packed(known: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of a reply, as plain data."""
    tokens: Tokens | None = known["tokens"]
    counts = tokens and [tokens.input, tokens.output, tokens.cached, tokens.estimated]
    return {**known, "tokens": counts}


def unpacked(opened: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of a reply, back from plain data."""
    counts = opened.get("tokens")
    tokens = None
    if counts:
        sent, received, cached, guessed = counts
        tokens = Tokens(input=sent, output=received, cached=cached, estimated=guessed)
    known = {key: opened.get(key) for key in ("model", "cost", "seconds", "t")}
    return {**known, "tokens": tokens}


def due(verdict: Verdict) -> dict[str, Any] | None:
    """What is still to be done about a verdict that was made after the reply."""
    acts = verdict.action != "continue"
    if not acts and not verdict.warnings:
        return None
    return {"acts": acts, "warnings": list(verdict.warnings)}


def thread_of(host: Mapping[str, Any]) -> str:
    """What events are reported under: the thread, else the run's human word."""
    return str(host.get("thread") or "")


def _name(word: BaseMessage, messages: Sequence[BaseMessage]) -> str:
    """The id of a word, or its place: delta channels give no ids to messages."""
    if word.id is not None:
        return word.id
    return f"#{next(n for n, message in enumerate(messages) if message is word)}"


def _new_word(scene: Scene, host: Mapping[str, Any]) -> tuple[str, HumanMessage] | None:
    """What a person has said since the last look, with its name."""
    if scene.goes_on(host):  # a tool or middleware said it: nobody else was there
        return None
    word = newest_word(scene.messages, scene.made, through=scene.shared)
    if word is None or (name := _name(word, scene.messages)) == host.get("word"):
        return None
    return name, word


def since(
    memory: Memory, scene: Scene, agent: str
) -> tuple[list[Event], dict[str, Any]]:
    """The events since the guard last looked, and what the adapter notes of them."""
    host = memory["host"]
    events: list[Event] = []
    noted: dict[str, Any] = {"open": None, "due": None, "over": False}
    noted["first"] = scene.first
    if "first" not in host:  # the thread may be older than the guard
        noted["untidy"] = answered(scene.messages) != [*scene.messages]
    if host.get("open"):
        events, facts = _closed(host, scene, agent)
        noted |= facts
    if _cut(scene, host.get("first")):
        events.append(Compaction(agent=agent))
    if said := _new_word(scene, host):
        name, word = said
        forked = name == host.get("forked")  # what was spent for it stays spent
        events.append(Human(text=text_of(word), answer=forked))
        noted |= {"word": name, "exit": None, "vain": False, "fleet": None}
    noted["thread"] = scene.thread or noted.get("word") or host.get("thread")
    return events, noted


def caught_up(
    memory: Memory, scene: Scene, agent: str, policy: Policy
) -> tuple[list[Event], dict[str, Any]]:
    """The events since the guard last looked, or those of the run that it has joined.

    An agent of a swarm starts with an empty memory each time it is handed the
    conversation; what the others did is in their messages.
    """
    events, noted = since(memory, scene, agent)
    if run := joined(memory, scene):
        events = [*events_of(run, scene.tools, policy)]
        noted |= {"word": run[0].id, "good": []}
    return events, noted


def joined(memory: Memory, scene: Scene) -> Sequence[BaseMessage]:
    """The messages of a run that others began, from its human word on; none where the
    guard has looked before, or begins the run itself.
    """
    if memory["rev"] or scene.looked or scene.shared:
        return ()
    word = newest_word(scene.messages, scene.made, through=True)
    at = next((n for n, m in enumerate(scene.messages) if m is word), 0)
    run = scene.messages[at:]
    return run if any(isinstance(m, AIMessage) for m in run) else ()


def _cut(scene: Scene, before: Any) -> bool:
    """Whether what was the first message is gone from what the model is shown."""
    if before in (None, scene.first):
        return False
    return all(message.id != before for message in scene.seen)


def _closed(
    host: Mapping[str, Any], scene: Scene, agent: str
) -> tuple[list[Event], dict[str, Any]]:
    """The turn whose calls were under way, and what a person answered in it."""
    opened, lost = host["open"], nested_of(tree.lost(agent, host))
    reply, results = newest_reply(scene.messages, opened.get("id"))
    if reply is None:
        gone = Turn(agent=agent, nested=lost, **unpacked(opened))
        return [gone], {"untidy": True}
    pairs = pair(reply, results)
    noted = _left(pairs, scene.tools)
    if reply.invalid_tool_calls or [result for _, result in pairs] != results:
        noted["untidy"] = True
    events: list[Event] = []
    if not opened.get("ask"):
        known = unpacked(opened)
        turn = turn_of(reply, results, scene.tools, agent=agent, **known)
        events.append(replace(turn, nested=turn.nested + lost) if lost else turn)
    answers, facts = _answers(opened, pairs)
    return [*events, *answers], noted | facts


def _answers(
    opened: Mapping[str, Any], pairs: Sequence[tuple[Any, ToolMessage | None]]
) -> tuple[list[Human], dict[str, Any]]:
    """What a person answered, and what is noted of it; in vain, where nobody has."""
    results = (found for call, found in pairs if call["name"] == "ask_user")
    answers = [found for found in results if _worked(found)]
    noted: dict[str, Any] = {}
    if opened.get("ask") and not answers:
        noted["vain"] = True
    for answer in answers:
        noted |= _chosen(opened.get("ask"), choice_of(answer))
    return [_heard(opened, answer) for answer in answers], noted


def _heard(opened: Mapping[str, Any], answer: ToolMessage) -> Human:
    """A person's answer as an event: with a used budget only a choice goes on."""
    text, choice = text_of(answer), choice_of(answer)
    if opened.get("ask") != "budget" or choice not in ("raise_budget", "stop"):
        return Human(text=text, answer=True)
    to, limit = raised_to(answer), opened.get("limit")
    raised = {limit: to} if to and limit else {}
    return Human(text=text, answer=choice == "stop" or bool(raised), raised=raised)


def _chosen(asked: str | None, choice: str | None) -> dict[str, Any]:
    """What is noted of an answer to a question of the guard's."""
    if not asked:
        return {}
    if choice == "stop":
        return {"exit": "a person said to stop"}
    if asked == "budget" and choice != "raise_budget":
        # Another middleware answered: what is no choice does not spend more.
        return {"exit": _NO_RAISE}
    return {"chosen": choice}


def _worked(result: ToolMessage | None) -> TypeGuard[ToolMessage]:
    return result is not None and result.status != "error"


def _left(
    pairs: Sequence[tuple[Any, ToolMessage | None]], tools: Mapping[str, BaseTool]
) -> dict[str, Any]:
    if not offers_leave(tools):
        return {}
    for call, result in pairs:
        if call["name"] == "give_up" and _worked(result):
            reason = str(call["args"].get("reason") or "the agent gave up")
            return {"exit": " ".join(reason.split())[:300]}
    return {}


def refused_by_fleet(host: Mapping[str, Any]) -> Exceeded | None:
    """The fleet's budget that had no room for the model call before this one."""
    noted = host.get("fleet")
    if not isinstance(noted, list) or len(noted) != 2:
        return None
    limit, why = map(str, noted)
    return Exceeded(limit=limit, spent=0, allowed=0, scope="fleet", why=why)


def ahead(
    reply: AIMessage | None,
    results: Sequence[ToolMessage],
    call: Mapping[str, Any],
    place: int | None,
) -> list[Mapping[str, Any]]:
    """The calls without a result that stand before `call` in its batch.

    Args:
        reply: The newest reply.
        results: The results that it has so far.
        call: The call.
        place: How many were sent out before it, where the host knows.
    """
    if reply is None or place == 0:
        return []
    left = [other for other, found in pair(reply, results) if found is None]
    if place is None:
        ids = [other["id"] for other in left]
        place = ids.index(call["id"]) if call["id"] in ids else len(ids)
    return left[:place]


def marked_good(memory: Memory, i: int, scene: Scene, *, word: bool = False) -> Memory:
    """The memory with the newest message as a point to come back to.

    Nothing goes back beyond a person's word: an answer would be out of view.
    """
    messages = scene.messages
    if not messages or messages[-1].id is None:
        return memory
    older = [] if word else memory["host"].get("good", [])
    point = [i, messages[-1].id, *[scene.checkpoint] * bool(scene.checkpoint)]
    return with_host(memory, good=[*older, point][-_GOOD:])


def hidden_of(host: Mapping[str, Any]) -> list[Any]:
    """The ranges that are out of view, as far as they are well formed."""
    ranges = host.get("hidden")
    if not isinstance(ranges, list):
        return []
    return [one for one in ranges if isinstance(one, list) and len(one) == 3]


def rolled_back(
    memory: Memory, scene: Scene, finding: Finding, last: str | None = None
) -> tuple[Memory, str]:
    """The memory with the turns since the last good point out of view, and the note.

    The newest good point before the loop's onset is taken; points after that are
    forgotten. `last` is the id of the last message out of view, else the newest one.
    """
    points = memory["host"].get("good", [])
    onset = memory["ladder"].get("onset", finding.onset)
    good = [point for point in points if point[0] < onset] or points[:1]
    start = good[-1][1] if good else memory["host"].get("word")
    text = prompts.rollback(finding, memory["pad"], list(scene.tools), _NOTE_BYTES)
    older = [[a, b, ""] for a, b, _ in hidden_of(memory["host"])]
    hidden = [*older, [start, last or scene.messages[-1].id, text]]
    back = good[-1][2] if good and len(good[-1]) > 2 else None
    return with_host(memory, good=good, hidden=hidden[-_HIDDEN:], back=back), text


def is_early(call: Mapping[str, Any], reply: AIMessage | None, memory: Memory) -> bool:
    """Whether the model gives up before anything was tried in this run."""
    calls = [] if reply is None else reply.tool_calls
    alone = bool(calls) and all(other["name"] == "give_up" for other in calls)
    tried = memory["used"]["run"].get("steps")
    return call["name"] == "give_up" and alone and not tried


def is_priced(memory: Memory) -> bool:
    """Whether it is known that the thread's first model has a price."""
    return bool(memory["host"].get("priced"))


def starts_afresh(event: Event) -> bool:
    """Whether a new run begins with this."""
    return isinstance(event, Human) and not event.answer
