"""The error tree.

```
LoopGuardError
├── PolicyError (ValueError)         your configuration is wrong
└── TraceFormatError (ValueError)    a recording can't be read
```
"""

from __future__ import annotations


class LoopGuardError(Exception):
    """Root of everything that loopguard raises on purpose."""


class PolicyError(LoopGuardError, ValueError):
    """A setting is wrong: the message names the key, the value and what is right."""


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
