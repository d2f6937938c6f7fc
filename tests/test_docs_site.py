"""The documentation as a site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import ROOT

pytest.importorskip("mkdocstrings", reason="the group `docs` is not installed")
LOADED = re.compile(r"<(?:script|img|iframe)[^>]+src=.?http|<link[^>]+href=.?http")


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Without a warning; every page is in it, and no script or font is another's."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    pages = [page.read_text("utf-8") for page in tmp_path.glob("**/*.html")]
    assert len(pages) > 50
    for page in pages:
        assert not LOADED.search(page)
        # Would be drawn by a script from elsewhere.
        assert 'class="mermaid"' not in page
