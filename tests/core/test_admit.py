"""Which calls may be executed."""

from __future__ import annotations

from loopguard_lg import Budget, Policy, decide
from loopguard_lg.admission import Refusal, admit
from loopguard_lg.memory import Memory
from loopguard_lg.steps import Event, Step, Turn

from .wild import call

PLAIN = Policy()
EMPTY = call("[]", query="x")


def after(*events: Event, policy: Policy = PLAIN) -> Memory:
    """The memory after these events."""
    memory: Memory = {}
    for event in events:
        _, memory = decide(policy, memory, event)
    return memory


def test_what_made_the_loop_is_held() -> None:
    """The same call is refused, in any spelling; others are not."""
    memory = after(*[EMPTY] * 3)

    assert admit(PLAIN, memory, "search", {"query": " x "}) == Refusal(held="repeat")
    assert admit(PLAIN, memory, "search", {"query": "y"}) is None
    assert admit(PLAIN, memory, "find", {"query": "x"}) is None


def test_nothing_is_held_once_the_world_has_changed() -> None:
    """After an edit the call may have another result."""
    edit = Turn(steps=(Step(tool="act", result="ok", changed_state=True),))

    memory = after(*[EMPTY] * 3, edit)

    assert admit(PLAIN, memory, "search", {"query": "x"}) is None


def test_a_new_thread_holds_nothing() -> None:
    """`None` and `{}` are memories, too."""
    assert admit(PLAIN, None, "search", {}) is None
    assert admit(PLAIN, {}, "search", {}, ahead=["search"] * 9) is None


def test_a_call_without_room_in_a_budget_is_refused() -> None:
    """By its place in the batch, and by what the model call before it took."""
    policy = Policy(budget=Budget(tool_calls=3, total_tokens=100))
    memory = after(EMPTY, policy=policy)

    assert admit(policy, memory, "search", {}, ahead=["search"]) is None
    late = admit(policy, memory, "search", {}, ahead=["search"] * 2)
    costly = admit(policy, memory, "search", {}, spend={"input_tokens": 100})

    assert late is not None
    assert late.exceeded is not None
    assert late.exceeded.limit == "tool_calls"
    assert costly is not None
    assert costly.exceeded is not None
    assert costly.exceeded.limit == "total_tokens"
