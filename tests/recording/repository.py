"""A small repository, the tools to look around in it, and the agent that does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from loopguard_lg.testing.sample import FILES, list_dir, read_file, search_docs

PROMPT = "You answer questions about a repository. Use the tools. Answer in one line."

WITH_FILES = "\n".join([PROMPT, "The repository has these files:", *FILES])


class FirstReplyCalls(AgentMiddleware):
    """The first reply to a person has to be a tool call; the others are free.

    Small models otherwise answer at once, from nothing. With `notes` the same holds
    for what the guard says.
    """

    def __init__(self, *, notes: bool = False) -> None:
        super().__init__()
        self.notes = notes

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Force a call where a person spoke last."""
        return handler(self._forced(request))

    async def awrap_model_call(
        self,
        request: ModelRequest,
        handler: Callable[[ModelRequest], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Force a call where a person spoke last."""
        return await handler(self._forced(request))

    def _forced(self, request: ModelRequest) -> ModelRequest:
        last = request.messages[-1]
        if isinstance(last, HumanMessage) and (self.notes or last.name is None):
            return request.override(tool_choice="required")
        return request


def agent(
    model: BaseChatModel,
    *middleware: AgentMiddleware,
    prompt: str = PROMPT,
    notes: bool = False,
    **settings: Any,
) -> Any:
    """An agent over the repository; `notes`: it has to act on the guard's notes."""
    return create_agent(
        model,
        [search_docs, read_file, list_dir],
        system_prompt=prompt,
        middleware=[*middleware, FirstReplyCalls(notes=notes)],
        **settings,
    )


def ask(text: str) -> dict[str, Any]:
    """An agent's input with one question."""
    return {"messages": [HumanMessage(text)]}
