"""What `loopguard demo` shows: one agent, without and with the guard.

The replies are those of real small models, recorded: a weak one that reads the same
file again and again, and a stronger one that takes over. The tools are run for real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain_core.messages import AIMessage
from rich.console import Console
from rich.markup import escape

from loopguard_lg import scratchpad
from loopguard_lg.adapters.middleware import LoopGuardMiddleware
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.ladder import Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.testing.sample import list_dir, read_file, search_docs

QUESTION = "What is the path of the store in src/store.py?"
LIMIT = 8
"""Model calls after which the agent without a guard is cut off."""

_STYLES = {
    "detected": ("yellow", "loop seen"),
    "reflected": ("yellow", "nudge"),
    "blocked": ("magenta", "not executed"),
    "escalated": ("magenta", "back to the last good point, stronger model"),
    "exited": ("red", "exit"),
}


class Show:
    """Prints what happens, and keeps the sums; an observer.

    Attributes:
        turns: Model calls so far.
        executed: Tool calls that were executed.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.turns = 0
        self.executed = 0

    def __call__(self, event: GuardEvent) -> None:
        """Print one event."""
        if event.name == "seen" and isinstance(event.event, Turn):
            self._turn(event.event)
        elif event.name in _STYLES:
            style, label = _STYLES[event.name]
            self.say(f"    [{style}]{label}[/]")
            self.say(f"[dim]{_indented(event.text)}[/]")

    def say(self, text: str) -> None:
        """Print a line as it is, however wide the terminal."""
        self.console.print(text, highlight=False, soft_wrap=True)

    def _turn(self, turn: Turn) -> None:
        self.turns += 1
        lines = [_call(step) for step in turn.steps] or [
            scratchpad.quote(turn.text, 90)
        ]
        self.executed += sum(1 for step in turn.steps if not step.blocked)
        for line in lines:
            self.say(f"{self.turns:>2}  [cyan]{turn.model}[/]  {escape(line)}")


def _call(step: Step) -> str:
    return f"{scratchpad.describe(step.tool, step.args)} -> " + scratchpad.quote(
        step.result, 50
    )


def _indented(text: str) -> str:
    return "\n".join(f"      {escape(line)}" for line in text.splitlines())


def replies(part: str) -> list[dict[str, Any]]:
    """The recorded replies of a part of the demo: `without`, `with` or `exit`."""
    source = files("loopguard_lg.testing").joinpath("demo.json")
    found: list[dict[str, Any]] = json.loads(source.read_text("utf-8"))[part]
    return found


def models(part: str) -> list[ScriptedModel]:
    """The models of a part of the demo, in the order in which they were called."""
    found: dict[str, list[AIMessage]] = {}
    for n, reply in enumerate(replies(part)):
        found.setdefault(reply["model"], []).append(_message(n, reply))
    return [ScriptedModel(said, model_name=name) for name, said in found.items()]


def _message(n: int, reply: dict[str, Any]) -> AIMessage:
    calls = [
        {"name": name, "args": args, "id": f"call_{n}_{at}"}
        for at, (name, args) in enumerate(reply["calls"])
    ]
    return AIMessage(reply["text"], tool_calls=calls)


def run(model: ScriptedModel, middleware: Sequence[AgentMiddleware[Any, Any]]) -> str:
    """The last words of an agent that is asked the question."""
    tools = [search_docs, read_file, list_dir]
    agent: Any = create_agent(model, tools, middleware=middleware)
    state = agent.invoke({"messages": [("user", QUESTION)]})
    return str(state["messages"][-1].text)


def guarded(part: str, show: Show) -> str:
    """The last words of the agent with a guard whose ladder leads to another model."""
    weak, strong = models(part)
    policy = Policy(
        ladder=Ladder(Reflect(), Escalate(model=strong), GiveUp()), leave_tools=()
    )
    return run(weak, [LoopGuardMiddleware(policy, observers=[show])])


def main(console: Console | None = None) -> int:
    """Run all three and print; the exit status."""
    console = console or Console()
    before, after = Show(console), Show(console)
    before.say(f"[bold]{QUESTION}[/]\n\n[bold]without the guard[/] (it only watches)")
    (alone,) = models("without")
    watch = LoopGuardMiddleware(Policy(observe_only=True), observers=[before])
    limit: AgentMiddleware[Any, Any] = ModelCallLimitMiddleware(run_limit=LIMIT)
    before.say(f"    [red]cut off[/]  {escape(run(alone, [watch, limit]))}\n")

    after.say("[bold]with the guard[/]")
    after.say(f"    [green]answered[/]  {escape(guarded('with', after))}\n")

    end = Show(console)
    end.say("[bold]with the guard, where the stronger model loops as well[/]")
    guarded("exit", end)
    end.say("")

    calls = [len(replies(part)) for part in ("without", "with")]
    tokens = [sum(sum(r["tokens"]) for r in replies(p)) for p in ("without", "with")]
    after.say(
        f"saved: model calls {calls[0]} -> {calls[1]}, executed tool calls "
        f"{before.executed} -> {after.executed}, tokens {tokens[0]} -> {tokens[1]}, "
        "and there is an answer"
    )
    return 0
