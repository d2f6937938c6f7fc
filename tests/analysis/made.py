"""Runs made for the analyses: what each does is plain to see."""

from __future__ import annotations

from typing import Any

from loopguard_lg import Policy
from loopguard_lg.analysis.facts import RunFacts, facts
from loopguard_lg.traces.model import from_dict

FREE = Policy(budget=())


def run(name: str, *calls: tuple[str, Any, str], **more: Any) -> dict[str, Any]:
    """A run of one call a turn, each as (tool, its argument, what came back)."""
    steps = [
        {
            "i": i,
            "agent": "main",
            "calls": [{"tool": tool, "args": {"q": value}, "result": result}],
        }
        for i, (tool, value, result) in enumerate(calls)
    ]
    for step in steps:
        step |= more.get("each", {})
    about = {key: value for key, value in more.items() if key != "each"}
    return {"id": name, "success": None, **about, "steps": steps}


def works(name: str, length: int = 3, **more: Any) -> dict[str, Any]:
    """A run that finds something new on every step, and succeeds."""
    towns = [
        "Bergen",
        "Cuzco",
        "Dakar",
        "Esfahan",
        "Faro",
        "Galway",
        "Hanoi",
        "Iquique",
    ]
    calls = [
        ("search", f"{towns[i % 8]} {i}", f"{towns[i % 8]}: {i * i + 7} people, {i}th")
        for i in range(length)
    ]
    return run(name, *calls, **{"success": True, **more})


def circles(name: str, length: int = 6, **more: Any) -> dict[str, Any]:
    """A run that asks the same and is told the same, and fails."""
    calls = [("search", "x", "no results")] * length
    return run(name, *calls, **{"success": False, **more})


def facts_of(*runs: dict[str, Any], policy: Policy = FREE) -> list[RunFacts]:
    """The facts of runs."""
    return [facts(policy, from_dict(data)) for data in runs]
