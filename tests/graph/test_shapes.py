"""Twelve shapes of graphs: what the guard does in each, as the table in the docs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from loopguard_lg import AskUser, Budget
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.testing.histories import assert_valid_history
from tests.graph.shapes import SHAPES, Shape
from tests.middleware.runs import laddered

PAGE = Path(__file__).parents[2] / "docs/shapes.md"
ALLOWED = 3
MUTE = ("supervisor", "functional API")
"""Shapes that can't ask: the one has no channel for it, the other no checkpointer."""
RUNGS = {
    "reflected": "reflect",
    "escalated": "escalate",
    "asked": "ask user",
    "exited": "give up",
}


@dataclass(frozen=True)
class Ran:
    """One run of a shape: its messages, its model, what the guard told."""

    messages: list[BaseMessage]
    model: ScriptedModel
    told: list[GuardEvent]
    graph: Any
    strong: ScriptedModel = field(default_factory=ScriptedModel)

    @property
    def requests(self) -> list[Any]:
        """What was sent, by the stronger model too."""
        return [*self.model.requests, *self.strong.requests]

    @property
    def report(self) -> dict[str, Any]:
        """The exit report: in the last message, or in the last result."""
        told = (m.response_metadata for m in reversed(self.messages))
        return next(m["loopguard_exit"] for m in told if "loopguard_exit" in m)

    @property
    def kind(self) -> str:
        """What was found first."""
        first = next(event for event in self.told if event.name == "detected")
        assert first.verdict.finding is not None
        return first.verdict.finding.kind

    @property
    def rungs(self) -> list[str]:
        """The rungs that it came to, in order."""
        return [RUNGS[event.name] for event in self.told if event.name in RUNGS]


@cache
def ran(shape: Shape, allowed: int | None = None) -> Ran:
    """A run of a shape; with so many model calls allowed."""
    model, told = shape.model(), list[GuardEvent]()
    policy = laddered(end=shape.end)
    if allowed is not None:
        policy = policy.replace(budget=Budget(model_calls=allowed))
    graph = shape.guarded(model, policy, [told.append])
    return Ran(shape.drive(graph, ["stop"]), model, told, graph)


ANSWERS = (
    "look elsewhere",
    {"choice": "rollback", "text": "try tags"},
    {"choice": "change_model"},
    {"decisions": [{"type": "reject", "message": "enough"}]},
)
"""What a person says in turn, asked about a loop: the last one ends the run."""

ALLOWING = ({"choice": "raise_budget", "text": "go on"}, "stop")
"""The same where the budget is used."""


@cache
def answered(shape: Shape, allowed: int | None = None) -> Ran:
    """A run that asks a person, and has a stronger model.

    Shapes whose surface can't ask end as they do without.
    """
    model, strong, told = shape.model(), shape.stronger(), list[GuardEvent]()
    policy = laddered(strong, AskUser(), turns=2)
    if allowed is not None:
        policy = policy.replace(budget=Budget(model_calls=allowed))
    graph = shape.guarded(model, policy, [told.append])
    messages = shape.drive(graph, ANSWERS if allowed is None else ALLOWING)
    return Ran(messages, model, told, graph, strong)


def runs(shape: Shape) -> list[Ran]:
    """Each run of a shape: up to the end of its ladder, or of a budget."""
    return [
        run(shape, allowed) for run in (ran, answered) for allowed in (None, ALLOWED)
    ]


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.name)
def shape(request: pytest.FixtureRequest) -> Shape:
    """Each shape."""
    found: Shape = request.param
    return found


def test_the_loop_is_caught_and_the_ladder_climbed_to_its_end(shape: Shape) -> None:
    """Each rung once, in order, and the run ends with the report."""
    rungs = ran(shape).rungs

    assert rungs[:2] == ["reflect", "escalate"]
    assert rungs[-1] == "give up"
    assert ran(shape).report["reason"] in ("loop", "gave_up")


def test_every_request_and_the_history_are_valid(shape: Shape) -> None:
    """What the model is sent at each turn, what stays, and what can be sent next."""
    for run in runs(shape):
        check_history(run)


def test_every_answer_of_a_person_is_carried_out(shape: Shape) -> None:
    """A hint, a way back, another model, more budget, the end: where it can ask."""
    whole, short = answered(shape), answered(shape, ALLOWED)
    asked = [[e.name for e in run.told].count("asked") for run in (whole, short)]

    assert asked == ([0, 0] if shape.name in MUTE else [len(ANSWERS), len(ALLOWING)])
    by = {message.response_metadata.get("model_name") for message in whole.messages}
    assert ("strong" in by) == (shape.name != "supervisor")
    assert whole.report["reason"] in ("loop", "gave_up")


def check_history(run: Ran) -> None:
    """Refuse what a strict provider would refuse."""
    for request in run.requests:
        assert_valid_history(request.messages)
    assert_valid_history(run.messages, request=False)
    assert_valid_history([*run.messages, ("user", "and now?")])


def test_a_budget_is_respected(shape: Shape) -> None:
    """No model call is made beyond it, by no node of the graph."""
    run = ran(shape, ALLOWED)

    assert run.report["usage"]["model_calls"] == ALLOWED
    assert len(run.model.requests) <= ALLOWED
    assert run.report["budget"] == "model_calls" or "ask user" in run.rungs


def edges(graph: Any) -> set[tuple[str, str]]:
    """The arrows of the drawing, subgraphs included."""
    drawing = graph.get_graph(xray=True)
    return {(edge.source, edge.target) for edge in drawing.edges}


def test_the_drawing_is_the_users_with_the_nodes_of_the_guard(shape: Shape) -> None:
    """Nothing of it is gone, and each new node has a way in and a way out."""
    check_drawing(shape)


def check_drawing(shape: Shape) -> None:
    """Compare the drawing with the one of the graph without the guard."""
    before, after = edges(shape.bare(shape.model())), edges(ran(shape).graph)
    new = [tuple(end.rpartition(":")[2] for end in way) for way in after - before]

    assert before <= after
    assert {end for way in new for end in way if "loopguard_" in end} == {*shape.new}
    for name in shape.new:
        assert any(name == end for _, end in new)
        assert any(name == start for start, _ in new)


def test_the_table_in_the_docs_is_what_was_seen() -> None:
    """The page shows these runs and no others."""
    assert table() in PAGE.read_text("utf-8")


def table() -> str:
    """The table, made from the runs."""
    head = "| shape | guarded by | loop caught | rungs | history | budget | drawing |"
    rows = [head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for one in SHAPES:
        run, short = ran(one), ran(one, ALLOWED)
        check_history(run)
        check_drawing(one)
        drawing = f"{len(one.new)} nodes more" if one.new else "as it was"
        cells = [
            one.name,
            one.surface,
            f"`{run.kind}` after {_turns(run)} turns",
            ", ".join(run.rungs),
            "valid",
            f"{short.report['usage']['model_calls']} of {ALLOWED}",
            drawing,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _turns(run: Ran) -> int:
    """Model calls before the first intervention."""
    shown = (request.messages for request in run.model.requests)
    told = [any("going in circles" in m.text for m in messages) for messages in shown]
    return told.index(True)


if __name__ == "__main__":
    sys.stdout.write(table())
