"""Notices an agent going in circles, tells it so, and gives it another start.

The public names are imported when they are first used: `import loopguard_lg` costs
nothing, and the core never brings in langchain. Errors are in `loopguard_lg.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopguard_lg.adapters.callback import LoopGuardCallback
    from loopguard_lg.adapters.functional import guarded
    from loopguard_lg.adapters.graph import guard_graph
    from loopguard_lg.adapters.middleware import LoopGuardMiddleware
    from loopguard_lg.adapters.restore import fork_from_last_good
    from loopguard_lg.adapters.tool_node import GuardedToolNode
    from loopguard_lg.budgets import Budget, Usage
    from loopguard_lg.detectors import (
        Bloat,
        Chanting,
        Churn,
        EditRate,
        FailingEdits,
        Invalid,
        NearRepeat,
        Oscillation,
        PingPong,
        Planner,
        RecurringError,
        Repeat,
        Tampering,
    )
    from loopguard_lg.engine import Verdict, decide
    from loopguard_lg.errors import LoopGuardError
    from loopguard_lg.findings import Finding
    from loopguard_lg.ladder import (
        AskUser,
        Escalate,
        GiveUp,
        Ladder,
        Reflect,
    )
    from loopguard_lg.policy import Policy
    from loopguard_lg.steps import Human, Step, Turn
    from loopguard_lg.tools import ToolPolicy
    from loopguard_lg.traces.recorder import Recorder

    __version__: str

__all__ = [
    "AskUser",
    "Bloat",
    "Budget",
    "Chanting",
    "Churn",
    "EditRate",
    "Escalate",
    "FailingEdits",
    "Finding",
    "GiveUp",
    "GuardedToolNode",
    "Human",
    "Invalid",
    "Ladder",
    "LoopGuardCallback",
    "LoopGuardError",
    "LoopGuardMiddleware",
    "NearRepeat",
    "Oscillation",
    "PingPong",
    "Planner",
    "Policy",
    "Recorder",
    "RecurringError",
    "Reflect",
    "Repeat",
    "Step",
    "Tampering",
    "ToolPolicy",
    "Turn",
    "Usage",
    "Verdict",
    "__version__",
    "decide",
    "fork_from_last_good",
    "guard_graph",
    "guarded",
]

_HOMES = {
    "adapters.callback": "LoopGuardCallback",
    "adapters.functional": "guarded",
    "adapters.graph": "guard_graph",
    "adapters.middleware": "LoopGuardMiddleware",
    "adapters.restore": "fork_from_last_good",
    "adapters.tool_node": "GuardedToolNode",
    "budgets": "Budget Usage",
    "detectors": (
        "Bloat Chanting Churn EditRate FailingEdits Invalid NearRepeat Oscillation"
        " PingPong Planner RecurringError Repeat Tampering"
    ),
    "engine": "Verdict decide",
    "errors": "LoopGuardError",
    "findings": "Finding",
    "ladder": "AskUser Escalate GiveUp Ladder Reflect",
    "policy": "Policy",
    "steps": "Human Step Turn",
    "tools": "ToolPolicy",
    "traces.recorder": "Recorder",
}
_MODULE_OF = {
    name: f"loopguard_lg.{module}"
    for module, names in _HOMES.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("loopguard_lg")
    elif name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
