"""What the policy says of single tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Settings of one tool.

    Attributes:
        role: What its calls are for; found from metadata, name and behaviour if `None`.
        volatile: Argument names that do not tell two calls apart (a free-text
            `description`, a request id).
        off: Kinds of detectors that do not look at this tool.
        advise: Whether its results may be given a line of advice.
        cache: A call that only reads is answered from its earlier result in this run,
            as long as nothing was written since.
        once: A call that has worked is not made again with the same arguments before a
            person says something new; it gets its receipt.
        idempotency_key: Name of the argument that takes an idempotency key; the guard
            fills it in, the same for every try of a call.
    """

    role: Role | None = None
    volatile: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    advise: bool = True
    cache: bool = False
    once: bool = False
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        roles = get_args(Role)
        if self.role is not None and self.role not in roles:
            raise PolicyError(
                f"ToolPolicy.role={self.role!r}: give one of {', '.join(roles)}"
            )
        for name in ("volatile", "off"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list | set | frozenset):
                raise PolicyError(f"ToolPolicy.{name}={value!r}: give a list of names")
            object.__setattr__(self, name, tuple(value))
        for name in ("advise", "cache", "once"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise PolicyError(f"ToolPolicy.{name}={value!r}: give True or False")
        if self.cache and self.once:
            raise PolicyError("ToolPolicy: cache is for reads, once is for writes")
        if self.idempotency_key and self.idempotency_key not in self.volatile:
            volatile = (*self.volatile, self.idempotency_key)
            object.__setattr__(self, "volatile", volatile)
