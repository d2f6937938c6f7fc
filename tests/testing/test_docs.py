"""The code of the page on testing."""

from __future__ import annotations

import pytest

from tests.docs_pages import blocks
from tests.testing.scripted_server import says, serving

pytest_plugins = ["pytester"]

BLOCKS = blocks("docs/testing.md", "python")


def test_the_tests_on_the_page_pass(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block is a test module that passes; recorded first, then replayed."""
    pytester.makepyfile(**{f"test_block_{n}": text for n, text in enumerate(BLOCKS)})
    pytester.mkdir("cassettes")
    pytester.mkdir("tests")
    with serving(says("Hello.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        options = ["-p", "no:asyncio", "--loopguard-record", "-k", "hello"]
        pytester.runpytest_subprocess(*options).assert_outcomes(passed=1, deselected=5)
    (pytester.path / "test_block_2.py").rename(pytester.path / "tests/test_block_2.py")
    result = pytester.runpytest_subprocess("-p", "no:asyncio")

    result.assert_outcomes(passed=len(BLOCKS) + 1)
