"""Was a test made weaker: skipped, emptied of what it asserts, deleted, left out?"""

from __future__ import annotations

import re
from typing import Any

from loopguard_lg.commands import Use
from loopguard_lg.steps import Step, clip

_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?"
    r"\.\w+$|_test\.\w+$|(?:^|/)conftest\.py$|Tests?\.(?:java|kt|cs|php|swift|scala)$"
)
_SKIP = re.compile(
    r"@(?:pytest\.mark\.|unittest\.)?(?:skip|xfail|expectedfailure|ignore|disabled)"
    r"|pytest\.(?:skip|xfail)\(|\b(?:it|test|describe)\.(?:skip|todo)\b|\bx(?:it|describe|test)\("
    r"|\bt\.skip(?:now)?\(|#\[ignore\]|\.only\(|return +# *skip|self\.skiptest",
    re.IGNORECASE,
)
_ASSERTS = re.compile(
    r"\bassert\w*|\bexpect\(|\.should\b|\brequire\.|\bt\.(?:error|fatal)|raises\(",
    re.IGNORECASE,
)
_HOLLOW = re.compile(
    r"assert\w*[ (]+(?:true|1|not false)\b|is not none|isnotnone|assertisnotnone"
    r"|or true\b|expect\((?:true|1)\)|tobedefined\(|tobetruthy\(",
    re.IGNORECASE,
)
_DODGES = re.compile(
    r"--deselect|-k ['\"]?not |--ignore[= ]|\|\| *true\b|--passwithnotests|-dskiptests"
    r"|-dmaven\.test\.skip|--no-verify|rm (?:-\w+ )*\S*tests?[/_.]\S*|exit 0\b",
    re.IGNORECASE,
)
OLD = ("old", "old_string", "old_str", "search", "old_text", "find", "oldText")
"""Arguments with the text that an edit takes out."""
NEW = ("new", "new_string", "new_str", "replace", "new_text", "newText", "replacement")
"""Arguments with the text that it puts in."""


def is_test(path: str) -> bool:
    """Does a path look like one of a test?"""
    return _TEST_PATH.search(path) is not None


def weakens(step: Step, use: Use) -> bool:
    """Does this call take teeth out of the tests?"""
    command = step.args.get("command")
    if isinstance(command, str):
        return _command_weakens(command[:2_000], use)
    if use.role != "write" or not is_test(use.path):
        return False
    if step.tool.lower().startswith(("delete", "remove", "rm")):
        return True
    new = argument(step.args, NEW)
    old = argument(step.args, OLD)
    return new is not None and old is not None and _softer(clip(old), clip(new))


def _command_weakens(command: str, use: Use) -> bool:
    """The same for a shell command."""
    if use.role == "check" or "rm " in command:
        return _DODGES.search(command) is not None
    if use.role != "write" or not is_test(use.path):
        return False
    return bool(_SKIP.search(command)) or "s/assert" in command


def _softer(old: str, new: str) -> bool:
    """Is the text after an edit skipped, or does it assert less than before?"""
    if len(_SKIP.findall(new)) > len(_SKIP.findall(old)):
        return True
    before, after = len(_ASSERTS.findall(old)), len(_ASSERTS.findall(new))
    hollow = len(_HOLLOW.findall(new)) > len(_HOLLOW.findall(old))
    return before > 0 and (after < before or hollow)


def argument(args: Any, names: tuple[str, ...]) -> str | None:
    """The first text among arguments of these names."""
    for name in names:
        value = args.get(name)
        if isinstance(value, str):
            return value
    return None


def content_after(step: Step) -> str | None:
    """The text that an edit or a write puts in place, clipped by the caller."""
    return argument(step.args, (*NEW, "content", "contents", "text", "file_text"))
