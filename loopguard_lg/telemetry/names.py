"""Every name that telemetry uses, in one place: attributes, spans, events, metrics.

Those that begin with `gen_ai` are the semantic conventions of OpenTelemetry for
generative AI, which are still marked "development": when they move, they move here.
Attributes are no part of the compatibility promise; `docs/telemetry.md` lists them.
"""

from __future__ import annotations

from typing import get_args

from loopguard_lg import hooks

OPERATION = "gen_ai.operation.name"
CHAT, EXECUTE_TOOL = "chat", "execute_tool"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
REQUEST_MODEL = "gen_ai.request.model"
MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # tokens of a model
ERROR_TYPE = "error.type"

PREFIX = "loopguard."
STEP = "loopguard.step"
RUN = "loopguard.run"
ROW = "loopguard.row"
ARGS_HASH = "loopguard.args_hash"
RESULT_HASH = "loopguard.result_hash"
STATE = "loopguard.state_digest"
COST = "loopguard.cost_usd"
KIND = "loopguard.kind"
COUNT = "loopguard.count"
RUNG = "loopguard.rung"
ACTION = "loopguard.action"
REASON = "loopguard.reason"
DETAIL = "loopguard.detail"
VERSION = "loopguard.version"

EVENTS = tuple(f"{PREFIX}{name}" for name in get_args(hooks.Name))
"""The closed list of events, one for each name of `hooks.Name`."""

TASKS = "loopguard.tasks"
TRIPPED = "loopguard.tasks.tripped"
CAPPED = "loopguard.tasks.capped"
STEPS = "loopguard.steps"
ACTS = "loopguard.acts"
SPENT = "loopguard.cost"
TOKENS = "gen_ai.client.token.usage"
LATENCY = "gen_ai.client.operation.duration"
OTHER = "other"
"""The label that stands for all names beyond the first ones of a process."""
