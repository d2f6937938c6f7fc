"""What a person's answer to a question of the guard's does."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from loopguard_lg import engine
from loopguard_lg.adapters import past
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.ladder import switched
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy


def carried_out(
    choice: str | None, policy: Policy, before: Memory, memory: Memory, scene: Scene
) -> Memory:
    """The memory where a person has chosen how to go on.

    Args:
        choice: What was chosen.
        policy: The settings.
        before: The memory as it was when the question was asked.
        memory: As it is now.
        scene: What the host knows.
    """
    if choice not in ("rollback", "change_model"):
        return memory
    asked = engine.standing(policy, before, due=True)
    if asked.finding is None:
        return memory
    if choice == "rollback" and not scene.counted:
        last = _before_question(scene.messages)
        back, _ = past.rolled_back(before, scene, asked.finding, last)
        return past.with_host(memory, hidden=back["host"]["hidden"])
    if choice == "change_model":
        return {**memory, "ladder": switched(policy.ladder, before["ladder"], asked.i)}
    return memory


def _before_question(messages: Sequence[BaseMessage]) -> str | None:
    """The id of the message before the newest reply, which asks."""
    places = [n for n, m in enumerate(messages) if isinstance(m, AIMessage)]
    return messages[places[-1] - 1].id if places and places[-1] else None
