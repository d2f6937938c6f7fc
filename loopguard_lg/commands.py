"""What a shell command or an SQL statement really does.

Parsed as far as a loop guard needs it: `pytest -q` is a check, `git status` a read,
`sed -i` a write, a here-document that goes into a file too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from loopguard_lg.digests import tidy_path, words
from loopguard_lg.steps import Role

SHELLS = words(
    "bash shell sh execute run_shell run_command execute_bash execute_command"
    " terminal run_terminal_cmd run_sh cmd local_shell run_bash_command shell_exec"
    " exec"
)
"""Tools that run commands."""


@dataclass(slots=True)
class Use:
    """What a call does.

    Attributes:
        role: What it is for.
        path: The file it is about, tidied; empty if there is none.
        acts: A gesture on a page or screen, whose effect the result need not show.
        piped: A check whose exit status goes into a pipe: neither pass nor fail.
        masked: A check whose exit status is not that of the whole command.
        waits: It lets time pass before it looks.
        silent: Success may well print nothing.
    """

    role: Role
    path: str = ""
    acts: bool = False
    piped: bool = False
    masked: bool = False
    waits: bool = False
    silent: bool = False


_READERS = words(
    "ls cat head tail grep egrep fgrep rg ag find fd wc file which pwd echo stat du"
    " df awk sort uniq diff tree env jq cut tr xargs less more printenv date whoami"
    " id type man strings xxd od hexdump nl realpath dirname basename md5sum"
    " sha256sum printf test sed git curl id uname hostname ps top free history"
    " column comm"
)
_WRITERS = words(
    "mv cp rm mkdir touch tee chmod chown ln truncate dd patch apt apt-get yum brew"
    " kill pkill unzip tar gzip gunzip rmdir install rsync scp useradd systemctl"
    " apply_patch service pip pip3 uv poetry conda"
)
_CHECK = re.compile(
    r"(?:^|[\s/'\"(])(?:py\.?test|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|mypy"
    r"|pyright|ruff(?! format)(?: check)?|eslint|tsc|flake8|pylint|golangci-lint"
    r"|staticcheck|rubocop|shellcheck|unittest|py_compile|compileall|javac|playwright"
    r"|cypress|(?:npm|yarn|pnpm|bun|go|cargo|mix|swift|dotnet|bazel|deno|make|ninja"
    r"|gradlew?|mvnw?|rake|just|sbt|zig|hatch|nx|turbo|stack|cabal|vue-cli-service)"
    r"(?: run| exec| workspace \S+| \+\S+| -\S+(?: [./\w]\S*)?)* (?:\S+:)?(?:t|tests?"
    r"|check|lint|build|verify|clippy|vet|typecheck|type-check|nextest|compile|package)"
    r"(?::\S+)?"
    r"|make|ninja|cmake --build|node --test|black --check|ruff format --check"
    r"|prettier --check|biome check|defects4j (?:test|compile)|manage\.py test"
    r"|runtests\.py)(?=[\s:;'\")]|$)"
)
_NO_RUN = words("echo printf which man type whereis apt apt-get brew git")
"""Programs that name a check and run none."""
_FETCHES = re.compile(r"\s(?:install|add|uninstall|remove|show|search|download|why)\s")
_GIT_WRITES = re.compile(
    r"git (?:-\S+ \S+ )?(?:add|commit|mv|rm|checkout|restore|reset|apply|am|merge"
    r"|rebase|push|pull|stash|cherry-pick|revert|clone|init|switch|clean|tag)\b"
)
_WATCHED = re.compile(
    r"kubectl (?:get|rollout|logs|describe)|docker (?:ps|logs)|gh (?:run|pr checks)"
    r"|squeue|systemctl status|tail -f|terraform show|aws \S+ (?:describe|get|wait)"
)
_SEGMENTS = re.compile(r"&&|\|\||[;\n]")
_REDIRECT = re.compile(r"(?<![0-9&=<-])(?:>>?)\s*([^\s|;&<>()]+)")
_DESTROYS = re.compile(
    r"-delete\b|-exec(?:dir)? (?:rm|mv|cp|touch|chmod|mkdir|sed -i)"
    r"|xargs (?:-\S+ )*(?:rm|mv)\b"
)
_SQL = re.compile(
    r"\s*(?:\(\s*)?(select|show|desc|describe|explain|with|pragma|insert|update|delete"
    r"|create|drop|alter|truncate|replace|merge|grant|use)\b",
    re.IGNORECASE,
)
_SQL_WRITES = Use("write", silent=True)
_SQL_READS = dict.fromkeys(
    ["select", "show", "desc", "describe", "explain", "with", "pragma", "use"],
    Use("read"),
)


_ASIDE = ("sleep ", "cd ", "export ")
"""What a command does beside its work."""


@lru_cache(maxsize=256)
def read_code(tool: str, code: str) -> Use:
    """What a command or statement does."""
    sql = None if tool in SHELLS else _SQL.match(code)
    if sql:
        return _SQL_READS.get(sql.group(1).lower(), _SQL_WRITES)
    parts = [*filter(None, map(str.strip, _SEGMENTS.split(code)))]
    waits = any(part.startswith("sleep ") for part in parts)
    work = [part for part in parts if not part.startswith(_ASIDE)]
    if not work:
        return Use("wait" if waits else "other", silent=True)
    tested = _tested(code, work)
    if tested:
        return _check_use(code, tested)
    if _WATCHED.search(code):
        return Use("poll", waits=waits)
    return _file_use(code, work, waits)


def _tested(code: str, work: list[str]) -> str:
    """The last check in a command, empty if there is none."""
    if not _CHECK.search(code):
        return ""
    return next(filter(_checks, reversed(work)), "")


def _checks(part: str) -> bool:
    """Does a simple command, or a pipe, run a check, rather than name one?"""
    first = part.split("|")[0]
    program = _program(first)
    if program in _NO_RUN or program in _READERS or _FETCHES.search(f"{first} "):
        return False
    return _CHECK.search(first) is not None


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_KEEPS_STATUS = ("pipefail", "PIPESTATUS", "pipestatus")
_MASKS = re.compile(r"\|\| *(?:true|:|exit 0|echo)|; *[^;\s]")


def _check_use(code: str, tested: str) -> Use:
    """A command that tests: does the exit status of its check get lost in a pipe, or
    behind another command?
    """
    nested = _NESTED.search(tested)
    bare = tested if nested else _QUOTED.sub("''", tested)
    kept = any(word in code for word in _KEEPS_STATUS)
    after = code[code.find(tested) + len(tested) :]
    masked = not kept and _MASKS.match(after.strip()) is not None
    return Use("check", piped="|" in bare and not kept, masked=masked)


_NESTED = re.compile(r"\b(?:ba|z)?sh -\w*c\b|\beval\b")


def _file_use(code: str, work: list[str], waits: bool) -> Use:
    """A command that reads or changes files."""
    programs = [_program(piece) for part in work for piece in part.split("|")]
    target = _REDIRECT.search(code)
    if target and not target.group(1).startswith(("/dev/", "&")):
        return Use("write", tidy_path(target.group(1).strip("'\"")), silent=True)
    if _IN_PLACE.search(code) or _changes(code, programs):
        return Use("write", _last_word(code), silent=True)
    if waits:
        return Use("poll", waits=True)
    reads = _READERS.issuperset(filter(None, programs))
    return Use("read") if reads else Use("other", silent=True)


_IN_PLACE = re.compile(r"sed -i|perl -pi")
_SENDS = re.compile(r"-X ?(?:POST|PUT|PATCH|DELETE)")
_CHANGES = {
    "git": _GIT_WRITES,
    "find": _DESTROYS,
    "xargs": _DESTROYS,
    "curl": _SENDS,
}


def _changes(code: str, programs: list[str]) -> bool:
    """Is one of the programs there to change something?"""
    return not _WRITERS.isdisjoint(programs) or any(
        name in programs and pattern.search(code) for name, pattern in _CHANGES.items()
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
