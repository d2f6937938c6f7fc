"""The command line, `loopguard`.

Everything that a command needs is imported when it runs, so that `loopguard --help`
answers at once; no command but `demo` imports langchain or langgraph.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from loopguard_lg.errors import install_hint


def main() -> None:
    """Run the command line and leave with its exit status."""
    try:
        from loopguard_lg.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"loopguard: this needs {install_hint('cli')}\n")
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may not have all signs
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))
