"""The page on several agents shows what is the case."""

from __future__ import annotations

from pathlib import Path

from tests.docs_pages import ran, text


def test_the_page_says_what_coverage_says(tmp_path: Path) -> None:
    """Of an agent whose tool runs a guarded one."""
    page = "docs/multi-agent.md"

    report = ran(page, tmp_path)["report"]

    assert str(report["children"]).replace("'", '"') in text(page)
