"""What the pages on the analyses show of files."""

from __future__ import annotations

import json
import tomllib
from xml.etree import ElementTree

import yaml

from tests.docs_pages import ROOT, blocks


def test_what_is_shown_of_files_can_be_read() -> None:
    """The policy is TOML, the versions are JSON, the picture is XML."""
    (policy,) = blocks("docs/calibrate.md", "toml")
    (versions,) = blocks("docs/compare.md", "json")

    assert tomllib.loads(policy)["budget"] == {"steps": 24}
    assert json.loads(versions)["versions"]["owner"] == {"prompt": "bo"}
    ElementTree.parse(ROOT / "docs" / "timeline.svg")


def test_the_workflow_compares_and_keeps_the_status() -> None:
    """It is YAML, and a pipe does not hide that the runs got worse."""
    text = (ROOT / "examples/ci/agent-gate.yml").read_text("utf-8")

    steps = yaml.safe_load(text)["jobs"]["compare"]["steps"]
    (gate,) = (s["run"] for s in steps if "loopguard compare" in s.get("run", ""))
    assert gate.startswith("set -o pipefail\n")
