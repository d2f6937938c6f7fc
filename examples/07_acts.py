"""What helps an agent before a loop begins: a cache, receipts, paced polls, retries.

The model answers from a script and no time passes, so that it runs without a key:

    python examples/07_acts.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import (
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
)
from loopguard_lg.testing.doubles import ScriptedModel, call

done: list[str] = []
"""What the tools really did."""


@tool
def read(path: str) -> str:
    """Read a file."""
    done.append(f"read {path}")
    return "the build of main is number 7"


@tool
def build_status(number: int) -> str:
    """Ask how far a build is."""
    done.append("asked for the build")
    return "passed" if done.count("asked for the build") == 3 else "still running"


@tool
def fetch_log(number: int) -> str:
    """Fetch the log of a build."""
    done.append("fetched the log")
    first = done.count("fetched the log") == 1
    return "Error: 503 Service Unavailable" if first else "12 tests passed"


@tool
def send_mail(to: str, text: str) -> str:
    """Send a letter."""
    done.append(f"wrote to {to}")
    return f"sent to {to}"


policy = Policy(
    tools={
        "read": ToolPolicy(role="read", cache=True),
        "build_status": ToolPolicy(role="poll", wait=30, stop=20),
        "fetch_log": ToolPolicy(retry=True, wait=2),
        "send_mail": ToolPolicy(role="write", once=True),
    },
    ladder=Ladder(Reflect(temperature=0.7, hide_tool=True), GiveUp()),
)

READ, POLL = call("read", path="ci.md"), call("build_status", number=7)
MAIL = call("send_mail", to="Ann", text="The build has passed.")
SCRIPT = [
    READ,
    READ,
    POLL,
    POLL,
    POLL,
    call("fetch_log", number=7),
    MAIL,
    MAIL,
    "Done.",
]


def waited(seconds: float) -> None:
    """Say how long the guard waits, and do not."""
    print(f"  (waits {seconds:g} s)")


guard = LoopGuardMiddleware(policy, sleep=waited, clock=lambda: 0.0)
tools = [read, build_status, fetch_log, send_mail]
agent: Any = create_agent(ScriptedModel(SCRIPT), tools, middleware=[guard])

if __name__ == "__main__":
    state = agent.invoke(
        {"messages": [("user", "Tell Ann when the build is through.")]}
    )
    for message in state["messages"]:
        if message.type == "tool":
            print(f"{message.name}: {message.text}")
    print(f"really done: {', '.join(done)}")
