"""The error tree.

```
LoopGuardError
├── NothingGoodError (LookupError)   there is nothing to go back to
├── PolicyError (ValueError)         your configuration is wrong
├── LoopHaltedError (RuntimeError)   a run was stopped that has no other way to end
├── TraceFormatError (ValueError)    a recording can't be read
└── WorkspaceError (RuntimeError)    files can't be saved, put back or locked
```
"""

from __future__ import annotations

from typing import Any


class LoopGuardError(Exception):
    """Root of everything that loopguard raises on purpose."""


class PolicyError(LoopGuardError, ValueError):
    """A setting is wrong: the message names the key, the value and what is right."""


class LoopHaltedError(LoopGuardError, RuntimeError):
    """A run was stopped where nothing but an error can stop it.

    Attributes:
        report: The exit report, as in `response_metadata["loopguard_exit"]`.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return f"stopped by the loop guard: {self.report['detail']}"

    def __repr__(self) -> str:
        # What runs callbacks logs it: a line, not the report.
        return f"{type(self).__name__}({str(self)!r})"


def install_hint(extra: str) -> str:
    """How an extra is installed: from an index, or from a clone."""
    wanted = f"pip install 'loopguard_lg[{extra}]'"
    return f"the extra `{extra}`: {wanted}, from a clone pip install '.[{extra}]'"


class NothingGoodError(LoopGuardError, LookupError):
    """There is no checkpoint that a thread could go back to; says why."""


class TraceFormatError(LoopGuardError, ValueError):
    """A line of a recording can't be read.

    Attributes:
        path: The file, or `-` for standard input.
        line: The line number, from 1.
        problem: What is wrong with it.
    """

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path = path
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


class WorkspaceError(LoopGuardError, RuntimeError):
    """Files can't be saved, put back or locked; the run itself can go on without."""
