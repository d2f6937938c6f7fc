from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopguard_lg.detectors import DEFAULTS, Detector, options

PAGES = Path(__file__).parents[3] / "docs" / "detectors"
HEADINGS = ["Options", "Trips", "Does not trip", "Tuning", "Measured"]


def _read(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("detector", DEFAULTS, ids=lambda d: d.kind)
def test_a_page_has_the_options_and_their_defaults(detector: Detector) -> None:
    """Its table is that of the detector's fields."""
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", _read(detector.kind), re.MULTILINE)

    told = {name: value.replace(",", "") for name, value in rows}
    assert told == {name: str(value) for name, value in options(detector).items()}


@pytest.mark.parametrize("detector", DEFAULTS, ids=lambda d: d.kind)
def test_all_pages_have_the_same_skeleton(detector: Detector) -> None:
    """What it is, options, what trips, what does not, how to tune."""
    assert re.findall(r"^## (.*)$", _read(detector.kind), re.MULTILINE) == HEADINGS


def test_the_overview_lists_the_detectors_in_the_order_that_counts() -> None:
    """The most specific one first."""
    listed = re.findall(r"^\| \[(\w+)\]", _read("README"), re.MULTILINE)

    assert listed == [detector.kind for detector in DEFAULTS]
