"""Was a test made weaker: skipped, emptied of what it asserts, deleted, left out?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from loopguard_lg.commands import Use
from loopguard_lg.patches import Part, patch_in
from loopguard_lg.steps import Step, clip
from loopguard_lg.weakening import SKIP, softer

_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?"
    r"\.\w+$|_test\.\w+$|(?:^|/)conftest\.py$|Tests?\.(?:java|kt|cs|php|swift|scala)$"
)
_DODGES = re.compile(
    r"--deselect|-k ['\"]?not |--ignore[= ]|\|\| *true\b|--passwithnotests|-dskiptests"
    r"|-dmaven\.test\.skip|--no-verify|rm (?:-\w+ ){0,9}\S*tests?[/_.]\S*|exit 0\b",
    re.IGNORECASE,
)
OLD = ("old", "old_string", "old_str", "search", "old_text", "find", "oldText")
"""Arguments with the text that an edit takes out."""
NEW = ("new", "new_string", "new_str", "replace", "new_text", "newText", "replacement")
"""Arguments with the text that it puts in."""


_CONFIG = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.cfg|tox\.ini|pytest\.ini|\.coveragerc"
    r"|package\.json|(?:jest|vitest|karma|playwright)\.config\.\w+)$"
)
_LEAST = re.compile(r"(?:fail[_-]under|branches|functions|statements)\D{1,4}(\d+)")

_ASKED = re.compile(
    r"(?:\b(?:write|add|create|extend|improve|update|change|adapt|rewrite|correct|adjust"
    r"|modify|edit|migrate|rename|refactor|delete|remove|convert|port|regenerate)\w*"
    r"(?:[^\w.!?\n]+(?!so\b|until\b|and\b|then\b|to\b|that\b|for\b|with\b|in\b|code\b|make\b"
    r"|failing\b)\w+){0,4}?[^\w.!?\n]+"
    r"(?:tests?|specs?|assertions?|expectations?|snapshots?|test_\w+)\b"
    r"|\btests? (?:is|are|seems?|looks?) (?:wrong|outdated|stale|flaky|out of date))",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\bnot|n't|\bnever|\bwithout|\bavoid)\W+(?:\w+\W+){0,2}$", re.IGNORECASE
)


def is_test(path: str, more: Sequence[str] = ()) -> bool:
    """Does a path look like one of a test, by convention or by one of `more` globs?"""
    named = "est" in path or "spec" in path  # most paths are none, which shows at once
    if named and _TEST_PATH.search(path):
        return True
    return any(fnmatchcase(path, glob) for glob in more)


def asks_for_tests(text: str) -> bool:
    """Did a person ask for the tests themselves to be written or changed?"""
    return any(
        not _DENIED.search(text[max(0, found.start() - 30) : found.start()])
        for found in _ASKED.finditer(clip(text))
    )


def weakens(step: Step, use: Use, more: Sequence[str] = ()) -> bool:
    """Does this call take teeth out of the tests?

    Args:
        step: The call.
        use: What it is for.
        more: Globs of files that hold tests, beside those known by convention.
    """
    patch = patch_in(step.args) if use.role == "write" else ()
    if patch:
        return _patch_weakens(patch, more)
    test = is_test(use.path, more)
    command = step.args.get("command")
    if isinstance(command, str):
        return _command_weakens(command[:2_000], use, test=test)
    if use.role != "write" or not (test or _CONFIG.search(use.path)):
        return False
    if step.tool.lower().startswith(("delete", "remove", "rm")):
        return True
    new = argument(step.args, NEW)
    old = argument(step.args, OLD)
    if new is None or old is None:
        return False
    return _edit_weakens(use.path, old, new, test=test)


def _edit_weakens(path: str, old: str, new: str, *, test: bool) -> bool:
    """Does an edit of a test, or of the configuration of a runner?"""
    old, new = clip(old), clip(new)
    if not test:
        return _laxer(old, new)
    return softer(old, new, python=path.endswith(".py"))


def _patch_weakens(patch: Sequence[Part], more: Sequence[str]) -> bool:
    """The same for a patch; tests that move from one file to another are none less."""
    tests = [part for part in patch if is_test(part.path, more)]
    if any(part.deletes for part in tests) and not any(map(_makes, tests)):
        return True
    edits = [part for part in patch if part not in tests and _CONFIG.search(part.path)]
    if any(_laxer(clip(part.old), clip(part.new)) for part in edits):
        return True
    if not tests:
        return False
    old, new = map("\n".join, zip(*map(_texts, tests), strict=True))
    return _edit_weakens(tests[0].path, old, new, test=True)


def _makes(part: Part) -> bool:
    """Does a part of a patch make a new file?"""
    return not part.old and bool(part.new)


def _texts(part: Part) -> tuple[str, str]:
    return part.old, part.new


def of_tests(step: Step, use: Use, more: Sequence[str] = ()) -> bool:
    """Is a call about tests alone? All files of a patch have to be tests."""
    paths = [part.path for part in patch_in(step.args)] if use.role == "write" else []
    return all(is_test(path, more) for path in paths or [use.path])


def _laxer(old: str, new: str) -> bool:
    """Does the configuration of a runner leave tests out, or ask for less coverage?"""
    least = [min(map(int, _LEAST.findall(text)), default=0) for text in (old, new)]
    return least[1] < least[0] or len(_DODGES.findall(new)) > len(_DODGES.findall(old))


def _command_weakens(command: str, use: Use, *, test: bool) -> bool:
    """The same for a shell command."""
    if use.role == "check" or "rm " in command:
        return _DODGES.search(command) is not None
    if use.role != "write" or not test:
        return False
    return bool(SKIP.search(command)) or "s/assert" in command


def argument(args: Any, names: tuple[str, ...]) -> str | None:
    """The first text among arguments of these names."""
    for name in names:
        value = args.get(name)
        if isinstance(value, str):
            return value
    return None


def content_after(step: Step) -> str | None:
    """The text that an edit or a write puts in place, clipped by the caller."""
    names = (*NEW, "content", "contents", "text", "file_text")
    patched = "\n".join(part.new for part in patch_in(step.args))
    return patched or argument(step.args, names)
