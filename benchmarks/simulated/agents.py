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

from .habits import Agent, Call, Result, Seen, act, agent_of
from .world import World, respond

TASK = "send Bob the report"

DONE = "Here is what I found."
"""What an agent says at the end of its plan."""

QUIT = "I could not find it."
"""What it says where it ends without that."""

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
        super().__init__(agent=agent, **fields)  # type: ignore[call-arg]  # a pydantic field
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
        seen, before = _seen(messages, kwargs, strong=self.strong)
        action, mind = act(self.agent, before, seen, self._rng)
        calls = [
            {"name": c.tool, "args": dict(c.args), "id": f"c{len(messages)}_{n}"}
            for n, c in enumerate(action)
        ]
        reply = AIMessage(
            "" if calls else QUIT if mind.get("quit") else DONE,
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
        strong: Those of them that a stronger model made.
        vain: Those of them that were made by habit.
        tokens: What they took together, samples that were not taken included.
        doubled: Letters that were sent twice.
        waited: Seconds that passed by the guard's doing.
        world: What became of the world.
        told: How often the guard did what, by the names of its events.
        calls: What was asked for, executed or not, in order.
    """

    done: bool = False
    circled: bool = False
    turns: int = 0
    strong: int = 0
    vain: int = 0
    tokens: int = 0
    doubled: int = 0
    waited: float = 0.0
    world: World = field(default_factory=World)
    told: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def note(self, event: GuardEvent) -> None:
        """Count what the guard does."""
        self.circled |= event.name == "detected"
        self.told[event.name] = self.told.get(event.name, 0) + 1

    def answer(self, tool: str, args: dict[str, Any], now: float) -> str:
        """What comes of a call in its world."""
        text, self.world = respond(self.world, tool, args, now)
        return text


_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("Search the documents.", {"query": (str, ...)}),
    "read": ("Read a file.", {"path": (str, ...)}),
    "edit": ("Change a file.", {"path": (str, ...), "text": (str, ...)}),
    "run_tests": ("Run the tests.", {}),
    "write_todos": ("Write down the plan.", {"todos": (str, ...)}),
    "send_mail": ("Send a letter.", {"to": (str, ...), "text": (str, ...)}),
    "order": ("Order something.", {"item": (str, ...), "count": (int, ...)}),
    "job_status": ("Ask how far a job is.", {"job": (str, ...)}),
    "wait": ("Wait for a while.", {"seconds": (int, ...)}),
    "fetch": ("Fetch a page.", {"url": (str, ...)}),
    "transfer_to_sales": ("Hand over to sales.", {"reason": (str, ...)}),
    "transfer_to_support": ("Hand over to support.", {"reason": (str, ...)}),
}


def tools_of(answer: Callable[[str, dict[str, Any]], str]) -> list[BaseTool]:
    """The tools of the world; `answer` says what comes of a call."""

    def answers(tool: str) -> Callable[..., str]:
        return lambda **args: answer(tool, args)

    return [
        StructuredTool.from_function(
            answers(name),
            name=name,
            description=about,
            args_schema=create_model(name, **args),
        )
        for name, (about, args) in _TOOLS.items()
    ]


def simulate(
    agent: Agent,
    policy: Policy,
    seed: int,
    limit: int = 40,
    strong: CountedModel | None = None,
) -> Run:
    """One run of a guarded agent; it is stopped after `limit` model calls.

    Args:
        agent: Who acts.
        policy: The guard's.
        seed: Chance.
        limit: Model calls after which the run counts as not done.
        strong: The stronger model of the ladder, if it names one.
    """
    run, clock = Run(), Clock()

    guard = LoopGuardMiddleware(
        policy, observers=[run.note], sleep=clock.sleep, clock=lambda: clock.now
    )
    model = CountedModel(agent, seed, run=run, clock=clock)
    if strong is not None:
        strong.begin(agent, seed, run, clock)
    tools = tools_of(lambda tool, args: run.answer(tool, args, clock.now))
    built = create_agent(model, tools, middleware=[guard])
    try:
        given: Any = {"messages": [("user", TASK)]}
        last = built.invoke(given, {"recursion_limit": 2 * limit})["messages"][-1]
        run.done = last.text == DONE
    except GraphRecursionError:
        pass
    run.doubled, run.waited = run.world.doubled, clock.waited
    return run


class CountedModel(SimulatedModel):
    """A simulated model that counts its calls."""

    _run: Run = PrivateAttr()
    _clock: Clock = PrivateAttr()

    def __init__(
        self, agent: Agent, seed: int, *, run: Run, clock: Clock, **fields: Any
    ) -> None:
        super().__init__(agent, seed, **fields)
        self.begin(agent, seed, run, clock)

    def begin(self, agent: Agent, seed: int, run: Run, clock: Clock) -> None:
        """Act as another agent in another run."""
        self.agent, self._rng = agent, Random(seed)
        self._run, self._clock = run, clock

    @property
    def made(self) -> int:
        """The calls so far in this run, those of other models included."""
        return self._run.turns

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        made = super()._generate(*args, **kwargs)
        reply = made.generations[0].message
        assert isinstance(reply, AIMessage)
        assert reply.usage_metadata is not None
        self._run.turns += 1
        self._run.strong += self.strong
        self._run.vain += reply.additional_kwargs["mind"].get("habit", 0)
        self._run.calls += [(c["name"], c["args"]) for c in reply.tool_calls]
        self._run.tokens += reply.usage_metadata["total_tokens"]
        self._clock.now += SECOND
        return made


def stronger() -> CountedModel:
    """A stronger model for a ladder; `begin` makes it part of a run."""
    agent = agent_of("honest")
    return CountedModel(
        agent, 0, run=Run(), clock=Clock(), strong=True, model_name="stronger"
    )
