from __future__ import annotations

from typing import Any

import pytest

from loopguard_lg.roles import name_role, read_use
from loopguard_lg.steps import Role, Step

NAMES: dict[Role, str] = {
    "read": "read_file readFile mcp__fs__read_file get_user list_dir searchDocs ls",
    "write": "write_file editFile book_flight click scroll_down mcp__crm__update_deal",
    "check": "run_tests pytest lint_code validate_schema",
    "poll": "get_job_status get_pipeline job_log BashOutput check_ci",
    "wait": "wait sleep wait_seconds browser_wait",
    "plan": "write_todos TodoWrite update_plan think manage_plan",
    "handoff": "transfer_to_billing task delegate handoff_to_coder",
    "exit": "finish final_answer transfer_to_human_agents give_up",
    "other": "frobnicate python execute_thing",
}

COMMANDS: dict[Role, list[str]] = {
    "read": [
        "ls -la",
        "cat a | head -3",
        "git status",
        "git log --oneline",
        "sed -n 3p a",
        "find . -name '*.py'",
        "cd src && grep -rn x .",
        "FOO=1 cat a 2>/dev/null",
    ],
    "write": [
        "sed -i s/a/b/ a.py",
        "echo x > a.txt",
        "rm -rf out",
        "git commit -m x",
        "cat > a.py <<EOF\nprint(1)\nEOF",
        "find . -name x -delete",
        "cat a | tee b",
        "sudo mv a b",
        "curl -X POST http://a",
    ],
    "check": [
        "pytest -q",
        "cd app && npm test",
        "python -m pytest tests",
        "go test ./...",
        "cargo clippy",
        "ruff check .",
        "make",
        "./gradlew test",
        "tox -e py311",
    ],
    "poll": ["sleep 30 && cat log", "kubectl get pods", "gh run view 7", "tail -f log"],
    "wait": ["sleep 60", "sleep 5; sleep 5"],
    "other": ["python main.py", "./run.sh", ""],
}


@pytest.mark.parametrize(
    ("role", "name"),
    [(role, n) for role, names in NAMES.items() for n in names.split()],
)
def test_a_tool_s_name_tells_its_role(role: Role, name: str) -> None:
    """Well-known tools and telling words give the role."""
    assert name_role(name)[0] == role


@pytest.mark.parametrize(
    ("role", "command"), [(role, c) for role, cs in COMMANDS.items() for c in cs]
)
def test_a_command_tells_what_the_shell_is_used_for(role: Role, command: str) -> None:
    """A shell call has the role of what it runs."""
    assert read_use(Step(tool="bash", args={"command": command}), None).role == role


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("read", "SELECT 1"),
        ("read", "show tables"),
        ("write", "insert into t values (1)"),
    ],
)
def test_a_statement_tells_what_a_database_is_used_for(
    role: Role, statement: str
) -> None:
    """An SQL call has the role of its first word."""
    assert read_use(Step(tool="run_sql", args={"sql": statement}), None).role == role


@pytest.mark.parametrize(
    ("role", "command"),
    [("read", "view"), ("write", "str_replace"), ("write", "create")],
)
def test_a_tool_of_several_uses_has_the_role_of_its_mode(
    role: Role, command: str
) -> None:
    """The verb in `command` decides for editors that read and write."""
    args = {"command": command, "path": "a.py"}
    assert read_use(Step(tool="str_replace_editor", args=args), None).role == role


def test_policy_and_metadata_come_first() -> None:
    """The policy's role wins over the metadata's, that over the name's."""
    step = Step(tool="write_file", role="read")

    assert read_use(step, None).role == "read"
    assert read_use(step, "poll").role == "poll"


@pytest.mark.parametrize(
    ("path", "args"),
    [
        ("src/a.py", {"file_path": "./src//a.py"}),
        ("a.py", {"changes": [{"file_name": "a.py"}, {"file_name": "b.py"}]}),
        ("a.py", {"edit": {"target_file": "a.py"}}),
        ("", {"query": "a.py"}),
    ],
)
def test_the_path_of_a_call_is_found(path: str, args: dict[str, Any]) -> None:
    """Also in nested arguments."""
    assert read_use(Step(tool="edit_file", args=args), None).path == path


@pytest.mark.parametrize(
    ("path", "command"),
    [("a.py", "sed -i s/a/b/ ./a.py"), ("out/b", "echo 1 >> out/b"), ("", "rm -rf")],
)
def test_the_file_that_a_command_changes_is_found(path: str, command: str) -> None:
    """The target of a redirection, or the last word if it looks like a file."""
    assert read_use(Step(tool="bash", args={"command": command}), None).path == path


def test_a_check_in_a_pipe_is_marked() -> None:
    """The exit status of a check in a pipe is lost, unless `pipefail` is set."""

    def piped(command: str) -> bool:
        return read_use(Step(tool="bash", args={"command": command}), None).piped

    assert piped("pytest | tail -1")
    assert not piped("set -o pipefail; pytest | tail -1")
    assert not piped("pytest -q && cat log | tail")
