from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from loopguard_lg import LoopGuardMiddleware, Policy, Recorder, ToolPolicy
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.readers import read as read_traces
from tests.graph import graphs
from tests.middleware.runs import THREAD, Way, ask, guarded, results

FILES = {"src/main.py": "def main(): ...", "src/util.py": "def util(): ..."}


@tool
def list_dir(path: str) -> str:
    """List a folder."""
    return "\n".join(FILES)


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return FILES.get(path, "Error: no such file")


@tool
def pictures(path: str) -> Any:
    """Look at pictures."""
    return [
        {"type": "text", "text": "No such file"},
        {"type": "text", "text": "x/y.py"},
    ]


TOOLS = [list_dir, read_file, pictures]
OFF = Policy(advisors=())
OFF_HERE = Policy(tools={"read_file": ToolPolicy(advise=False)})


def guesser() -> ScriptedModel:
    """A model that guesses a path again until the right one is offered."""

    def reply(messages: list[BaseMessage]) -> Any:
        said = messages[-1].text
        if "def main" in said:
            return "found"
        if len(messages) < 3:
            return call("list_dir", path="src")
        right = "`src/main.py`" in said
        return call("read_file", path="src/main.py" if right else "src/mian.py")

    return ScriptedModel(default=reply)


def last_text(state: dict[str, Any]) -> str:
    """How a run ended."""
    text: str = state["messages"][-1].text
    return text


def test_a_near_path_gets_an_agent_on(way: Way) -> None:
    """An agent that guesses a path reads the right one after one error."""
    state = way(guarded(guesser(), tools=TOOLS), ask(), THREAD)

    assert last_text(state) == "found"
    assert len(results(state["messages"])) == 3


@pytest.mark.parametrize("policy", [OFF, OFF_HERE], ids=["in all", "for the tool"])
def test_without_advice_the_agent_loops(policy: Policy) -> None:
    """Switched off, the same agent guesses until the guard ends it."""
    state = guarded(guesser(), policy, tools=TOOLS).invoke(ask(), THREAD)

    assert "I stopped before the task was done" in last_text(state)


@pytest.mark.parametrize("off", [False, True])
def test_the_tool_node_of_a_graph_gives_the_same_advice(way: Way, off: bool) -> None:
    """One mechanism serves middleware and graphs, and is switched off in both."""
    model = guesser()
    builder = graphs.react(model, tools=ToolNode(TOOLS))
    state = graphs.run(way, graphs.guarded(builder, OFF if off else None))

    assert (last_text(state) == "found") is not off


def test_the_tools_own_result_stays(way: Way) -> None:
    """Advice comes after it, in a line of its own."""
    model = ScriptedModel(replies=[call("read_file", path="src/mian.py"), "done"])
    (result,) = results(way(guarded(model, tools=TOOLS), ask(), THREAD)["messages"])

    assert result.text.startswith("Error: no such file\n[loop guard] ")


def test_results_in_blocks_get_a_block_of_advice() -> None:
    """The blocks of the tool stay as they are."""
    policy = Policy(advisors=[lambda *_: "look elsewhere"])
    model = ScriptedModel(replies=[call("pictures", path="src/mian.py"), "done"])
    agent = guarded(model, policy, tools=TOOLS)
    (result,) = results(agent.invoke(ask(), THREAD)["messages"])

    assert isinstance(result.content, list)
    assert len(result.content) == 3
    assert result.text.endswith("[loop guard] look elsewhere")


def test_two_guards_advise_once() -> None:
    """The outer guard sees that the inner one has advised."""
    model = ScriptedModel(replies=[call("read_file", path="src/mian.py"), "done"])
    guards = [LoopGuardMiddleware(), LoopGuardMiddleware(name="outer")]
    agent = create_agent(model, TOOLS, middleware=guards)
    (result,) = results(agent.invoke(ask(), THREAD)["messages"])

    assert result.text.count("[loop guard]") == 1


def test_an_advisor_that_fails_has_no_advice() -> None:
    """A fault in a user's advisor does not cost the run."""
    policy = Policy(advisors=[lambda call, result, facts: str(1 // 0)])
    model = ScriptedModel(replies=[call("read_file", path="x.py"), "done"])
    agent = guarded(model, policy, tools=TOOLS)

    assert last_text(agent.invoke(ask(), THREAD)) == "done"


def test_detectors_and_recordings_never_see_advice(tmp_path: Path) -> None:
    """Steps hold the tool's own result, live and recorded."""
    seen: list[GuardEvent] = []
    model = ScriptedModel(replies=[call("pictures", path="x/z.py"), guess(), "done"])
    with Recorder(tmp_path / "run.jsonl") as recorder:
        agent = guarded(model, tools=TOOLS, observers=[seen.append, recorder])
        state = agent.invoke(ask(), THREAD)

    assert "[loop guard]" in results(state["messages"])[-1].text
    told = [step for event in seen for step in getattr(event.event, "steps", ())]
    assert [step.result for step in told][-1] == "Error: no such file"
    (run,) = read_traces(tmp_path / "run.jsonl")
    assert not any("[loop guard]" in str(event) for event in run.events)


def guess() -> Any:
    """A call for a path that is not there."""
    return call("read_file", path="src/mian.py")


def test_a_command_keeps_what_it_does(way: Way) -> None:
    """The result inside a tool's command is advised, the rest of it stays."""

    @tool
    def read_doc(path: str, id_: Annotated[str, InjectedToolCallId]) -> Any:
        """Read a document."""
        return Command(update={"messages": [ToolMessage("[]", tool_call_id=id_)]})

    model = ScriptedModel(replies=[call("read_doc", path="x"), "done"])
    (result,) = results(way(guarded(model, tools=[read_doc]), ask(), {})["messages"])

    assert result.text.startswith("[]\n[loop guard] Searched, none exist")
