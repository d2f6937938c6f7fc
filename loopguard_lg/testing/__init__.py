"""For the tests of apps with a guard: doubles, recordings, assertions.

Everything is imported when it is first asked for: the pytest plugin is loaded in every
test run of an environment and must cost nothing there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopguard_lg.testing.doubles import Request, ScriptedModel, call
    from loopguard_lg.testing.histories import validate_history

__all__ = ["Request", "ScriptedModel", "call", "validate_history"]

_HOMES = {
    "Request": "doubles",
    "ScriptedModel": "doubles",
    "call": "doubles",
    "validate_history": "histories",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
