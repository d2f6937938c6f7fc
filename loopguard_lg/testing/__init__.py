"""For the tests of apps with a guard: doubles, recordings, assertions.

Everything is imported when it is first asked for: the pytest plugin is loaded in every
test run of an environment and must cost nothing there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopguard_lg.testing.asserts import (
        assert_loop_rate,
        assert_no_loop,
        assert_trips,
    )
    from loopguard_lg.testing.cassettes import Recording, recording
    from loopguard_lg.testing.doubles import Request, ScriptedModel, call
    from loopguard_lg.testing.histories import assert_valid_history, validate_history
    from loopguard_lg.testing.hygiene import recording_problems

_HOMES = {
    "Recording": "cassettes",
    "Request": "doubles",
    "ScriptedModel": "doubles",
    "assert_loop_rate": "asserts",
    "assert_no_loop": "asserts",
    "assert_trips": "asserts",
    "assert_valid_history": "histories",
    "call": "doubles",
    "recording": "cassettes",
    "recording_problems": "hygiene",
    "validate_history": "histories",
}

__all__ = [
    "Recording",
    "Request",
    "ScriptedModel",
    "assert_loop_rate",
    "assert_no_loop",
    "assert_trips",
    "assert_valid_history",
    "call",
    "recording",
    "recording_problems",
    "validate_history",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
