"""A calibration as a policy file: settings in TOML, their evidence in comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from loopguard_lg.analysis.calibrate import Calibration, Cap
from loopguard_lg.analysis.thresholds import Choice
from loopguard_lg.quoting import printable


def policy_file(
    found: Calibration, chosen: Sequence[Choice] = (), date: str = ""
) -> str:
    """The file, for `Policy.load`.

    Args:
        found: The budgets.
        chosen: The thresholds.
        date: When it was made.
    """
    return "\n".join(_lines(found, chosen, date)) + "\n"


def _lines(found: Calibration, chosen: Sequence[Choice], date: str) -> Iterator[str]:
    of = f"{found.runs} successful runs (of {found.of})"
    made = f", {_said(date)}" if date else ""
    yield f"# Calibrated from {of} of {_said(found.model or 'several models')}{made}."
    yield from _guarantee(found)
    for warning in found.warnings:
        yield f"# WARNING: {_said(warning)}."
    yield "# With another model, or another prompt, calibrate anew."
    if found.model:
        yield f"calibrated_for = {_quoted(found.model)}"
    if found.caps:
        yield ""
        yield "[budget]"
        for cap in found.caps:
            yield from _cap(cap, guaranteed=found.max_false_stop is not None)
    for choice in chosen:
        yield from _choice(choice)


def _guarantee(found: Calibration) -> Iterator[str]:
    if found.max_false_stop is None or not found.caps:
        return
    share = found.max_false_stop
    yield "# A further good run of this kind is stopped by any of these caps with a"
    yield f"# probability of at most {share:g} (split conformal; runs exchangeable)."


def _cap(cap: Cap, *, guaranteed: bool) -> Iterator[str]:
    line = cap.line
    value = f"{line.value:g}" if line.value is not None else "–"
    what = "stop line" if guaranteed else "p99"
    ends = "" if line.low is None else f" [{line.low:g}, {line.high:g}]"
    cuts = ", ".join(
        f"{cut} {'' if name == 'all' else name + ' '}successes"
        for name, cut in cap.cuts.items()
    )
    yield f"# {what} {value}{ends} over {line.n} runs; would have cut {cuts}"
    yield f"{cap.limit} = {cap.cap:g}" if cap.cap < 1e6 else f"{cap.limit} = {cap.cap}"


def _choice(choice: Choice) -> Iterator[str]:
    before, after = choice.before, choice.after
    yield ""
    yield f"[detectors.{choice.kind}]"
    yield (
        f"# F1 {after.f1 or 0:.3f}, with {choice.was} {before.f1 or 0:.3f}; "
        f"{after.fp} false trips, before {before.fp}; on the labels it was chosen on"
    )
    yield f"{choice.knob} = {choice.value}"


def _said(text: str) -> str:
    """A text for a comment: on one line, and printable."""
    return printable(" ".join(text.split())[:200])


def _quoted(text: str) -> str:
    """A TOML string; JSON's are, but for one character that TOML has escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
