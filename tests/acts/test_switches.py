"""With each act alone an agent gets on; switched off, for a tool or in all, not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from tenacity import wait_fixed

from loopguard_lg import (
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
    decide,
)
from loopguard_lg.errors import PolicyError
from loopguard_lg.policy import Act
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, last

slept: list[float] = []


@tool
def send(to: str) -> str:
    """Send a letter."""
    executed.append(f"send {to}")
    return f"receipt for {to}"


@tool
def fetch(what: str) -> str:
    """Fetch something; only time brings the service back."""
    return "fetched" if sum(slept) >= 3 else "Error: 503 Service Unavailable"


@tool
def check_ci(run: str) -> str:
    """Ask how far a build is; only time gets it on."""
    return "built" if sum(slept) >= 20 else "still running"


@tool
def find(path: str) -> str:
    """Find a file."""
    return "found it" if path == "src/main.py" else "Error: no such file src/main.py"


async def asleep(seconds: float) -> None:
    """Let no time pass, on an event loop."""
    slept.append(seconds)


@dataclass(frozen=True)
class Case:
    """An agent that an act gets on.

    Attributes:
        call: What it does again and again.
        heard: With what in a result it is content.
        on: The settings of its tool.
        off: The field that switches the act off for the tool.
    """

    call: Any
    heard: str
    on: ToolPolicy
    off: dict[str, Any]


def tip(call: Step, result: Any, facts: Any) -> str | None:
    """Advice of the app's own."""
    return "Take src/main.py." if call.tool == "find" else None


CASES: dict[str, Case] = {
    "advice": Case(
        call("find", path="main"), "Take src/main.py", ToolPolicy(), {"advise": False}
    ),
    "cache": Case(
        call("read", path="a"),
        "nothing was written since",
        ToolPolicy(role="read", cache=True),
        {"cache": False},
    ),
    "once": Case(
        call("send", to="Ann"),
        "Done before",
        ToolPolicy(role="write", once=True),
        {"once": False},
    ),
    "poll": Case(
        call("check_ci", run="1"),
        "built",
        ToolPolicy(role="poll", wait=wait_fixed(10)),
        {"slow": False},
    ),
    "retry": Case(
        call("fetch", what="x"), "fetched", ToolPolicy(retry=True), {"retry": False}
    ),
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    slept.clear()


def stubborn(case: Case) -> ScriptedModel:
    """A model that does the same until it hears what it wants to."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "content" if case.heard in messages[-1].text else case.call

    return ScriptedModel(default=reply)


def ends(case: Case, policy: Policy, way: Way) -> str:
    """The last words of the case's agent."""
    guard = LoopGuardMiddleware(
        policy, sleep=slept.append, asleep=asleep, clock=lambda: 0.0
    )
    tools = [*TOOLS, send, fetch, check_ci, find]
    agent = create_agent(stubborn(case), tools, middleware=[guard])
    return last(way(agent, ask(), THREAD)).text


def policy_of(case: Case, **settings: Any) -> Policy:
    """A policy with all that the case needs."""
    name = case.call.tool
    return Policy(tools={name: case.on}, advisors=[tip], **settings)


@pytest.mark.parametrize("act", CASES)
def test_with_the_act_the_agent_gets_on(act: str, way: Way) -> None:
    """On a real run, in each way to run it."""
    assert ends(CASES[act], policy_of(CASES[act]), way) == "content"


@pytest.mark.parametrize("act", CASES)
def test_switched_off_in_all_the_agent_loops(act: str, way: Way) -> None:
    """`Policy(acts_off=...)` holds for every tool of a graph."""
    policy = policy_of(CASES[act], acts_off=[act])

    assert "I stopped" in ends(CASES[act], policy, way)


@pytest.mark.parametrize("act", CASES)
def test_switched_off_for_its_tool_the_agent_loops(act: str, way: Way) -> None:
    """A field of `ToolPolicy` holds for one tool."""
    case = CASES[act]
    other = replace(case, on=replace(case.on, **case.off))

    assert "I stopped" in ends(case, policy_of(other), way)


@pytest.mark.parametrize("act", CASES)
def test_the_other_acts_do_not_replace_it(act: str, way: Way) -> None:
    """With all the others off, it is enough by itself."""
    others = [other for other in get_args(Act) if other != act]

    assert ends(CASES[act], policy_of(CASES[act], acts_off=others), way) == "content"


def test_another_way_to_go_on_is_switched_off_as_well() -> None:
    """The rungs stay, their options go."""
    ladder = Ladder(Reflect(tokens=99, temperature=0.9, samples=3), GiveUp())
    policy = Policy(ladder=ladder, acts_off=["decoding"])

    assert policy.acting.ladder == Ladder(Reflect(tokens=99), GiveUp())
    assert policy.ladder == ladder


def test_what_is_off_comes_back() -> None:
    """The policy keeps what is said of tools, for graphs that have the act."""
    policy = Policy(tools={"send": ToolPolicy(once=True)}, acts_off=["once"])

    assert not policy.acting.tools["send"].once
    assert policy.replace(acts_off=()).acting.tools["send"].once


def test_an_act_that_there_is_not_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(PolicyError, match="acts_off='caching': give one of advice"):
        Policy(acts_off=["caching"])  # type: ignore[list-item]


def test_a_poll_without_a_pace_counts_as_any_call() -> None:
    """Switched off, a declared wait is no licence to poll for ever."""
    case = CASES["poll"]
    step = Step(tool="check_ci", args={"run": "1"}, result="still running")
    kinds: dict[bool, set[str]] = {False: set(), True: set()}
    for off in kinds:
        memory: dict[str, Any] = {}
        policy = policy_of(case, acts_off=["poll"] if off else [])
        for _ in range(12):
            verdict, memory = decide(policy, memory, Turn(steps=(step,)))
            kinds[off] |= {finding.kind for finding in verdict.findings}

    assert kinds[False] == set()
    assert "repeat" in kinds[True]


def test_one_file_switches_an_act_off_for_one_graph(tmp_path: Path) -> None:
    """And leaves it on for the others; a tool has it off for itself."""
    file = tmp_path / "loopguard.toml"
    file.write_text(
        "[tools.search]\ncache = true\n[tools.send]\nonce = true\nadvise = false\n"
        "[graphs.batch]\nacts_off = ['cache']\n"
    )
    batch = Policy.load(file, graph="batch", env={}).acting.tools
    other = Policy.load(file, env={}).acting.tools

    assert (batch["search"].cache, batch["send"].once) == (False, True)
    assert (other["search"].cache, other["send"].advise) == (True, False)


@pytest.mark.parametrize("act", ["cache", "once"])
def test_a_graph_has_the_same_switches(act: str, way: Way) -> None:
    """One mechanism serves middleware and graphs."""
    case = CASES[act]
    ended = []
    for off in ([], [act]):
        builder = graphs.react(stubborn(case), tools=ToolNode([*TOOLS, send]))
        graph = graphs.guarded(builder, policy_of(case, acts_off=off))
        ended.append(graphs.run(way, graph)["messages"][-1].text)

    assert ended[0] == "content"
    assert "I stopped" in ended[1]
