"""`handoff_tool`: hand over with a contract, in a swarm or under a supervisor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from loopguard_lg import prompts
from loopguard_lg.adapters.messages import MARK, is_word, mark_of, newest_reply
from loopguard_lg.adapters.tool_call import read
from loopguard_lg.adapters.transcript import HANDED_BACK
from loopguard_lg.contracts import Contract, settled

_DESTINATION = "__handoff_destination"
"""Where langgraph-swarm and langgraph-supervisor look for where a tool leads to."""


def handoff_tool(
    agent_name: str, *, name: str | None = None, description: str | None = None
) -> BaseTool:
    """A tool by which an agent hands a subtask to another one, with what it owes.

    A subtask that has been answered in this run is not handed over again: its answer
    comes back. One that another agent has is handed over only with a reason.

    Args:
        agent_name: The other agent: the name of its node.
        name: The tool's name; `transfer_to_<agent_name>` by default.
        description: What the model reads of it.
    """
    named = name or f"transfer_to_{'_'.join(agent_name.split()).lower()}"
    said = description or prompts.handoff(agent_name)

    @tool(named, description=said)
    def hand_over(
        task: str,
        done_when: str,
        state: Annotated[Any, InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
        because: str = "",
    ) -> Any:
        messages: list[BaseMessage] = read(state, "messages")
        reply, _ = newest_reply(messages)
        contract = Contract(
            what=task,
            owner=agent_name,
            done_when=done_when,
            by=(reply.name or "") if reply is not None else "",
        )
        found = None if because else settled(contract, contracts(messages))
        if found is not None:
            return _instead(*found, named, tool_call_id)
        told = ToolMessage(
            prompts.handed_over(agent_name, task, done_when),
            name=named,
            tool_call_id=tool_call_id,
            response_metadata={MARK: {"handoff": asdict(contract)}},
        )
        update = {"messages": [*messages, told], "active_agent": agent_name}
        return Command(goto=agent_name, graph=Command.PARENT, update=update)

    hand_over.metadata = {_DESTINATION: agent_name}
    return hand_over


def _instead(
    case: Literal["answered", "owned"], old: Contract, named: str, call_id: str
) -> ToolMessage:
    """What the agent gets in place of handing over."""
    owned = case == "owned"
    text = prompts.owned(old.owner, old.what)
    mark = {"blocked": "owned"} if owned else {"cached": True}
    return ToolMessage(
        text if owned else prompts.answered_before(old.owner, old.answer),
        name=named,
        tool_call_id=call_id,
        status="error" if owned else "success",
        response_metadata={MARK: mark},
    )


def contracts(messages: Sequence[BaseMessage]) -> list[Contract]:
    """What was handed over in the newest run, with the answers that came, in order."""
    found: list[Contract] = []
    answers: dict[str, str] = {}
    for message in reversed(messages):
        if is_word(message):
            break
        if isinstance(message, AIMessage):
            _note(answers, message)
        handed = _handed(message)
        if handed is not None:
            answer = answers.pop(handed["owner"], "")
            found.append(Contract(**{**handed, "answer": answer}))
    return found[::-1]


def _note(answers: dict[str, str], message: AIMessage) -> None:
    """Keep the newest words of an agent until its contract is met."""
    text = message.text.strip()
    if message.name and text and HANDED_BACK not in message.response_metadata:
        answers.setdefault(message.name, text)


def _handed(message: BaseMessage) -> Mapping[str, Any] | None:
    if not isinstance(message, ToolMessage):
        return None
    handed = mark_of(message).get("handoff")
    return handed if isinstance(handed, Mapping) else None
