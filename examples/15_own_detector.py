"""A detector and a progress signal of your own.

The model answers from a script, so that it runs without a key or a network:

    python examples/15_own_detector.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import Finding, LoopGuardMiddleware, Policy, Repeat, Turn
from loopguard_lg.history import History
from loopguard_lg.testing.doubles import ScriptedModel, call


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """One reply that makes too many calls at once."""

    kind: ClassVar[str] = "scattered"
    calls: int = 3
    shadow: bool = False

    def observe(self, history: History) -> Finding | None:
        """The newest turn, if it makes more calls than allowed."""
        if (count := len(history.now)) <= self.calls:
            return None
        detail = f"{count} calls in one reply"
        evidence = {"steps": (history.i,), "count": count, "threshold": self.calls}
        return Finding(kind=self.kind, detail=detail, **evidence)


def booked(turn: Turn) -> bool:
    """The task has moved when a seat is booked, whatever else repeats."""
    return any((step.result or "").startswith("booked") for step in turn.steps)


@tool
def book(seat: str) -> str:
    """Book a seat."""
    return "booked" if seat == "12A" else "taken"


policy = Policy(detectors=[Scattered(), Repeat(times=2)], progress=[booked])
SAME, MANY = call("book", seat="12A"), [call("book", seat=f"{n}B") for n in range(5)]
guard = LoopGuardMiddleware(policy)
model = ScriptedModel([SAME, SAME, SAME, MANY, "Done."])
agent: Any = create_agent(model, [book], middleware=[guard])

if __name__ == "__main__":
    agent.invoke({"messages": [("user", "Book seats.")]})
    print(model.requests[-1].text)  # with the guard's note
