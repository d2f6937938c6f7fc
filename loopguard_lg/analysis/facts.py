"""What the metrics are made of: one row per run, one row per step, by replay.

A row of a step is what a step log holds (`StepRow`), with what the replay found of it.
Digests stand in for arguments and results; no text of a step is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from loopguard_lg import budgets
from loopguard_lg.analysis.replay import acted_on, judged
from loopguard_lg.budgets import Used
from loopguard_lg.digests import call_digest, result_hash
from loopguard_lg.engine import Verdict
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.progress import NOTHING
from loopguard_lg.steps import Turn
from loopguard_lg.traces.model import Record, Trajectory

PARTS = ("agent", "prompt", "tools", "policy")
"""What a version can be of, beside the model."""

_LEFT = frozenset({"escalated", "asked", "exited"})
"""What the guard does when it leaves a run's course."""


class StepRow(NamedTuple):
    """One step as a step log has it; a turn without calls is a row without a tool.

    Attributes:
        i: The turn.
        agent: Who acts.
        model: The model of the turn, or of the run.
        tool: The tool; `None` for a turn without calls.
        args_hash: Identity of the call, equal for calls that do the same.
        result_hash: Digest of the result.
        state: Digest of the outside world afterwards, where known.
        error: Did it fail, where the recording says so.
        seconds: How long the call took.
        tokens: Of the model call; those of a batch are shared evenly.
        cost: US dollars, shared likewise.
        repeat: The same (tool, arguments) was called before in this run.
        idle: It made no measurable progress: it added nothing to what was known.
        loop: It belongs to the loop that the run tripped on.
    """

    i: int
    agent: str
    model: str | None
    tool: str | None
    args_hash: str | None
    result_hash: str | None
    state: str | None
    error: bool | None
    seconds: float | None
    tokens: float | None
    cost: float | None
    repeat: bool = False
    idle: bool = False
    loop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the metrics need to know of one run.

    Attributes:
        id: Its name.
        source: Where it is from.
        model: The model of the run, or the one of most of its steps.
        task: What was asked for.
        success: Did the task succeed; `None`: unknown.
        t0: When it began.
        versions: What acted, by `PARTS`.
        owners: Who answers for each of them.
        kind: The kind of loop it trips on; `None`: on none.
        tool: The tool of that loop, where it is one.
        step: The `i` at which the guard would first have acted.
        capped: It ends on a budget, in the recording or under the policy.
        left: The guard escalated, asked or gave up over a loop, or would have.
        used: The most that one user turn used, by limit of `Budget`.
        spent: What all of it used.
        steps: Its tool calls, each of a batch for itself.
        wasted: Those that repeat an earlier call or made no measurable progress.
        rows: Its steps, as far as they are kept.
    """

    id: str
    source: str | None = None
    model: str | None = None
    task: str | None = None
    success: bool | None = None
    t0: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    tool: str | None = None
    step: int | None = None
    capped: bool = False
    left: bool = False
    used: Used = field(default_factory=dict)
    spent: Used = field(default_factory=dict)
    steps: int = 0
    wasted: int = 0
    rows: tuple[StepRow, ...] = ()

    @property
    def looped(self) -> bool:
        """Does it trip a detector?"""
        return self.kind is not None

    @property
    def cost(self) -> float | None:
        """US dollars of all of it; `None` where no turn says what it cost."""
        return self.spent.get("usd")


def facts(policy: Policy, run: Trajectory) -> RunFacts:
    """What the metrics need to know of a run, under a policy.

    Seconds, tokens and US dollars are those that the recording tells; nothing is
    estimated. A run without `success` is neither a success nor a failure.
    """
    rows: list[StepRow] = []
    seen: set[tuple[str, int]] = set()
    used: Used = {}
    end: Memory = {}
    acts: list[Verdict] = []
    for event, verdict, end in judged(policy, run):
        if isinstance(event, Turn):
            history = History.load(end["history"])
            rows += _rows(policy, run, event, history, seen)
        used = _peak(used, end["used"]["run"])
        if verdict.action != "continue":
            acts.append(verdict)
    versions, owners = versions_of(run.versions)
    return RunFacts(
        id=run.id,
        source=run.source,
        model=run.model or _most(row.model for row in rows),
        task=run.task,
        success=run.success,
        t0=run.t0,
        versions=versions,
        owners=owners,
        used=used,
        spent=end.get("used", {}).get("thread", {}),
        **_end(run, rows, acts),
    )


def outline(policy: Policy, run: Trajectory) -> RunFacts:
    """The same without the rows, for those who hold many runs in memory."""
    return replace(facts(policy, run), rows=())


def _end(run: Trajectory, rows: list[StepRow], acts: list[Verdict]) -> dict[str, Any]:
    """What the guard made of a run, and its rows with the loop marked."""
    finding = acted_on(acts[0]) if acts else None
    # Live, nothing would come after the first exit.
    ended = next((verdict for verdict in acts if verdict.action == "exit"), Verdict())
    noted = interventions(run)
    return {
        "kind": finding and finding.kind,
        "tool": finding and _tool(finding, rows),
        "step": acts[0].i if acts else None,
        "capped": bool(ended.exceeded) or _ended_on_budget(noted),
        "left": any(map(leaves, noted) if noted else map(_would_leave, acts)),
        "rows": _marked(rows, finding),
        **_counts(rows),
    }


def _counts(rows: Iterable[StepRow]) -> dict[str, int]:
    tools = [row for row in rows if row.tool is not None]
    wasted = sum(row.repeat or row.idle for row in tools)
    return {"steps": len(tools), "wasted": wasted}


def interventions(run: Trajectory) -> list[Record]:
    """What the guard did in a recorded run, in order."""
    return [step for step in run.steps if step.get("event") == "intervention"]


def _ended_on_budget(noted: Iterable[Record]) -> bool:
    """Was the newest exit of a recording a budget's?"""
    exits = [step.get("reason") for step in noted if step.get("name") == "exited"]
    return exits[-1:] == ["budget"]


def _would_leave(verdict: Verdict) -> bool:
    return acted_on(verdict) is not None and verdict.action != "reflect"


def leaves(step: Record) -> bool:
    """Is an act of the guard an escalation or an exit over a loop, and no budget's?"""
    return step.get("name") in _LEFT and step.get("reason") != "budget"


def _rows(
    policy: Policy,
    run: Trajectory,
    turn: Turn,
    history: History,
    seen: set[tuple[str, int]],
) -> Iterator[StepRow]:
    """The rows of a turn; `seen` is added to."""
    spend = budgets.model_spend(turn)
    model, parts = turn.model or run.model, max(1, len(turn.steps))
    about = (history.i, turn.agent, model)
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    shared = (tokens / parts if tokens else None, _share(spend.get("usd"), parts))
    if not turn.steps:
        yield StepRow(*about, None, None, None, None, None, turn.seconds, *shared)
    gains = _gains(history)
    for step in turn.steps:
        call = call_digest(step.tool, step.args, policy.tools)
        # Two tools that take the same arguments are not one call.
        pair = step.tool, call
        idle = step.blocked or gains.get(call) == NOTHING
        yield StepRow(
            *about,
            step.tool,
            f"{call:016x}",
            step.result_hash or result_hash(step.result),
            step.state,
            step.error,
            step.seconds,
            *shared,
            repeat=pair in seen,
            idle=idle,
        )
        seen.add(pair)


def _gains(history: History) -> dict[int, int]:
    """What each call of the newest turn added, by its digest."""
    rows = history.rows
    return {rows.call[k]: rows.gain[k] for k in history.since(history.i)}


def _share(amount: float | None, parts: int) -> float | None:
    return None if amount is None else amount / parts


def _peak(most: Used, now: Mapping[str, float]) -> Used:
    """The larger amount of each limit, with the sum of tokens as one of them."""
    # `Budget` limits the sum as well, which no turn reports by itself.
    total = now.get("input_tokens", 0) + now.get("output_tokens", 0)
    known = {**now, **({"total_tokens": total} if total else {})}
    return {k: max(most.get(k, 0), known.get(k, 0)) for k in {**most, **known}}


def versions_of(found: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of a recording by part, and their owners.

    A version is a text, or an object with `version` and `owner`; owners may stand in
    `owner` beside the versions as well, by part, or one for all.
    """
    owner = found.get("owner")
    one: Mapping[str, Any] = dict.fromkeys(PARTS, owner)
    shared = owner if isinstance(owner, Mapping) else one
    versions: dict[str, str] = {}
    owners: dict[str, str] = {}
    for part in PARTS:
        value: Any = found.get(part)
        who = shared.get(part)
        if isinstance(value, Mapping):
            value, who = value.get("version"), value.get("owner", who)
        if value is not None:
            versions[part] = str(value)
        if who is not None:
            owners[part] = str(who)
    return versions, owners


def _most(values: Iterable[str | None]) -> str | None:
    known = Counter(value for value in values if value is not None)
    return max(known, key=known.__getitem__) if known else None


def _tool(finding: Finding, rows: Iterable[StepRow]) -> str | None:
    """The tool that a loop is about."""
    steps = set(finding.steps)
    return finding.tool or _most(row.tool for row in rows if row.i in steps)


def _marked(rows: list[StepRow], finding: Finding | None) -> tuple[StepRow, ...]:
    """The rows, with those marked that make the loop."""
    if finding is None:
        return tuple(rows)
    steps = set(finding.steps)
    return tuple(
        row._replace(loop=row.i in steps and finding.tool in ("", row.tool))
        for row in rows
    )
