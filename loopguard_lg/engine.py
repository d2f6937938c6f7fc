"""What it means: `decide`, a pure function from what happened to what to do.

    verdict, memory = decide(policy, memory, event)

No clock, no I/O, no randomness: a live run, a resumed run and the replay of its
recording give the same verdicts. A fault in a detector or a progress signal costs that
one its vote and is named in `Verdict.faults`; it never costs the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from loopguard_lg import budgets, ladder, memory as memories, scratchpad, triggers
from loopguard_lg.budgets import Exceeded
from loopguard_lg.detectors import arbiter
from loopguard_lg.digests import call_digest
from loopguard_lg.findings import GAVE_UP, Finding
from loopguard_lg.history import COMPACTION, REPORT, History, Mark, Seen
from loopguard_lg.ladder import Escalate, Reflect
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.progress import MUCH
from loopguard_lg.quoting import flat
from loopguard_lg.steps import Compaction, Event, Human, Progress, Step, Turn

Action: TypeAlias = Literal["continue", "reflect", "escalate", "exit"]
"""What is to be done next."""


class Verdict(NamedTuple):
    """What the guard decided on one event.

    Attributes:
        action: What is to be done before the next model call.
        i: The turn it is about.
        rung: Where the ladder stands now, 0 at its foot.
        finding: The one finding that counts, where there is one.
        findings: All findings of this turn, those of shadowed detectors included.
        exceeded: The budget that is out, where one is.
        warnings: Limits of which the warning share has just been passed.
        progress: The turn moved the task.
        good: The run may come back to this point: progress, and nothing open.
        recovered: The ladder has just come down to its foot.
        faults: What failed inside the guard, as (where, error).
    """

    action: Action = "continue"
    i: int = 0
    rung: int = 0
    finding: Finding | None = None
    findings: tuple[Finding, ...] = ()
    exceeded: Exceeded | None = None
    warnings: tuple[str, ...] = ()
    progress: bool = False
    good: bool = False
    recovered: bool = False
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def hands_up(self) -> bool:
        """Whether the agent gave up, and a stronger model goes on instead."""
        gave_up = self.finding is not None and self.finding.kind == GAVE_UP
        return gave_up and self.action == "escalate"


def decide(
    policy: Policy, memory: Mapping[str, Any] | None, event: Event
) -> tuple[Verdict, Memory]:
    """What to do after `event`, and the memory after it.

    Args:
        policy: The settings.
        memory: What `decide` returned last, or `None` or `{}` on a new thread. It is
            not changed.
        event: What happened.
    """
    before, policy = memories.load(memory), policy.acting
    faults: list[tuple[str, str]] = []
    history = _seen(policy, before, event, faults)
    after = {**before, "history": history.dump()}
    if isinstance(event, Turn):
        after["used"] = _charged(policy, before["used"], event, history)
        after["pad"] = _noted(after["pad"], _pairs(policy, event, history))
        if event.progress:
            after["pad"] = scratchpad.add(after["pad"], "facts", event.progress)
    elif isinstance(event, Human):
        _new_word(after, event)
    judge = _judge if isinstance(event, (Turn, Compaction)) else _settled
    verdict = judge(policy, before, after, history, faults)
    if isinstance(event, Turn) and verdict.action != "exit":
        verdict = _handed_up(policy, before, after, event, verdict)
    if after["pad"] is not before["pad"]:
        after["pad"] = scratchpad.capped(after["pad"])
    return _closed(policy, after, verdict, faults)


def _fault(where: object, error: Exception) -> tuple[str, str]:
    try:
        said = f"{type(error).__name__}: {error}"
    except Exception:  # its own text fails, too
        said = type(error).__name__
    return str(where), said[:200]


def _seen(
    policy: Policy, memory: Memory, event: Event, faults: list[tuple[str, str]]
) -> History:
    past = _remembered(memory, faults)
    try:
        history = past.push(event, policy.tools, policy.test_files)
    except Exception as error:  # a fault in a part must not end the run
        faults.append(_fault("history", error))
        i = past.i + 1 if event.i is None else event.i
        return replace(past, i=i, progress=False)
    if not isinstance(event, Turn) or history.progress:
        return history
    if event.progress or _signalled(policy, event, faults):
        reported = history.push(Progress(i=history.i), policy.tools)
        return replace(reported, now=history.now, marks=history.marks)
    return history


def _remembered(memory: Memory, faults: list[tuple[str, str]]) -> History:
    try:
        return History.load(memory["history"])
    except Exception as error:  # stored by who knows whom
        faults.append(_fault("history", error))
        return History()


def _signalled(policy: Policy, turn: Turn, faults: list[tuple[str, str]]) -> bool:
    for signal in policy.progress:
        try:
            if signal(turn):
                return True
        except Exception as error:  # somebody else's function
            name = getattr(signal, "__name__", type(signal).__name__)
            faults.append(_fault(name, error))
    return False


def _charged(
    policy: Policy, used: Memory, turn: Turn, history: History
) -> dict[str, budgets.Used]:
    spend = budgets.model_spend(turn)
    if turn.steps:
        handoffs = history.marks & Mark.HANDED and _handoffs(history)
        tools = budgets.tool_spend(turn, handoffs, policy.watched_tools)
        tools["seconds"] = tools.get("seconds", 0) + spend.get("seconds", 0)
        spend |= tools
    run = budgets.add(used["run"], spend)
    same = used["thread"] == used["run"]  # so in the first run of a thread
    return {"run": run, "thread": run if same else budgets.add(used["thread"], spend)}


def _handoffs(history: History) -> int:
    return [seen.role for seen in history.now].count("handoff")


def _new_word(after: Memory, event: Human) -> None:
    after["ladder"] = {}
    if not event.answer:
        after["used"] = {**after["used"], "run": {}}
        after["warned"] = [w for w in after["warned"] if not w.startswith("run:")]
    elif event.raised:
        raised = {budgets.RAISED + name: to for name, to in event.raised.items()}
        after["used"] = {**after["used"], "run": {**after["used"]["run"], **raised}}
        again = {f"run:{name}" for name in event.raised}
        after["warned"] = [w for w in after["warned"] if w not in again]


def _judge(
    policy: Policy,
    before: Memory,
    after: Memory,
    history: History,
    faults: list[tuple[str, str]],
) -> Verdict:
    findings = _findings(policy, history, faults)
    finding = triggers.held_again(before["ladder"], history)
    if finding is None and findings:
        finding = _chosen(policy, findings, history, faults)
    state = None
    if finding is not None and _replied(before["ladder"], history):
        state = ladder.climb(policy.ladder, before["ladder"], finding, history.i)
    if finding is None or state is None:
        return _settled(policy, before, after, history, faults, finding, findings)
    after["ladder"] = state
    left = policy.ladder.at(before["ladder"].get("by", 0))
    way = left.way if isinstance(left, Escalate) else ""
    after["pad"] = _ruled_out(after["pad"], policy, state, finding, way)
    return Verdict(
        action=_action(policy, state),
        i=history.i,
        rung=state["rung"],
        finding=finding,
        findings=findings,
        progress=history.progress,
    )


def _handed_up(
    policy: Policy, before: Memory, after: Memory, turn: Turn, verdict: Verdict
) -> Verdict:
    """The verdict where the agent gave up before a stronger model had its go."""
    finding = triggers.gave_up(turn, verdict.i) if turn.steps else None
    if finding is None:
        return verdict
    state = ladder.handed_up(policy.ladder, before["ladder"], finding, verdict.i)
    if state is None:
        return verdict
    after["ladder"] = state
    after["pad"] = scratchpad.add(after["pad"], "branches", finding.detail)
    rung = state["rung"]
    return verdict._replace(action="escalate", rung=rung, finding=finding, good=False)


def _replied(state: Memory, history: History) -> bool:
    """Whether the model has replied since the newest intervention.

    What comes before its next call, a turn and a compaction, makes one verdict.
    """
    if "at" not in state or history.kind != COMPACTION:
        return True
    newest = zip(reversed(history.turns.i), reversed(history.turns.kind), strict=True)
    last = next((i for i, kind in newest if kind != COMPACTION), -1)
    return bool(last > state["at"])


def _findings(
    policy: Policy, history: History, faults: list[tuple[str, str]]
) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if history.kind == REPORT:  # progress was reported of this very turn
        return ()
    marks = history.marks
    for hears, detector in policy.listeners:
        try:
            finding = detector.observe(history) if hears & marks else None
            if finding is not None:
                found.append(_sound(finding))
        except Exception as error:  # fail open: this detector has no vote
            faults.append(_fault(detector.kind, error))
    return tuple(found)


def _sound(finding: Finding) -> Finding:
    """What a detector found; somebody else's may be odd: then this raises."""
    finding.detail.encode("utf-8", "replace")
    sum(finding.steps) + sum(finding.holds) + finding.again + finding.key
    if finding.detail.isprintable():
        return finding
    return replace(finding, detail=flat(finding.detail))  # models make up names


def _chosen(
    policy: Policy,
    findings: tuple[Finding, ...],
    history: History,
    faults: list[tuple[str, str]],
) -> Finding | None:
    acting = [f for f in findings if f.kind not in policy.shadowed]
    try:
        return arbiter(acting, history)
    except Exception as error:  # a detector of somebody else's made an odd finding
        faults.append(_fault("arbiter", error))
        return None


def standing(policy: Policy, memory: Memory, *, due: bool) -> Verdict:
    """What holds where nothing new has happened: a budget that is out stays out.

    Args:
        policy: The settings.
        memory: As `decide` returned it last.
        due: Whether the newest trigger was not acted on yet.
    """
    state = memory["ladder"] if due else {}
    out = budgets.exceeded(policy.budgets, memory["used"])
    rung = state.get("rung", 0)
    return Verdict(
        action="exit" if out else _action(policy, state) if rung else "continue",
        i=memory["history"].get("i", -1),
        rung=rung,
        finding=triggers.standing(state, state["at"]) if rung else None,
        exceeded=out,
    )


def _action(policy: Policy, state: Memory) -> Action:
    rung = policy.ladder.at(state["rung"])
    if isinstance(rung, Reflect):
        return "reflect"
    return "escalate" if isinstance(rung, Escalate) else "exit"


def _settled(
    policy: Policy,
    before: Memory,
    after: Memory,
    history: History,
    faults: list[tuple[str, str]],
    finding: Finding | None = None,
    findings: tuple[Finding, ...] = (),
) -> Verdict:
    progress = history.progress and finding is None
    state = after["ladder"]
    if state and history.kind != COMPACTION:
        held = state.get("holds", ())
        acted = any(_wrote(s) and s.call not in held for s in history.now)
        state = ladder.settle(state, progress=progress, acted=acted)
        after["ladder"] = state
    rung = state.get("rung", 0)
    return Verdict(
        i=history.i,
        rung=rung,
        finding=finding,
        findings=findings,
        progress=progress,
        good=progress and not rung,
        recovered=not rung and bool(before["ladder"].get("rung")),
    )


def _wrote(seen: Seen) -> bool:
    return bool(seen.changed) and not seen.blocked


def _pairs(policy: Policy, turn: Turn, history: History) -> Iterable[tuple[Step, Seen]]:
    """The steps with what was seen of them; equal calls of a batch are seen as one."""
    if len(turn.steps) == len(history.now):
        return zip(turn.steps, history.now, strict=True)
    if not history.now:  # the turn could not be read
        return ()
    seen = {one.call: one for one in history.now}
    calls = [call_digest(step.tool, step.args, policy.tools) for step in turn.steps]
    return [
        (step, seen[call])
        for step, call in zip(turn.steps, calls, strict=True)
        if call in seen
    ]


def _noted(pad: scratchpad.Pad, pairs: Iterable[tuple[Step, Seen]]) -> scratchpad.Pad:
    """The scratchpad with what was written or tried: no look with news, no end."""
    for step, seen in pairs:
        wrote = _wrote(seen)
        news = seen.gain == MUCH and not wrote
        if step.blocked or news or triggers.leaves(step):
            continue
        again = bool(seen.marks & Mark.AGAIN)
        pad = scratchpad.noted(pad, step, seen.call, wrote=wrote, again=again)
    return pad


def _ruled_out(
    pad: scratchpad.Pad, policy: Policy, state: Memory, finding: Finding, way: str
) -> scratchpad.Pad:
    for digest in finding.holds[:2]:
        pad = scratchpad.ruled_out(pad, digest)
    if isinstance(policy.ladder.at(state["rung"]), Escalate):
        branch = scratchpad.quote(finding.detail, 90)
        pad = scratchpad.add(pad, "branches", f"{branch} ({way})" if way else branch)
    return pad


def _closed(
    policy: Policy, after: Memory, verdict: Verdict, faults: list[tuple[str, str]]
) -> tuple[Verdict, Memory]:
    if policy.budgets:
        verdict = held_to(verdict, budgets.exceeded(policy.budgets, after["used"]))
        passed = budgets.warnings(policy.budgets, after["used"])
        if passed:
            verdict = _warned(after, verdict, passed)
    if faults:
        verdict = verdict._replace(faults=tuple(faults))
        after["faults"] = _counted(after["faults"], faults)
    return verdict, after


def held_to(verdict: Verdict, out: Exceeded | None) -> Verdict:
    """The verdict where the budget `out`, if any, is out."""
    return verdict if out is None else verdict._replace(action="exit", exceeded=out)


def _warned(after: Memory, verdict: Verdict, passed: list[str]) -> Verdict:
    fresh = tuple(name for name in passed if name not in after["warned"])
    after["warned"] = [*after["warned"], *fresh]
    return verdict._replace(warnings=fresh) if fresh else verdict


def _counted(counts: dict[str, int], faults: list[tuple[str, str]]) -> dict[str, int]:
    out = dict(counts)
    for where, _ in faults:
        out[where] = out.get(where, 0) + 1
    return dict(list(out.items())[:16])
