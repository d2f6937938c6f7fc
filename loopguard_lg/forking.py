"""Objects with locks and threads in a process that is forked.

A child has a copy of each lock as it stood, and nobody in it to let go of one that was
held; threads it has none.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """What has to be made anew in a child."""

    def forked(self) -> None:
        """Be as new: in a child, before anything else runs in it."""


_known: WeakSet[Forked] = WeakSet()


def renew(one: Forked) -> None:
    """Call `one.forked` in every child from now on, for as long as it is used."""
    _known.add(one)


def _in_child() -> None:
    for one in [*_known]:
        one.forked()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_in_child)
