"""Is a folder of recordings clean: no orphans, no secrets, no real hosts?"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loopguard_lg import redaction
from loopguard_lg.testing import bodies
from loopguard_lg.testing.cassettes import HOMES, PLACEHOLDER


def recording_problems(folder: Path, tests: Path) -> list[str]:
    """What is wrong with the recordings below `folder`, a line each.

    Every file must belong to a test function of that name in a module of that name
    somewhere below `tests`, hold at least one request, name no host but the
    placeholder, and hold nothing that looks like a key or a home directory.
    """
    known = set(_tests(tests))
    return [
        f"{path.relative_to(folder)}: {problem}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for problem in _problems(path, path.relative_to(folder), known)
    ]


def _tests(tests: Path) -> Iterator[tuple[str, str]]:
    """Module and name of every function in the test modules."""
    for module in tests.rglob("test_*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module.stem, node.name


def _problems(
    path: Path, place: Path, known: Iterable[tuple[str, str]]
) -> Iterator[str]:
    if (str(place.parent), place.stem.partition("-")[0]) not in known:
        yield "no test uses this recording"
    text = path.read_text("utf-8")
    for secret in _secrets(bodies.load(text) if path.suffix == ".yaml" else text):
        yield f"holds what looks like a key: {secret[:12]}..."
    if found := HOMES.search(text):
        yield f"holds what looks like a home directory: {found[0][:12]}..."
    if path.suffix == ".yaml":
        yield from _traffic(text)


def _secrets(recording: Any) -> list[str]:
    """The first text with a secret, from the secret on."""
    found: list[str] = []

    def noted(text: str) -> str:
        clean = redaction.redacted(text)
        if clean != text and not found:
            found.append(text[len(os.path.commonprefix([text, clean])) :])
        return clean

    if redaction.data(recording, noted) != recording and not found:
        found.append("a field named like one")
    return found


def _traffic(text: str) -> Iterator[str]:
    interactions = bodies.deserialize(text)["interactions"]
    if not interactions:
        yield "holds no requests"
    hosts = {urlsplit(each["request"]["uri"]).netloc for each in interactions}
    for host in sorted(hosts - {PLACEHOLDER}):
        yield f"names the host {host}"
