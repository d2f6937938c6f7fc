"""What a call is for: its role, its path, and what a shell command really does.

The role comes from the policy, else from the tool's metadata (`Step.role`), else from
a table of well-known tools, else from the words of the tool's name. A shell or SQL call
is read more closely: `pytest -q` is a check, `git status` a read, `sed -i` a write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from loopguard_lg.digests import tidy_path
from loopguard_lg.steps import Role, Step


class Use(NamedTuple):
    """What a call does.

    Attributes:
        role: What it is for.
        path: The file it is about, tidied; empty if there is none.
        piped: A check whose exit status goes into a pipe: neither pass nor fail.
        waits: It lets time pass before it looks.
        silent: Success may well print nothing.
        acts: A gesture on a page or screen, whose effect the result need not show.
    """

    role: Role
    path: str = ""
    piped: bool = False
    waits: bool = False
    silent: bool = False
    acts: bool = False


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
    write="write edit update create delete remove insert replace apply patch add set put"
    " post send book cancel save upload move rename commit push pay purchase buy modify"
    " exchange return append undo submit publish merge assign close register schedule"
    " approve refund charge order place deploy restart install start stop kill drop",
    check="test lint verify validate compile build typecheck assert",
)
_POLLED = frozenset(
    [
        "status",
        "progress",
        "job",
        "jobs",
        "pipeline",
        "queue",
        "run",
        "runs",
        "deployment",
        "build",
        "health",
        "logs",
        "state",
        "ci",
        "workflow",
        "rollout",
    ]
)
_GESTURES = frozenset(
    [
        "click",
        "press",
        "scroll",
        "type",
        "tap",
        "swipe",
        "key",
        "keyboard",
        "hover",
        "fill",
        "drag",
        "mouse",
        "hotkey",
        "zoom",
        "back",
        "forward",
        "next",
        "previous",
        "select",
    ]
)
_SHELLS = frozenset(
    [
        "bash",
        "shell",
        "sh",
        "execute",
        "run_shell",
        "run_command",
        "execute_bash",
        "execute_command",
        "terminal",
        "run_terminal_cmd",
        "run_sh",
        "cmd",
        "local_shell",
        "run_bash_command",
        "shell_exec",
        "exec",
    ]
)
_CODE_KEYS = ("command", "cmd", "script", "query", "sql", "code")
_STATEMENTS = ("command", "cmd", "sql", "query", "statement")
_PATH_KEYS = [
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "target_file",
    "file_name",
    "notebook_path",
    "relative_path",
    "absolute_path",
]
_SPLIT = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=1024)
def name_role(tool: str) -> tuple[Role, bool]:
    """The role that the name of a tool suggests, and whether it is a gesture."""
    low = tool.lower()
    if low in _TOOLS:
        return _TOOLS[low], False
    words = [word.lower() for word in _SPLIT.findall(tool)]
    bare = "_".join(words[-2:])
    if words[:2] == ["mcp", "mcp"] or bare in _TOOLS and "__" in tool:
        return _TOOLS.get(bare, "other"), False
    gesture = not _GESTURES.isdisjoint(words[:3])
    return _verb_role(words), gesture


def _verb_role(words: list[str]) -> Role:
    """The role of the first telling word; `get_pipeline` and `job_status` are polls."""
    for position, word in enumerate(words):
        role = _VERBS.get(word)
        if role is None and word in ("todo", "todos", "plan"):
            return "plan"
        if role == "read" and not _POLLED.isdisjoint(words[position + 1 :]):
            return "poll"
        if role is not None:
            return role
    if _GESTURES.intersection(words):
        return "write"
    return "poll" if words and words[-1] in ("status", "progress", "log") else "other"


def read_use(step: Step, role: Role | None) -> Use:
    """What a call does; `role`: what the policy says, if anything."""
    named, acts = name_role(step.tool)
    given = role or step.role
    code = _code(step, named)
    if code:
        use = read_code(step.tool.lower(), _without_body(code))
        return use._replace(role=given) if given else use
    return Use(given or _mode_role(step, named), find_path(step.args), acts=acts)


def _code(step: Step, named: Role) -> str:
    """The shell command or statement of a call, if it holds one: any argument of a
    shell, a telling one of a tool whose name says nothing.
    """
    shell = step.tool.lower() in _SHELLS
    if not shell and named != "other" and "sql" not in step.tool.lower():
        return ""
    for key in _CODE_KEYS if shell else _STATEMENTS:
        value = step.args.get(key)
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
    for key in ("command", "action", "operation", "mode"):
        value = step.args.get(key)
        if isinstance(value, str) and value.replace("_", "").isalpha():
            said = name_role(value)[0]
            return said if said != "other" else named
    return named


def find_path(args: Mapping[str, Any], depth: int = 3) -> str:
    """The file that arguments are about, looked for in nested ones as well."""
    for key in _PATH_KEYS:
        value = args.get(key)
        if isinstance(value, str) and value:
            return tidy_path(value[:400].strip())
    return _nested_path(args, depth) if depth else ""


def _nested_path(args: Mapping[str, Any], depth: int) -> str:
    """The first path in mappings and lists within `args`."""
    for value in args.values():
        inner = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(inner, Mapping):
            found = find_path(inner, depth - 1)
            if found:
                return found
    return ""


_READERS = frozenset(
    [
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "find",
        "fd",
        "wc",
        "file",
        "which",
        "pwd",
        "echo",
        "stat",
        "du",
        "df",
        "awk",
        "sort",
        "uniq",
        "diff",
        "tree",
        "env",
        "jq",
        "cut",
        "tr",
        "xargs",
        "less",
        "more",
        "printenv",
        "date",
        "whoami",
        "id",
        "type",
        "man",
        "strings",
        "xxd",
        "od",
        "hexdump",
        "nl",
        "realpath",
        "dirname",
        "basename",
        "md5sum",
        "sha256sum",
        "printf",
        "test",
        "sed",
        "git",
        "curl",
        "id",
        "uname",
        "hostname",
        "ps",
        "top",
        "free",
        "history",
        "column",
        "comm",
    ]
)
_WRITERS = frozenset(
    [
        "mv",
        "cp",
        "rm",
        "mkdir",
        "touch",
        "tee",
        "chmod",
        "chown",
        "ln",
        "truncate",
        "dd",
        "patch",
        "apt",
        "apt-get",
        "yum",
        "brew",
        "kill",
        "pkill",
        "unzip",
        "tar",
        "gzip",
        "gunzip",
        "rmdir",
        "install",
        "rsync",
        "scp",
        "useradd",
        "systemctl",
        "service",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "conda",
    ]
)
_CHECK = re.compile(
    r"(?:^|\s|/)(?:pytest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|mypy|pyright"
    r"|ruff(?: check)?|eslint|tsc|flake8|pylint|golangci-lint|unittest|(?:npm|yarn|pnpm"
    r"|bun|go|cargo|mix|swift|dotnet|bazel|deno|make|gradle|gradlew|mvn|rake|just|sbt)"
    r"(?: run)?(?: -\S+)* (?:test|tests|check|lint|build|verify|clippy|vet|typecheck)"
    r"|make|defects4j (?:test|compile)|manage\.py test|runtests\.py)(?=\s|$|:)"
)
_GIT_WRITES = re.compile(
    r"git (?:-\S+ \S+ )?(?:add|commit|mv|rm|checkout|restore|reset|apply|am|merge|rebase"
    r"|push|pull|stash|cherry-pick|revert|clone|init|switch|clean|tag)\b"
)
_WATCHED = re.compile(
    r"kubectl (?:get|rollout|logs|describe)|docker (?:ps|logs)|gh (?:run|pr checks)"
    r"|squeue|systemctl status|tail -f|terraform show|aws \S+ (?:describe|get|wait)"
)
_SEGMENTS = re.compile(r"&&|\|\||[;\n]")
_REDIRECT = re.compile(r"(?<![0-9&=<-])(?:>>?)\s*([^\s|;&<>()]+)")
_DESTROYS = re.compile(
    r"-delete\b|-exec(?:dir)? (?:rm|mv|cp|touch|chmod|mkdir|sed -i)|xargs (?:-\S+ )*(?:rm|mv)"
)
_SQL = re.compile(
    r"\s*(?:\(\s*)?(select|show|desc|describe|explain|with|pragma|insert|update|delete"
    r"|create|drop|alter|truncate|replace|merge|grant|use)\b",
    re.IGNORECASE,
)
_SQL_READS = frozenset(
    ["select", "show", "desc", "describe", "explain", "with", "pragma", "use"]
)


@lru_cache(maxsize=256)
def read_code(tool: str, code: str) -> Use:
    """What a command or statement does."""
    sql = _SQL.match(code)
    if sql and tool not in _SHELLS:
        verb = sql.group(1).lower()
        return Use(
            "read" if verb in _SQL_READS else "write", silent=verb not in _SQL_READS
        )
    parts = [part.strip() for part in _SEGMENTS.split(code) if part.strip()]
    waits = any(part.startswith("sleep ") for part in parts)
    work = [part for part in parts if not part.startswith(("sleep ", "cd ", "export "))]
    if not work:
        return Use("wait" if waits else "other", silent=True)
    if _CHECK.search(code):
        return _check_use(code, work)
    if _WATCHED.search(code):
        return Use("poll", waits=waits)
    return _file_use(code, work, waits)


def _check_use(code: str, work: list[str]) -> Use:
    """A command that tests: does the exit status of its check get lost in a pipe?"""
    tested = next((part for part in work if _CHECK.search(part)), "")
    piped = "|" in tested and "pipefail" not in code
    return Use("check", piped=piped)


def _file_use(code: str, work: list[str], waits: bool) -> Use:
    """A command that reads or changes files."""
    programs = [_program(piece) for part in work for piece in part.split("|")]
    target = _REDIRECT.search(code)
    if target and not target.group(1).startswith(("/dev/", "&")):
        return Use("write", tidy_path(target.group(1).strip("'\"")), silent=True)
    if "sed -i" in code or "perl -pi" in code:
        return Use("write", _last_word(code), silent=True)
    if _changes(code, programs):
        return Use("write", _last_word(code), silent=True)
    if waits:
        return Use("poll", waits=True)
    if all(program in _READERS for program in programs if program):
        return Use("read", silent=False)
    return Use("other", silent=True)


def _changes(code: str, programs: list[str]) -> bool:
    """Is one of the programs there to change something?"""
    return bool(
        not _WRITERS.isdisjoint(programs)
        or ("git" in programs and _GIT_WRITES.search(code))
        or ("find" in programs or "xargs" in programs)
        and _DESTROYS.search(code)
        or "curl" in programs
        and re.search(r"-X ?(?:POST|PUT|PATCH|DELETE)", code)
    )


def _program(piece: str) -> str:
    """The name of the program that a simple command starts."""
    for word in piece.split():
        if word in ("sudo", "time", "env", "nohup", "(", "command", "then", "do", "!"):
            continue
        if "=" in word and not word.startswith(("-", "/")):
            continue
        return word.rsplit("/", 1)[-1].strip("\"'()`$")
    return ""


def _last_word(code: str) -> str:
    """The last argument of a command, if it looks like the file that it changes."""
    word = code.split()[-1].strip("'\"")
    plain = word[:1] != "-" and ("/" in word or "." in word) and word.isprintable()
    return tidy_path(word) if plain and "|" not in code else ""
