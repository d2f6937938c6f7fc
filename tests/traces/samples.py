"""A small recording of each format: a search that is made four times in vain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

TIMES = 4
NOTHING = "no results"
EVIL = "<script>alert('x')</script>\u202e\x1b[31m\x00 \ud83d\ude00 'q' \"q\" </td>"


def lines(*records: Any) -> bytes:
    """Records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def own(text: str = NOTHING) -> bytes:
    """Our own format."""
    calls = [{"tool": "search", "args": {"q": text}, "result": text}]
    steps = [{"agent": "main", "text": text, "calls": calls}] * TIMES
    return lines({"id": "own", "steps": steps})


def step_log(text: str = NOTHING) -> bytes:
    """Our own step log."""
    about = {"loopguard": 1, "thread": "t", "by": "main", "agent": "main"}
    call = {"call": 0, "tool": "search", "more": {"args": {"q": text}, "result": text}}
    return lines(*({**about, "step": i, **call} for i in range(TIMES)))


def _span(n: int, name: str, about: dict[str, Any]) -> dict[str, Any]:
    pairs = [{"key": k, "value": {"stringValue": v}} for k, v in about.items()]
    at = 1_764_000_000 + n
    times = {"startTimeUnixNano": f"{at}000000000", "endTimeUnixNano": f"{at}500000000"}
    ids = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{n:016x}"}
    return {**ids, "name": name, **times, "attributes": pairs}


def _envelope(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def otlp(text: str = NOTHING) -> bytes:
    """OTLP JSON with GenAI attributes, each span in a line of its own."""
    return lines(*(_envelope(span) for n in range(TIMES) for span in _pair(n, text)))


def _pair(n: int, text: str) -> Iterator[dict[str, Any]]:
    part = {"type": "tool_call", "id": f"c{n}", "name": "search"}
    parts = [{"type": "text", "content": text}, part | {"arguments": {"q": text}}]
    said = json.dumps([{"role": "assistant", "parts": parts}])
    asked = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    yield _span(
        2 * n + 1,
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": "m",
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": said,
        },
    )
    yield _span(
        2 * n + 2,
        "execute_tool search",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": f"c{n}",
            "gen_ai.tool.call.result": text,
        },
    )


def openinference(text: str = NOTHING) -> bytes:
    """Spans of OpenInference, in one OTLP document."""
    out = "llm.output_messages.0.message"
    call = f"{out}.tool_calls.0.tool_call"
    spans = []
    for n in range(TIMES):
        asked = {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": text,
            f"{out}.role": "assistant",
            f"{out}.content": text,
            f"{call}.id": f"c{n}",
            f"{call}.function.name": "search",
            f"{call}.function.arguments": json.dumps({"q": text}),
        }
        done = {
            "openinference.span.kind": "TOOL",
            "tool.name": "search",
            "output.value": text,
        }
        spans += [_span(2 * n + 1, "llm", asked), _span(2 * n + 2, "search", done)]
    return json.dumps(_envelope(*spans), indent=1).encode()


def langsmith(text: str = NOTHING) -> bytes:
    """Runs of LangSmith, in one list."""
    root = {"id": "r", "trace_id": "r", "run_type": "chain", "inputs": {}}
    runs: list[dict[str, Any]] = [root]
    for n in range(TIMES):
        call = {"name": "search", "args": {"q": text}, "id": f"c{n}"}
        message = {"type": "ai", "content": text, "tool_calls": [call]}
        word = {"type": "human", "content": text}
        at = f"2026-01-01T00:00:{2 * n + 1:02d}.000000"
        about = {"trace_id": "r", "parent_run_id": "r", "start_time": at}
        said = {"generations": [[{"text": text, "message": message}]]}
        asked = {"messages": [[word]]}
        runs.append(
            {**about, "id": f"l{n}", "run_type": "llm", "name": "model"}
            | {"inputs": asked, "outputs": said}
        )
        at = f"2026-01-01T00:00:{2 * n + 2:02d}.000000"
        result = {"type": "tool", "content": text, "tool_call_id": f"c{n}"}
        runs.append(
            {**about, "id": f"t{n}", "run_type": "tool", "name": "search"}
            | {"start_time": at, "inputs": {"q": text}, "outputs": {"output": result}}
        )
    return json.dumps(runs, indent=1).encode()


def claude_code(text: str = NOTHING) -> bytes:
    """A log of Claude Code: a reply in two records, then its result."""
    about = {"sessionId": "s", "version": "2.0.0"}
    records: list[dict[str, Any]] = [{"type": "summary", "summary": text}]
    asked = {"type": "user", "uuid": "u", "message": {"role": "user", "content": text}}
    records.append(about | asked)
    for n in range(TIMES):
        use = {
            "type": "tool_use",
            "id": f"c{n}",
            "name": "search",
            "input": {"q": text},
        }
        done = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text}
        message = {"id": f"m{n}", "role": "assistant", "model": "m"}
        for part in ({"type": "text", "text": text}, use):
            said = {"type": "assistant", "uuid": f"{n}{part['type']}"}
            records.append(about | said | {"message": message | {"content": [part]}})
        result = {"role": "user", "content": [done]}
        records.append(about | {"type": "user", "uuid": f"r{n}", "message": result})
    return lines(*records)


def swe_agent(text: str = NOTHING) -> bytes:
    """A trajectory of SWE-agent."""
    step = {"action": f"search {text}", "observation": text, "thought": text}
    data = {"trajectory": [step] * TIMES, "history": [], "info": {"exit_status": "x"}}
    return json.dumps(data, indent=2).encode()


def mini_swe_agent(text: str = NOTHING) -> bytes:
    """A trajectory of mini-SWE-agent with commands in fenced blocks."""
    block = f"THOUGHT\n```bash\nsearch {text}\n```"
    came = f"<returncode>0</returncode>\n<output>\n{text}\n</output>"
    messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
    for _ in range(TIMES):
        messages.append({"role": "assistant", "content": block})
        messages.append({"role": "user", "content": came})
    about = {"trajectory_format": "mini-swe-agent-1", "info": {"mini_version": "1"}}
    return json.dumps({**about, "messages": messages}, indent=2).encode()


def openhands(text: str = NOTHING) -> bytes:
    """Events of OpenHands' app, in one list."""
    events: list[dict[str, Any]] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": text}}
    ]
    for n in range(TIMES):
        args = {"command": f"search {text}", "thought": text}
        id_ = 2 * n + 1
        events.append({"id": id_, "source": "agent", "action": "run", "args": args})
        seen = {"observation": "run", "content": text, "cause": id_}
        events.append({"id": id_ + 1, "source": "agent", **seen})
    return json.dumps(events, indent=1).encode()


def openhands_sdk(text: str = NOTHING) -> bytes:
    """Events of OpenHands' agent SDK, one a line."""
    said = {"role": "user", "content": [{"type": "text", "text": text}]}
    events: list[dict[str, Any]] = [
        {"kind": "MessageEvent", "source": "user", "id": "u", "llm_message": said}
    ]
    for n in range(TIMES):
        about = {"tool_name": "search", "tool_call_id": f"c{n}"}
        action = {"kind": "SearchAction", "q": text}
        acted = {"kind": "ActionEvent", "id": f"a{n}", "action": action}
        thought = {"thought": [{"type": "text", "text": text}]}
        seen = {"content": [{"type": "text", "text": text}], "is_error": False}
        done = {"kind": "ObservationEvent", "id": f"o{n}", "observation": seen}
        events += [about | acted | thought, about | done]
    return lines(*events)


def langchain(text: str = NOTHING) -> bytes:
    """Messages of LangChain."""
    messages: list[dict[str, Any]] = [{"type": "human", "content": text}]
    for n in range(TIMES):
        call = {"name": "search", "args": {"q": text}, "id": f"c{n}"}
        messages.append({"type": "ai", "content": text, "tool_calls": [call]})
        messages.append({"type": "tool", "content": text, "tool_call_id": f"c{n}"})
    return lines({"messages": messages})


def openai(text: str = NOTHING) -> bytes:
    """Chat messages of OpenAI."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for n in range(TIMES):
        function = {"name": "search", "arguments": json.dumps({"q": text})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return lines({"messages": messages})


def openai_responses(text: str = NOTHING) -> bytes:
    """Items of OpenAI's Responses API, the newest in the response."""
    items: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for n in range(TIMES):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "search"}
        items.append(call | {"arguments": json.dumps({"q": text})})
        items.append(
            {"type": "function_call_output", "call_id": f"c{n}", "output": text}
        )
    message = {"type": "message", "role": "assistant", "content": text}
    return lines({"request": {"input": items}, "response": {"output": [message]}})


def anthropic(text: str = NOTHING) -> bytes:
    """Messages of Anthropic."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for n in range(TIMES):
        use = {
            "type": "tool_use",
            "id": f"c{n}",
            "name": "search",
            "input": {"q": text},
        }
        blocks = [{"type": "text", "text": text}, use]
        done = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text}
        messages.append({"role": "assistant", "content": blocks})
        messages.append({"role": "user", "content": [done]})
    return lines({"model": "m", "messages": messages})


def chat_lines(text: str = NOTHING) -> bytes:
    """One message a line."""
    return lines(*json.loads(anthropic(text))["messages"])


SAMPLES = {
    make.__name__: make
    for make in (
        own, step_log, otlp, openinference, langsmith, claude_code, swe_agent,
        mini_swe_agent, openhands, openhands_sdk, langchain, openai, openai_responses,
        anthropic, chat_lines,
    )
}  # fmt: skip
"""What makes a recording in each format, with a text of one's choice in every field."""
