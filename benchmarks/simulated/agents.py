"""Simulated agents as real ones: a chat model and tools for `create_agent`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphRecursionError
from pydantic import PrivateAttr, create_model

from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.hooks import GuardEvent

from .habits import Agent, Call, Result, Seen, act
from .world import World, respond

SECOND = 1.0
"""How long a model call takes in the simulated time."""


class SimulatedModel(BaseChatModel):
    """Answers as the agent would.

    What that keeps in mind stands in its replies: of what is out of view nothing is
    left, as with a real model.
    """

    agent: Agent
    strong: bool = False
    model_name: str = "simulated"
    _rng: Random = PrivateAttr()

    def __init__(self, agent: Agent, seed: int, **fields: Any) -> None:
        super().__init__(agent=agent, **fields)
        self._rng = Random(seed)

    @property
    def _llm_type(self) -> str:
        return "simulated"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Bind the tools by name, which is all that the agent looks at."""
        return self.bind(tools=[tool.name for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        seen, mind = _seen(messages, kwargs, strong=self.strong)
        action, mind = act(self.agent, mind, seen, self._rng)
        calls = [
            {"name": c.tool, "args": dict(c.args), "id": f"c{len(messages)}_{n}"}
            for n, c in enumerate(action)
        ]
        reply = AIMessage(
            "" if calls else "Here is what I found.",
            tool_calls=calls,
            additional_kwargs={"mind": dict(mind)},
            usage_metadata=_usage(messages, calls),
            response_metadata={"model_name": self.model_name},
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])


def _usage(messages: Sequence[BaseMessage], calls: Any) -> UsageMetadata:
    """Tokens by the rule of thumb of four characters each."""
    sent = sum(len(m.text) // 4 + 4 for m in messages)
    sent += sum(
        len(json.dumps(call["args"])) // 4 + 8
        for m in messages
        if isinstance(m, AIMessage)
        for call in m.tool_calls
    )
    made = len(json.dumps(calls)) // 4 + 1
    return UsageMetadata(
        input_tokens=sent, output_tokens=made, total_tokens=sent + made
    )


def _seen(
    messages: Sequence[BaseMessage], kwargs: Any, *, strong: bool
) -> tuple[Seen, dict[str, int]]:
    """What the agent sees, and what its last reply in view kept in mind."""
    replies = [m for m in messages if isinstance(m, AIMessage)]
    last = replies[-1] if replies else None
    after = messages[[*messages].index(last) + 1 :] if last else messages
    calls = (
        {c["id"]: Call(c["name"], c["args"]) for c in last.tool_calls} if last else {}
    )
    results = tuple(
        Result(calls[m.tool_call_id], m.text, m.status == "error")
        for m in after
        if isinstance(m, ToolMessage) and m.tool_call_id in calls
    )
    seen = Seen(
        results=results,
        note="\n".join(m.text for m in after if m.name == "loopguard"),
        tools=frozenset(kwargs.get("tools", ())),
        temperature=kwargs.get("temperature") or 0.0,
        strong=strong,
    )
    return seen, dict(last.additional_kwargs.get("mind", {})) if last else {}


@dataclass(slots=True)
class Clock:
    """The simulated time: model calls and waiting let it pass."""

    now: float = 0.0
    waited: float = 0.0

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.waited += seconds


@dataclass(slots=True)
class Run:
    """What came of one run.

    Attributes:
        done: The agent came to the end of its plan.
        circled: The guard saw a loop.
        turns: Model calls that the agent made.
        tokens: What they took together, samples that were not taken included.
        doubled: Letters that were sent twice.
        waited: Seconds that passed by the guard's doing.
    """

    done: bool = False
    circled: bool = False
    turns: int = 0
    tokens: int = 0
    doubled: int = 0
    waited: float = 0.0
    world: World = field(default_factory=World)


_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("Search the documents.", {"query": (str, ...)}),
    "read": ("Read a file.", {"path": (str, ...)}),
    "send_mail": ("Send a letter.", {"to": (str, ...), "text": (str, ...)}),
    "order": ("Order something.", {"item": (str, ...), "count": (int, ...)}),
    "job_status": ("Ask how far a job is.", {"job": (str, ...)}),
    "fetch": ("Fetch a page.", {"url": (str, ...)}),
    "transfer_to_sales": ("Hand over to sales.", {"reason": (str, ...)}),
    "transfer_to_support": ("Hand over to support.", {"reason": (str, ...)}),
}


def tools_of(run: Run, clock: Clock) -> list[BaseTool]:
    """The tools of the world, which is in `run`."""

    def answers(tool: str) -> Callable[..., str]:
        def answer(**args: Any) -> str:
            text, run.world = respond(run.world, tool, args, clock.now)
            return text

        return answer

    return [
        StructuredTool.from_function(
            answers(name),
            name=name,
            description=about,
            args_schema=create_model(name, **args),
        )
        for name, (about, args) in _TOOLS.items()
    ]


def simulate(agent: Agent, policy: Policy, seed: int, limit: int = 40) -> Run:
    """One run of a guarded agent; it is stopped after `limit` model calls.

    Args:
        agent: Who acts.
        policy: The guard's.
        seed: Chance.
        limit: Model calls after which the run counts as not done.
    """
    run, clock = Run(), Clock()

    def note(event: GuardEvent) -> None:
        run.circled |= event.name == "detected"

    guard = LoopGuardMiddleware(
        policy, observers=[note], sleep=clock.sleep, clock=lambda: clock.now
    )
    model = _Counted(agent, seed, run=run, clock=clock)
    built = create_agent(model, tools_of(run, clock), middleware=[guard])
    try:
        given: Any = {"messages": [("user", "send Bob the report")]}
        last = built.invoke(given, {"recursion_limit": 2 * limit})["messages"][-1]
        run.done = last.text == "Here is what I found."
    except GraphRecursionError:
        pass
    run.doubled, run.waited = run.world.doubled, clock.waited
    return run


class _Counted(SimulatedModel):
    """A simulated model that counts its calls."""

    _run: Run = PrivateAttr()
    _clock: Clock = PrivateAttr()

    def __init__(self, agent: Agent, seed: int, *, run: Run, clock: Clock) -> None:
        super().__init__(agent, seed)
        self._run, self._clock = run, clock

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        made = super()._generate(*args, **kwargs)
        reply = made.generations[0].message
        assert isinstance(reply, AIMessage)
        assert reply.usage_metadata is not None
        self._run.turns += 1
        self._run.tokens += reply.usage_metadata["total_tokens"]
        self._clock.now += SECOND
        return made
