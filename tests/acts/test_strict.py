from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from loopguard_lg import Policy, ToolPolicy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import ask, executed, guarded, results

ONCE = ToolPolicy(role="write", once=True)


def tool_of(name: str, answer: Callable[..., str]) -> Any:
    """A tool that takes anything and notes that it was executed."""

    def run(**given: Any) -> str:
        executed.append(name)
        return answer(**given)

    keys = {"type": "object", "properties": {k: {} for k in ["id", "path", "text"]}}
    return StructuredTool.from_function(
        run, name=name, description=name, args_schema={**keys, "title": name}
    )


def outcome(tools: list[Any], replies: list[Any], **policies: ToolPolicy) -> list[str]:
    """The results of a run."""
    model = ScriptedModel(replies=[*replies, "done"])
    agent = guarded(model, Policy(tools=policies, advisors=()), tools=tools)
    return [m.text for m in results(agent.invoke(ask())["messages"])]


def test_what_differs_by_a_blank_is_written() -> None:
    """At most once is meant to the letter."""
    save = tool_of("save", lambda **_: "ok")
    texts = ["a", "a\n", "A"]

    outcome([save], [call("save", path="a", text=t) for t in texts], save=ONCE)

    assert len(executed) == 3


def test_once_holds_where_a_name_reads_as_a_look() -> None:
    """The setting says more than the name."""
    start = tool_of("open_workflow", lambda **_: "ok")
    replies = [call("open_workflow", id="7")] * 2

    outcome([start], replies, open_workflow=ToolPolicy(once=True))

    assert executed == ["open_workflow"]


@pytest.mark.parametrize("name", ["find_and_replace", "fetch_and_store"])
def test_a_name_that_begins_with_a_look_may_write(name: str) -> None:
    """`find_and_replace` drops what was read before it."""
    world = ["old"]
    read = tool_of("read", lambda **_: world[0])

    def replace(**_: Any) -> str:
        world[0] = "new"
        return "replaced 1"

    change = tool_of(name, replace)
    looks = [call("read", path="a"), call(name, path="a", text="new")]

    found = outcome([read, change], [*looks, looks[0]], read=ToolPolicy(cache=True))

    assert found[-1] == "new"


def test_a_strategy_that_raises_breaks_no_run() -> None:
    """It is logged and left out."""

    def broken(state: Any) -> float:
        raise ValueError("out of order")

    check = tool_of("check_ci", lambda **_: "running")
    polled = ToolPolicy(role="poll", wait=broken, stop=broken)

    assert outcome([check], [call("check_ci", id="1")] * 2, check_ci=polled) == [
        "running",
        "running",
    ]
