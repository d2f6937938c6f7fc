"""What real models are run under: five arms, and wordings of the first note."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    ToolCallLimitMiddleware,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool

from loopguard_lg import (
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
)
from loopguard_lg.policy import Act

ACTS: tuple[Act, ...] = get_args(Act)
READS = (
    *("search_docs", "read_file", "list_dir"),
    *("find_customer", "get_order", "read_rule"),
)
Middlewares = list[AgentMiddleware[Any, Any, Any]]
Arm = Callable[[BaseChatModel], Middlewares]
"""The middlewares of an arm, from the stronger model."""


def _unguarded(strong: BaseChatModel) -> Middlewares:
    return []


def _limiters(strong: BaseChatModel) -> Middlewares:
    """The two call limiters of langchain, as tight as half of what a run may take."""
    return [
        ModelCallLimitMiddleware(run_limit=8),
        ToolCallLimitMiddleware(run_limit=6),
    ]


def _reflect(strong: BaseChatModel) -> Middlewares:
    """A note, and the end where it does not help: a ladder has to end."""
    ladder = Ladder(Reflect(), GiveUp())
    return [LoopGuardMiddleware(Policy(ladder=ladder, acts_off=ACTS))]


def _ladder(strong: BaseChatModel) -> Middlewares:
    ladder = Ladder(Reflect(), Escalate(model=strong, turns=5), GiveUp())
    return [LoopGuardMiddleware(Policy(ladder=ladder, acts_off=ACTS))]


def _acts(strong: BaseChatModel) -> Middlewares:
    told = Reflect(temperature=0.7, hide_tool=True)
    ladder = Ladder(told, Escalate(model=strong, turns=5), GiveUp())
    tools = {name: ToolPolicy(role="read", cache=True) for name in READS}
    tools["cancel_order"] = ToolPolicy(role="write", once=True)
    return [LoopGuardMiddleware(Policy(ladder=ladder, tools=tools))]


ARMS: Mapping[str, Arm] = {
    "unguarded": _unguarded,
    "limiters": _limiters,
    "reflect only": _reflect,
    "whole ladder": _ladder,
    "ladder and acts": _acts,
}


@dataclass(frozen=True, slots=True)
class Wording:
    """A way to word the note.

    Attributes:
        quotes: Whether it quotes the repeated call with its arguments.
        forbids: Whether it forbids that call, instead of naming another tool.
    """

    quotes: bool
    forbids: bool

    def text(self, call: Mapping[str, Any], tools: Sequence[str]) -> str:
        """The note on a repeated call, where these tools are offered."""
        made = f"{call['name']}({json.dumps(call['args'])})"
        what = made if self.quotes else "the same call"
        other = next((t for t in tools if t not in (call["name"], "give_up")), "")
        then = f"Take another step now: use `{other}`."
        if self.forbids:
            then = "Do not make that call again."
        return (
            f"[loop guard] You made {what} several times and it gave the same result. "
            f"If that answers the task, give the final answer now. {then}"
        )


class Reworded(AgentMiddleware[Any, Any, Any]):
    """Puts another wording in the place of the guard's note; goes after the guard.

    Args:
        wording: How it is worded.
    """

    def __init__(self, wording: Wording) -> None:
        super().__init__()
        self.wording = wording

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the other note."""
        last = request.messages[-1]
        replies = [m for m in request.messages if isinstance(m, AIMessage)]
        if last.name != "loopguard" or not replies or not replies[-1].tool_calls:
            return handler(request)
        names = [tool.name for tool in request.tools if isinstance(tool, BaseTool)]
        text = self.wording.text(replies[-1].tool_calls[-1], names)
        note = HumanMessage(text, name=last.name)
        return handler(request.override(messages=[*request.messages[:-1], note]))


def _reworded(wording: Wording) -> Arm:
    return lambda strong: [*_reflect(strong), Reworded(wording)]


WORDINGS: Mapping[str, Arm] = {
    "note as it is": _reflect,
    **{
        f"{'quotes' if quotes else 'quotes nothing'}, "
        f"{'forbids' if forbids else 'names a tool'}": _reworded(
            Wording(quotes, forbids)
        )
        for quotes, forbids in product((True, False), repeat=2)
    },
}
