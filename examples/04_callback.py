"""Watch an agent that is not yours: what would the guard have done?

The model answers from a script, so that it runs without a key or a network:

    python examples/04_callback.py
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import LoopGuardCallback
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results"


def run(watch: LoopGuardCallback) -> None:
    """Run an agent that makes the same call eight times."""
    replies = [*[call("search", query="retention")] * 8, "I found nothing."]
    agent = create_agent(ScriptedModel(replies=replies), [search])
    agent.invoke({"messages": [("user", "find it")]}, {"callbacks": [watch]})


if __name__ == "__main__":
    watch = LoopGuardCallback()
    run(watch)
    for would in watch.runs[-1].would:
        print(f"turn {would.i}: would {would.action}: {would.detail}")
    print(f"took {watch.runs[-1].usage['model_calls']} model calls")
    try:
        run(LoopGuardCallback(halt=True))
    except LoopHaltedError as stopped:
        print(stopped)
