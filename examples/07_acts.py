"""What helps an agent before a loop begins: a cache, receipts, retries.

The model answers from a script and no time passes, so that it runs without a key:

    python examples/07_acts.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import LoopGuardMiddleware, Policy, ToolPolicy
from loopguard_lg.testing.doubles import ScriptedModel, call

done: list[str] = []


@tool
def read(path: str) -> str:
    """Read a file."""
    done.append(f"read {path}")
    return "the build of main is number 7"


@tool
def fetch_log(number: int) -> str:
    """Fetch the log of a build."""
    done.append("fetch log")
    return "Error 503, try later" if done.count("fetch log") == 1 else "12 passed"


@tool
def send_mail(to: str) -> str:
    """Send a letter."""
    done.append(f"write to {to}")
    return "sent"


policy = Policy(
    tools={
        "read": ToolPolicy(role="read", cache=True),
        "fetch_log": ToolPolicy(retry=True, wait=2),
        "send_mail": ToolPolicy(role="write", once=True),
    }
)
READ, MAIL = call("read", path="ci.md"), call("send_mail", to="Ann")
SCRIPT = [READ, READ, call("fetch_log", number=7), MAIL, MAIL, "Done."]
guard = LoopGuardMiddleware(policy, sleep=lambda seconds: print(f"waits {seconds} s"))
tools = [read, fetch_log, send_mail]
agent: Any = create_agent(ScriptedModel(SCRIPT), tools, middleware=[guard])

if __name__ == "__main__":
    for message in agent.invoke({"messages": [("user", "Tell Ann.")]})["messages"]:
        if message.type == "tool":
            print(f"{message.name}: {message.text}")
    print(f"really done: {', '.join(done)}")
