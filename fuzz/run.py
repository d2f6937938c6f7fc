#!/usr/bin/env python
"""Coverage-guided fuzzing of what reads other people's text.

    pip install atheris
    python fuzz/run.py TARGET [libFuzzer options] [folders with more inputs]

Targets: `readers`, `digests`, `commands`, `errors`, `policy`, `edits`. An exception
that the target does not document is a crash; so is an input that takes over a second.
New inputs are kept in a folder given by name; `fuzz/corpus/TARGET` is read as well.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["loopguard_lg"]):
    from loopguard_lg.commands import read_code
    from loopguard_lg.digests import args_hash, calm, canonical, near_digest
    from loopguard_lg.editlog import edits_of
    from loopguard_lg.errors import LoopGuardError
    from loopguard_lg.policy_file import load_policy
    from loopguard_lg.progress import mask, telling_line
    from loopguard_lg.roles import read_use
    from loopguard_lg.scratchpad import quote
    from loopguard_lg.steps import Step
    from loopguard_lg.traces.readers import read
    from loopguard_lg.weakening import softer

SECONDS = 1.0
"""Most CPU seconds for one input."""


def text_of(data: bytes) -> str:
    """Any text, lone surrogates included."""
    return data.decode("utf-8", "surrogateescape")


def readers(data: bytes) -> None:
    """A file of trajectories."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        for _ in read(file.name):
            pass


def digests(data: bytes) -> None:
    """Arguments and results."""
    text = text_of(data)
    data = text.encode("utf-8", "surrogatepass")  # as the engine encodes results
    calm(data)
    near_digest(data)
    canonical("search", {"query": text, text[:9]: [text]})
    args_hash({"path": text})
    quote(text, 120)


def commands(data: bytes) -> None:
    """Shell commands and statements."""
    text = text_of(data)
    read_code("bash", text[:600])
    read_code("query", text[:600])
    read_use(Step(tool="execute", args={"command": text}, result=text), None)


def errors(data: bytes) -> None:
    """Results that say what went wrong."""
    mask(telling_line(data))


def policy(data: bytes) -> None:
    """Policy files."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("toml", "yaml", "json"):
            path = Path(folder) / f"p.{suffix}"
            path.write_bytes(data)
            with contextlib.suppress(LoopGuardError):
                load_policy(path, env={})


def edits(data: bytes) -> None:
    """Edits of files and of tests."""
    text = text_of(data)
    half = len(text) // 2
    softer(text[:half], text[half:], python=True)
    softer(text[:half], text[half:], python=False)
    edits_of(Step(tool="execute", args={"command": text}, result=""), "a.py")


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (readers, digests, commands, errors, policy, edits)
}


def main() -> None:
    """Fuzz the target that is named."""
    if sys.argv[1:] and sys.argv[1] in TARGETS:
        os.environ["FUZZ_TARGET"] = sys.argv.pop(1)  # for the processes of -merge=1
    name = os.environ.get("FUZZ_TARGET", "")
    if name not in TARGETS:
        sys.exit(__doc__)

    def once(data: bytes) -> None:
        started = time.thread_time()
        TARGETS[name](data)
        took = time.thread_time() - started
        if took > SECONDS:
            raise TimeoutError(f"{len(data)} bytes took {took:.1f} s")

    corpus = Path(__file__).parent / "corpus" / name
    options = [*sys.argv, "-max_len=20000"]
    atheris.Setup(options + [str(corpus)] * corpus.is_dir(), once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
