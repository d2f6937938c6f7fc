"""`loopguard demo`."""

from __future__ import annotations

from loopguard_lg.cli.common import InputError
from loopguard_lg.errors import install_hint


def demo() -> int:
    """Show the guard at work on a scripted agent.

    Needs no key and no network.

    Example: loopguard demo
    """
    try:
        from loopguard_lg.testing.demo import main
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "langchain":
            raise
        raise InputError(f"this needs {install_hint('agents')}") from None
    return main() or 0
