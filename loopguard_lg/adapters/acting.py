"""The acts, on the messages of a host: what helps an agent beside stopping it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from loopguard_lg import hooks
from loopguard_lg.acts import advisors
from loopguard_lg.acts.advisors import Facts
from loopguard_lg.adapters.messages import MARK, own_text, step_of, with_advice
from loopguard_lg.policy import Policy
from loopguard_lg.tools import ToolPolicy

_RESULTS = 40
"""Results in which paths are looked for, the newest."""

_DEFAULT = ToolPolicy()


def advised(
    policy: Policy,
    result: ToolMessage,
    call: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool],
) -> ToolMessage:
    """The result of a call, with advice after it where an advisor has some.

    Args:
        policy: The settings.
        result: The tool's result; another guard may have advised already.
        call: The call.
        messages: The messages of the state.
        tools: The tools by name.
    """
    settings = policy.tools.get(call["name"], _DEFAULT)
    mark = result.response_metadata.get(MARK) or {}
    if not settings.advise or policy.observe_only or "advised" in mark:
        return result
    try:
        step = step_of(call, result, mark, tools.get(call["name"]))
        found = advisors.result_of(step, settings.role)
        heard = advisors.DEFAULTS if policy.advisors is None else policy.advisors
        advice = advisors.advise(heard, step, found, _facts(messages, tools))
    except Exception:  # an advisor that fails has no advice
        hooks.logger.exception("loopguard: an advisor failed and was left out")
        return result
    return with_advice(result, advice) if advice else result


def _facts(messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]) -> Facts:
    def schema(name: str) -> Mapping[str, Any]:
        function = convert_to_openai_tool(tools[name])["function"]
        found: Mapping[str, Any] = function.get("parameters", {})
        return found

    def paths() -> list[str]:
        results = [m for m in reversed(messages) if isinstance(m, ToolMessage)]
        told = (own_text(m) for m in results[:_RESULTS] if m.status != "error")
        return advisors.paths_in(told)

    return Facts(tools=[*tools], schema=schema, paths=paths)
