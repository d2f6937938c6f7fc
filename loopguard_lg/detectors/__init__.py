"""The detectors: each looks for one kind of repetition without progress."""

from __future__ import annotations

from collections.abc import Sequence

from loopguard_lg.detectors.base import Detector, options
from loopguard_lg.detectors.bloat import Bloat
from loopguard_lg.detectors.churn import Churn
from loopguard_lg.detectors.cycles import Oscillation
from loopguard_lg.detectors.edits import FailingEdits, Tampering
from loopguard_lg.detectors.failures import Invalid, RecurringError
from loopguard_lg.detectors.handoffs import PingPong
from loopguard_lg.detectors.rates import EditRate
from loopguard_lg.detectors.repeats import NearRepeat, Repeat
from loopguard_lg.detectors.talk import Chanting, Planner
from loopguard_lg.findings import Finding
from loopguard_lg.history import History

__all__ = [
    "DEFAULTS",
    "Bloat",
    "Chanting",
    "Churn",
    "Detector",
    "EditRate",
    "FailingEdits",
    "Invalid",
    "NearRepeat",
    "Oscillation",
    "PingPong",
    "Planner",
    "RecurringError",
    "Repeat",
    "Tampering",
    "arbiter",
    "options",
]

DEFAULTS: tuple[Detector, ...] = (
    Tampering(),
    Invalid(),
    FailingEdits(),
    EditRate(),
    Oscillation(),
    Repeat(),
    RecurringError(),
    PingPong(),
    Planner(),
    Chanting(),
    NearRepeat(),
    Churn(),
    Bloat(),
)
"""All detectors with their default settings, the most specific first."""

_RANK = {detector.kind: rank for rank, detector in enumerate(DEFAULTS)}


def arbiter(findings: Sequence[Finding], history: History) -> Finding | None:
    """The one finding that a turn is judged by: the most specific one, and among those
    the one whose loop began first.
    """
    return min(
        findings,
        key=lambda f: (_RANK.get(f.kind, -1), f.onset, -f.count),
        default=None,
    )
