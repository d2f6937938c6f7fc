"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import langchain_openai  # noqa: F401  # runs in this process must not load it anew
import pytest

from tests.testing.scripted_server import says, serving

pytest_plugins = ["pytester"]

TESTS = """
    import os
    import pytest
    from langchain_openai import ChatOpenAI

    def ask(question):
        url = os.environ.get("SERVER", "http://elsewhere.example/v1")
        model = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)
        return model.invoke(question).text

    @pytest.mark.parametrize("question", ["hi"])
    def test_it(loopguard_cassette, question):
        assert ask(os.environ.get("QUESTION", question)) == os.environ["ANSWER"]
"""


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the suite in this process, where sockets and environment are ours."""
    return suite.runpytest_inprocess("-p", "no:asyncio", *options)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A test suite with one recorded test, which expects `hello`."""
    monkeypatch.setenv("ANSWER", "hello")
    pytester.makepyfile(test_talk=TESTS)
    with serving(says("hello")) as server:
        monkeypatch.setenv("SERVER", server.base_url)
        run(pytester, "--loopguard-record").assert_outcomes(passed=1)
    monkeypatch.delenv("SERVER")
    return pytester


def recorded(suite: pytest.Pytester) -> Path:
    """The recording of the suite's test."""
    return suite.path / "cassettes/test_talk/test_it-hi.yaml"


def refuse(sock: socket.socket, address: Any) -> None:
    """Connect to nothing."""
    raise ConnectionRefusedError(f"connects to {address!r}")


def test_a_recorded_test_passes_with_all_sockets_closed(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording stands below its module and name, and is all that is needed."""
    monkeypatch.setattr(socket.socket, "connect", refuse)

    assert recorded(suite).is_file()
    run(suite).assert_outcomes(passed=1)


def test_a_changed_request_fails_with_the_difference(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report says in which place the request is not the recorded one."""
    monkeypatch.setenv("QUESTION", "hi there")
    result = run(suite)

    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(['*content: recorded "hi", now "hi there"'])


def test_an_unused_recording_is_an_error_of_a_test_that_passes(
    suite: pytest.Pytester,
) -> None:
    """A test that asks for nothing any more is told so."""
    suite.makepyfile(
        test_talk="""
        import pytest

        @pytest.mark.parametrize("question", ["hi"])
        def test_it(loopguard_cassette, question):
            pass
        """
    )
    result = run(suite)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*1 requests are recorded, only 0 were made*"])


def test_a_failing_test_is_not_reported_twice(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assertion that fails is one failure, whatever of the recording is unused."""
    monkeypatch.setenv("ANSWER", "good bye")
    run(suite).assert_outcomes(failed=1)


def test_a_failing_test_is_not_recorded(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recording anew keeps the old recording where the test fails."""
    before = recorded(suite).read_text("utf-8")
    with serving(says("nonsense")) as server:
        monkeypatch.setenv("SERVER", server.base_url)
        run(suite, "--loopguard-record").assert_outcomes(failed=1)

    assert recorded(suite).read_text("utf-8") == before


def test_the_folder_can_be_set(suite: pytest.Pytester) -> None:
    """`loopguard_cassettes` in the configuration names another folder."""
    suite.makeini("[pytest]\nloopguard_cassettes = elsewhere")
    (suite.path / "cassettes").rename(suite.path / "elsewhere")

    run(suite).assert_outcomes(passed=1)


def test_a_suite_without_recordings_pays_nothing(pytester: pytest.Pytester) -> None:
    """Loading the plugin imports neither vcrpy nor langchain."""
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            assert "loopguard_lg.testing.plugin" in sys.modules
            assert not {"vcr", "langchain_core"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:langsmith_plugin").assert_outcomes(passed=1)
