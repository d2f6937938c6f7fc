"""Record the scenarios anew: `python -m tests.recording --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ONE_LOOP = "asyncio_default_test_loop_scope=session"
"""langchain-openai shares its async client, which can't change its event loop."""

SCENARIOS = [
    Path(__file__).with_name(f"test_{name}.py")
    for name in ("scenarios", "coding_scenarios", "judged")
]


def arguments() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recording",
        description="Record the scenarios anew with any OpenAI-compatible server.",
        epilog="A recording whose test fails is not replaced. Record on a quiet "
        "machine, and read the difference before you commit it.",
    )
    parser.add_argument("--base-url", required=True, help="ends on /v1")
    parser.add_argument("--strong-base-url", help="where it is another server")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--weak", required=True, metavar="MODEL")
    parser.add_argument("--strong", required=True, metavar="MODEL")
    parser.add_argument(
        "--only", metavar="NAME", help="scenarios with this in the name"
    )
    parser.add_argument(
        "--folder", default="cassettes", help="where the recordings go (%(default)s)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Record; the status is pytest's."""
    given = arguments().parse_args(argv)
    os.environ |= {
        "LOOPGUARD_RECORD_KEY": given.api_key,
        "LOOPGUARD_RECORD_WEAK": given.weak,
        "LOOPGUARD_RECORD_WEAK_URL": given.base_url,
        "LOOPGUARD_RECORD_STRONG": given.strong,
        "LOOPGUARD_RECORD_STRONG_URL": given.strong_base_url or given.base_url,
    }
    chosen = ["-k", given.only] if given.only else []
    options = ["--loopguard-record", "-p", "no:randomly", "-v", "--durations=0"]
    options += ["-o", ONE_LOOP, "-o", f"loopguard_cassettes={given.folder}"]
    return pytest.main([*map(str, SCENARIOS), *options, *chosen])


if __name__ == "__main__":
    sys.exit(main())
