"""Write the replies that `loopguard demo` plays: `python -m tests.recording.demo`.

They are the real models' replies of three recordings, nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
REPLIES = ROOT / "loopguard_lg" / "testing" / "demo.json"
RECORDINGS = {
    "without": "test_a_weak_model_goes_in_circles",
    "with": "test_a_guarded_weak_model_is_rerouted_and_the_task_is_solved",
    "exit": "test_a_guarded_weak_model_climbs_the_ladder",
}


def replies(name: str) -> list[dict[str, Any]]:
    """The replies of a recording: `{"model", "text", "calls", "tokens"}` each."""
    path = ROOT / "cassettes" / "test_scenarios" / f"{name}.yaml"
    recorded = yaml.safe_load(path.read_text(encoding="utf-8"))
    bodies = [each["response"]["body"]["json"] for each in recorded["interactions"]]
    return [_reply(body) for body in bodies]


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    message, usage = body["choices"][0]["message"], body["usage"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return {
        "model": body["model"],
        "text": message.get("content") or "",
        "calls": [[call["name"], json.loads(call["arguments"])] for call in calls],
        "tokens": [usage["prompt_tokens"], usage["completion_tokens"]],
    }


def text() -> str:
    """The file's contents."""
    found = {part: replies(name) for part, name in RECORDINGS.items()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    REPLIES.write_text(text(), encoding="utf-8")
