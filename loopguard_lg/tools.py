"""What the policy says of single tools."""

from __future__ import annotations

from dataclasses import dataclass

from loopguard_lg.steps import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Settings of one tool.

    Attributes:
        role: What its calls are for; found from metadata, name and behaviour if `None`.
        volatile: Argument names that do not tell two calls apart (a free-text
            `description`, a request id).
        off: Kinds of detectors that do not look at this tool.
    """

    role: Role | None = None
    volatile: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
