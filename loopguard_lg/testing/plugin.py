"""The pytest plugin: recordings by test name.

It is loaded in every test run of an environment that has loopguard, so it imports the
recording machinery only when a test asks for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from loopguard_lg.testing.cassettes import Recording

_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch that records and the setting of the folder."""
    parser.getgroup("loopguard").addoption(
        "--loopguard-record",
        action="store_true",
        help="make the recordings of the chosen tests anew, from real traffic",
    )
    parser.addini(
        "loopguard_cassettes",
        "folder of the recordings, relative to the root",
        default="cassettes",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test failed, for the fixture's end."""
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.fixture
def loopguard_cassette(request: pytest.FixtureRequest) -> Iterator[Recording]:
    """Recorded model traffic, from `cassettes/<test module>/<test name>.yaml`.

    Each request of the test has to be in the recording, and all of the recording has
    to be used. With `--loopguard-record` real traffic passes and is recorded, unless
    the test fails.
    """
    from loopguard_lg.testing.cassettes import open_recording, recording_path

    folder = request.config.rootpath / request.config.getini("loopguard_cassettes")
    path = recording_path(folder, Path(request.node.path).stem, request.node.name)
    record = request.config.getoption("--loopguard-record")
    with ExitStack() as stack:
        opened = stack.enter_context(open_recording(path, record=record))
        yield opened
        failed = request.node.stash.get(_failed, False)
        if opened.misses or not failed:
            opened.verify()
        if failed:
            opened.dirty = False
