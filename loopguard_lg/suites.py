"""What tests hold: cases and assertions of a file, how many tests a check ran.

So that a test file that is written anew, and a check that passes with fewer tests than
when it failed, can be told from honest ones. Kept in `Known` as two short lists of
numbers; texts are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopguard_lg.commands import Use
from loopguard_lg.progress import Outcome
from loopguard_lg.steps import TEXT_LIMIT, Step
from loopguard_lg.testfiles import argument, is_test
from loopguard_lg.weakening import Held, held
from loopguard_lg.window import key_of

_FILES = 6
"""Test files whose holdings are remembered."""
_CHECKS = 4
"""Checks whose number of tests is remembered."""
_WIDTH = 1 + len(Held._fields)

_WHOLE = ("content", "contents", "file_text")
_ADDS = re.compile(r"append|insert")
_TYPED = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\1\b", re.DOTALL)
_NUMBERED = re.compile(r"^ *\d+[\t:|→] ?", re.MULTILINE)

_COUNTED = re.compile(
    r"(?<!\d)(\d{1,6}) (?:tests? )?(?:passed|passing|fail\w+|errors?)\b"
)
_TOTALS = re.compile(r"\bran (\d{1,6}) tests?\b|\btests run: (\d{1,6})")
_NAMED = re.compile(r"^ *--- (?:pass|fail): ", re.MULTILINE)
_NO_TESTS = ("test suites", "test files", "snapshots", "suites")
"""How lines begin that count other things than tests."""


class Suites:
    """The tests of a run, as far as they were seen.

    Attributes:
        files: For each test file its digest and what it holds (`Held`), flat.
        ran: For each check that failed its digest and how many tests it ran, flat.
    """

    def __init__(self, files: list[int], ran: list[int]) -> None:
        self.files = files
        self.ran = ran

    def weaker(
        self, step: Step, use: Use, outcome: Outcome, key: int, tests: Sequence[str]
    ) -> bool:
        """Does a call leave fewer tests than there were? It is noted as well.

        Args:
            step: The call.
            use: What it is for.
            outcome: How it ended.
            key: What the call is told apart by.
            tests: Globs of files that hold tests, beside those known by convention.
        """
        if outcome.ok is not None and use.role == "check":
            return self._checked(step, outcome, key)
        if outcome.failed or not use.path or use.role not in ("read", "write"):
            return False
        return is_test(use.path, tests) and self._file(step, use)

    def _checked(self, step: Step, outcome: Outcome, key: int) -> bool:
        """Did a check pass with fewer tests than when it failed?"""
        key &= 0xFFFFFFFF
        before, others = _taken(self.ran, key, 2)
        now = tests_run(step.result)
        if not outcome.ok:
            self.ran = [*others, key, max(now, *before, 0)][-2 * _CHECKS :]
            return False
        self.ran = others
        # Of a long result the middle may be missing: then nobody can tell.
        told = now > 0 and len(step.result) < TEXT_LIMIT
        return told and bool(before) and now < before[0]

    def _file(self, step: Step, use: Use) -> bool:
        """Is a test file written anew with less in it than it had?"""
        key = key_of(use.path)
        text = _text_of(step, use)
        before, self.files = _taken(self.files, key, _WIDTH)
        if text is None or len(text) >= TEXT_LIMIT:
            return False
        found = held(text, python=use.path.endswith(".py"))
        if found is None:
            return False
        old = Held(*before) if before else found
        if use.role == "read":  # maybe of a part
            found = Held(*map(max, old, found))
        self.files = [*self.files, key, *found][-_WIDTH * _FILES :]
        return found.less_than(old)


def _taken(flat: list[int], key: int, width: int) -> tuple[list[int], list[int]]:
    """What is noted under a key in a flat list, empty if nothing is, and the rest."""
    for at in range(0, len(flat), width):
        if flat[at] == key:
            return flat[at + 1 : at + width], flat[:at] + flat[at + width :]
    return [], flat


def _text_of(step: Step, use: Use) -> str | None:
    """The whole text of a file that is read or written, as far as a call shows it."""
    if use.role == "read":
        return _NUMBERED.sub("", step.result)
    command = step.args.get("command")
    if isinstance(command, str):
        typed = _TYPED.search(command) if ">>" not in command else None
        return typed.group(2) if typed else None
    return None if _ADDS.search(step.tool.lower()) else argument(step.args, _WHOLE)


def tests_run(result: str) -> int:
    """How many tests a runner says that it ran, without those skipped; -1 if it does
    not say.
    """
    low = result.lower()
    counts = [
        int(number)
        for line in low.splitlines()
        if not line.lstrip().startswith(_NO_TESTS)
        for number in _COUNTED.findall(line)
    ]
    if counts:
        return sum(counts)
    totals = [int(a or b) for a, b in _TOTALS.findall(low)]
    return max(totals, default=len(_NAMED.findall(low)) or -1)
