"""Real models on twenty small tasks, with and without the guard.

    python -m benchmarks.recovery.live ROWS.jsonl [--what wordings] [--seeds 2]
        --weak qwen2.5-coder-0.5b --weak-url http://127.0.0.1:8104/v1
        --strong qwen2.5-coder-1.5b --strong-url http://127.0.0.1:8105/v1

Any two OpenAI-compatible servers will do. Every finished run is one line of the file; a
run that is there is not made again, so that it can be stopped and started at any time.
`--report` prints the table of what is there. `--scripted` plays two scripted models, to
try the harness. The weak model's first reply has to be a call, as small models else
answer from nothing; temperature is 0 for the first seed, 0.5 for others.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.recovery.arms import ARMS, WORDINGS, Arm
from benchmarks.recovery.simulate import figure
from benchmarks.recovery.tasks import DESKS, TASKS, Task
from loopguard_lg.analysis.intervals import (
    mean,
    paired_amounts_differ,
    pairs_differ,
    share,
)
from loopguard_lg.testing import ScriptedModel, call

CALLS = 16
"""Model calls after which a run is stopped, whatever the arm."""

Models = Callable[[int], tuple[BaseChatModel, BaseChatModel]]
"""The weak and the strong model of a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished run.

    Attributes:
        arm: Under what.
        task: Which one.
        seed: With which seed.
        solved: The task was solved.
        turns: Replies of a model.
        strong: Those of the stronger one.
        repeated: Calls that had been made before in the run, to the letter.
        changed: The call after the first three equal ones was another one, or none;
            `None` where there were no three.
        tokens: What the replies took together.
        exit: Why the guard, or a limiter, ended it; empty where it did not.
        seconds: How long it took.
    """

    arm: str
    task: str
    seed: int
    solved: bool
    turns: int
    strong: int
    repeated: int
    changed: bool | None
    tokens: int
    exit: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from other runs."""
        return self.arm, self.task, self.seed


class StoppedError(Exception):
    """A run has had its calls."""


class Rules(AgentMiddleware[Any, Any, Any]):
    """The first reply to a person has to be a tool call, and there is a last one.

    A recursion limit would stop arms with more nodes earlier.
    """

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Force a call where a person spoke last; stop after the last reply."""
        replies = [m for m in request.state["messages"] if isinstance(m, AIMessage)]
        if len(replies) >= CALLS:
            raise StoppedError
        last = request.messages[-1]
        if isinstance(last, HumanMessage) and last.name is None:
            request = request.override(tool_choice="required")
        return handler(request)


def run(name: str, arm: Arm, task: Task, seed: int, models: Models) -> Row:
    """One run of a task."""
    weak, strong = models(seed)
    desk, started = DESKS[task.desk], time.perf_counter()
    agent = create_agent(
        weak,
        [*desk.tools],
        system_prompt=desk.prompt,
        middleware=[*arm(strong), Rules()],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 9 * CALLS}
    given: Any = {"messages": [HumanMessage(task.question)]}
    with suppress(StoppedError):  # unguarded it does not end by itself
        agent.invoke(given, config)
    values = agent.get_state(config).values
    seconds = time.perf_counter() - started
    return _row(name, task, seed, values["messages"], strong, seconds)


def _row(
    name: str,
    task: Task,
    seed: int,
    messages: Sequence[BaseMessage],
    strong: Any,
    seconds: float,
) -> Row:
    replies = [m for m in messages if isinstance(m, AIMessage)]
    paid = [(m, m.usage_metadata) for m in replies if m.usage_metadata]
    asked = [[_call(c) for c in m.tool_calls] for m in replies]
    every = [one for batch in asked for one in batch]
    models = [m.response_metadata.get("model_name") for m, _ in paid]
    ended = _exit(messages)
    return Row(
        arm=name,
        task=task.id,
        seed=seed,
        solved=not ended and task.is_solved(messages),  # it quotes what was found
        turns=len(paid),
        strong=models.count(strong.model_name),
        repeated=len(every) - len({*every}),
        changed=_changed(asked),
        tokens=sum(usage["total_tokens"] for _, usage in paid),
        exit=ended,
        seconds=round(seconds, 2),
    )


def _call(made: Mapping[str, Any]) -> str:
    return f"{made['name']} {json.dumps(made['args'], sort_keys=True)}"


def _changed(asked: Sequence[Sequence[str]]) -> bool | None:
    """Whether the reply after the first three equal calls asks for something else."""
    seen: Counter[str] = Counter()
    for n, batch in enumerate(asked[:-1]):
        seen.update(batch)
        if batch and seen[batch[0]] == 3:
            return batch[0] not in asked[n + 1]
    return None


def _exit(messages: Sequence[BaseMessage]) -> str:
    last = messages[-1]
    report = last.response_metadata.get("loopguard_exit")
    if report:
        return str(report["reason"])
    limited = isinstance(last, AIMessage) and not last.usage_metadata
    return "limit" if limited else ""


def made(path: Path) -> dict[tuple[str, str, int], Row]:
    """The finished runs of a file; a line that was cut off is none."""
    rows: dict[tuple[str, str, int], Row] = {}
    if not path.exists():
        return rows
    for line in path.read_text().splitlines():
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
        rows[row.key] = row
    return rows


def go(
    path: Path,
    arms: Mapping[str, Arm],
    tasks: Sequence[Task],
    seeds: Sequence[int],
    models: Models,
) -> Iterator[Row]:
    """Make the runs that are not in the file, and add each to it when it is over.

    All arms of a task come one after the other: what is stopped half-way is paired.
    """
    known = made(path)
    if path.exists() and not path.read_text().endswith("\n"):
        path.write_text("".join(json.dumps(asdict(r)) + "\n" for r in known.values()))
    for seed in seeds:
        for task in tasks:
            for name, arm in arms.items():
                if (name, task.id, seed) in known:
                    continue
                row = run(name, arm, task, seed, models)
                with path.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
                yield row


HEAD = (
    f"{'':32}{'runs':>5}{'solved %':>14}{'than first':>14}{'repeated':>16}"
    f"{'saved':>16}{'tokens':>18}{'changed':>9}{'exits':>7}{'right':>6}{'s':>7}"
)


def table(rows: Mapping[tuple[str, str, int], Row], arms: Sequence[str]) -> list[str]:
    """The arms that have runs, beside the first of them, on the tasks that all have."""
    present = [arm for arm in arms if any(key[0] == arm for key in rows)]
    pairs = {key[1:] for key in rows}
    pairs = {p for p in pairs if all((arm, *p) in rows for arm in present)}
    if not pairs:
        return ["no task has a run under every arm"]
    groups = {arm: [rows[arm, *pair] for pair in sorted(pairs)] for arm in present}
    first = groups[present[0]]
    return [HEAD, *(_line(arm, group, first) for arm, group in groups.items())]


def _line(name: str, runs: Sequence[Row], first: Sequence[Row]) -> str:
    solved, before = ([r.solved for r in group] for group in (runs, first))
    vain, had = ([r.repeated for r in group] for group in (runs, first))
    told = [r.changed for r in runs if r.changed is not None]
    ends = [not b for r, b in zip(runs, before, strict=True) if r.exit]
    return (
        f"{name:32}{len(runs):>5}{figure(share(sum(solved), len(solved)), 100):>14}"
        f"{figure(pairs_differ(before, solved)[0], 100):>14}"
        f"{figure(mean(vain), digits=1):>16}"
        f"{figure(paired_amounts_differ(vain, had)[0], digits=1):>16}"
        f"{figure(mean([r.tokens for r in runs])):>18}"
        f"{f'{sum(told)}/{len(told)}':>9}{len(ends):>7}{sum(ends):>6}"
        f"{sum(r.seconds for r in runs):>7.0f}"
    )


def scripted(seed: int) -> tuple[BaseChatModel, BaseChatModel]:
    """A weak model that makes one call for ever, and a strong one that reads a file."""
    weak = ScriptedModel(default=call("search_docs", query="x"), model_name="weak")
    read = call("read_file", path="config/default.toml")
    strong = ScriptedModel([read], default="port 8471", model_name="strong")
    return weak, strong


def served(args: argparse.Namespace) -> Models:
    """The models of two servers."""
    from langchain_openai import ChatOpenAI

    def models(seed: int) -> tuple[BaseChatModel, BaseChatModel]:
        shared: Any = {"temperature": 0.5 if seed else 0, "seed": seed, "timeout": 900}
        shared |= {"max_completion_tokens": 120, "api_key": "none", "max_retries": 0}
        shared["use_responses_api"] = False
        weak = ChatOpenAI(model=args.weak, base_url=args.weak_url, **shared)
        strong = ChatOpenAI(model=args.strong, base_url=args.strong_url, **shared)
        return weak, strong

    return models


def main() -> None:
    """Make the runs that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--what", choices=("arms", "wordings"), default="arms")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", nargs="+", help="ids; all of them if left out")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--scripted", action="store_true")
    for role, port in (("weak", 8104), ("strong", 8105)):
        parser.add_argument(f"--{role}", default=role)
        parser.add_argument(f"--{role}-url", default=f"http://127.0.0.1:{port}/v1")
    args = parser.parse_args()
    arms = ARMS if args.what == "arms" else WORDINGS
    tasks = [task for task in TASKS if not args.tasks or task.id in args.tasks]
    if not args.report:
        models = scripted if args.scripted else served(args)
        for row in go(args.rows, arms, tasks, range(args.seeds), models):
            print(json.dumps(asdict(row)), flush=True)
    print(*table(made(args.rows), [*arms]), sep="\n")


if __name__ == "__main__":
    main()
