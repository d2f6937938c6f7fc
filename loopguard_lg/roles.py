"""What a call is for: its role, its path, and what a shell command really does.

The role comes from the policy, else from the tool's metadata (`Step.role`), else from
a table of well-known tools, else from the words of the tool's name. A shell or SQL call
is read more closely: `pytest -q` is a check, `git status` a read, `sed -i` a write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from loopguard_lg.commands import SHELLS, Use, read_code
from loopguard_lg.digests import tidy_path, words
from loopguard_lg.patches import patch_in
from loopguard_lg.steps import Role, Step


def _table(**roles: str) -> dict[str, Role]:
    """One entry per word from one string per role."""
    return {word: role for role, words in roles.items() for word in words.split()}  # type: ignore[misc]


_TOOLS = _table(
    plan="write_todos todowrite todo_write update_plan create_plan set_plan think"
    " update_todos todolist manage_todo_list sequentialthinking sequential_thinking",
    handoff="task delegate handoff hand_off agent subagent dispatch_agent spawn_agent"
    " assign_task send_to_agent ask_agent call_agent",
    exit="finish final_answer final_result give_up ask_user exit done complete_task"
    " attempt_completion task_complete ask_human ask_followup_question terminate"
    " transfer_to_human transfer_to_human_agent transfer_to_human_agents",
    wait="wait sleep wait_for browser_wait pause delay idle wait_seconds",
    poll="bashoutput bash_output check_status get_status get_job wait_for_job"
    " get_task_status check_async_task job_log",
    read="ls cat grep glob rg head tail wc pwd read_file view_file list_dir tree stat"
    " browser_snapshot browser_take_screenshot screenshot get_page_text web_search"
    " lookup calculate calculator retrieve sql_db_schema sql_db_list_tables",
    write="write_file edit_file create_file str_replace replace_in_file apply_patch"
    " apply_diff multi_edit multiedit notebookedit insert_line delete_file rm mv cp"
    " mkdir touch tee chmod ln git_commit git_push submit",
    check="run_tests test tests pytest run_test lint typecheck type_check build compile"
    " verify mypy ruff eslint tsc make",
)

_VERBS = _table(
    handoff="transfer handoff delegate route handover",
    wait="wait sleep",
    poll="poll",
    read="get read list search find fetch lookup view show describe query inspect scan"
    " browse retrieve open cat load extract count grep explore info select check lookup"
    " recall review goto navigate download crawl scrape summarize analyze",
    write="write edit update create delete remove insert replace apply patch add set"
    " put post send book cancel save upload move rename commit push pay purchase buy"
    " modify exchange return append undo submit publish merge assign close register"
    " schedule approve refund charge order place deploy restart install start"
    " stop kill drop",
    check="test lint verify validate compile build typecheck assert",
)
_POLLED = words(
    "status progress job jobs pipeline queue run runs deployment build health logs"
    " state ci workflow rollout"
)
_GESTURES = words(
    "click press scroll type tap swipe key keyboard hover fill drag mouse hotkey"
    " zoom back forward next previous select"
)
_CODE_KEYS = ("command", "cmd", "script", "query", "sql", "code")
_STATEMENTS = ("command", "cmd", "sql", "query", "statement")
_PATH_KEYS = (
    *("path", "file_path", "filepath", "filename", "file", "target_file"),
    *("file_name", "notebook_path", "relative_path", "absolute_path"),
)
_MODE_KEYS = ("command", "action", "operation", "mode")

# Sets beside the lists: most calls have none of these, which shows at once.
_CODE = frozenset(_CODE_KEYS + _STATEMENTS)
_PATHS = frozenset(_PATH_KEYS)
_MODES = frozenset(_MODE_KEYS)

_SPLIT = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=1024)
def name_role(tool: str) -> tuple[Role, bool]:
    """The role that the name of a tool suggests, and whether it is a gesture."""
    low = tool.lower()
    if low in _TOOLS:
        return _TOOLS[low], False
    parts = [word.lower() for word in _SPLIT.findall(tool)]
    bare = "_".join(parts[-2:])
    if bare in _TOOLS and "__" in tool:
        return _TOOLS[bare], False
    return _verb_role(parts), not _GESTURES.isdisjoint(parts[:3])


_DOUBTFUL = words(
    "open select load extract download check or store sync refresh pop take consume"
    " mark archive reset clear import flush enqueue dequeue ack"
)


def may_write(tool: str) -> bool:
    """Whether a name leaves room for a change, though it may begin with reading:
    `find_and_replace`, `get_or_create`, `open_ticket`.
    """
    named = [word.lower() for word in _SPLIT.findall(tool)]
    return not _DOUBTFUL.isdisjoint(named) or any(
        _VERBS.get(word) == "write" for word in named
    )


def _verb_role(parts: list[str]) -> Role:
    """The role of the first telling word; `get_pipeline` and `job_status` are polls."""
    for position, word in enumerate(parts):
        role = _VERBS.get(word)
        if role is None and word in ("todo", "todos", "plan"):
            return "plan"
        if role == "read" and not _POLLED.isdisjoint(parts[position + 1 :]):
            return "poll"
        if role is not None:
            return role
    if _GESTURES.intersection(parts):
        return "write"
    return "poll" if parts and parts[-1] in ("status", "progress", "log") else "other"


def thinks(step: Step) -> bool:
    """Is this tool for thinking aloud rather than for keeping a plan?"""
    return "think" in step.tool.lower()


def read_use(step: Step, role: Role | None) -> Use:
    """What a call does; `role`: what the policy says, if anything."""
    use = _use(step, role)
    if use.path or use.role != "write":
        return use
    patch = patch_in(step.args)
    return replace(use, path=patch[0].path) if patch else use


def _use(step: Step, role: Role | None) -> Use:
    named, acts = name_role(step.tool)
    given = role or step.role
    code = _code(step, named)
    if code:
        use = read_code(step.tool.lower(), _without_body(code))
        return replace(use, role=given) if given else use
    return Use(given or _mode_role(step, named), find_path(step.args), acts)


def _code(step: Step, named: Role) -> str:
    """The shell command or statement of a call, if it holds one: any argument of a
    shell, a telling one of a tool whose name says nothing.
    """
    args = step.args
    if _CODE.isdisjoint(args):
        return ""
    shell = step.tool.lower() in SHELLS
    if not shell and named != "other" and "sql" not in step.tool.lower():
        return ""
    for key in _CODE_KEYS if shell else _STATEMENTS:
        value = args.get(key)
        if isinstance(value, str) and (shell or " " in value):
            return value
    return ""


def _without_body(code: str) -> str:
    """The start of a command, a here-document left out."""
    at = code.find("<<")
    if at >= 0:
        end = code.find("\n", at)
        code = code[: end if end >= 0 else None]
    return code[:600]


def _mode_role(step: Step, named: Role) -> Role:
    """The role of tools that do several things: the verb in `command` or `action`."""
    if _MODES.isdisjoint(step.args):
        return named
    for key in _MODE_KEYS:
        value = step.args.get(key)
        if isinstance(value, str) and value.replace("_", "").isalpha():
            said = name_role(value)[0]
            return said if said != "other" else named
    return named


def find_path(args: Mapping[str, Any], depth: int = 3) -> str:
    """The file that arguments are about, looked for in nested ones as well."""
    if not _PATHS.isdisjoint(args):
        for key in _PATH_KEYS:
            value = args.get(key)
            if isinstance(value, str) and value:
                return tidy_path(value[:400].strip())
    return _nested_path(args, depth) if depth else ""


def _nested_path(args: Mapping[str, Any], depth: int) -> str:
    """The first path in mappings and lists within `args`."""
    for value in args.values():
        if isinstance(value, str):
            continue
        inner = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(inner, Mapping):
            found = find_path(inner, depth - 1)
            if found:
                return found
    return ""
