"""A value of a policy's settings, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

from loopguard_lg.errors import PolicyError

Table: TypeAlias = Mapping[str, Any]
Tree: TypeAlias = dict[str, Any]

DEFAULT = "default"
"""Where a value comes from that nobody has set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and the preset, file or variable that it comes from."""

    value: Any
    origin: str = DEFAULT


Part: TypeAlias = dict[str, Setting]


@dataclass(frozen=True, slots=True)
class At:
    """A key in a layer, for errors and origins.

    Attributes:
        place: The file, or the environment variable.
        section: The section for one graph or agent in it.
        key: The key in the section, dotted.
    """

    place: str
    section: str = ""
    key: str = ""

    def __truediv__(self, name: object) -> At:
        return replace(self, key=f"{self.key}.{name}" if self.key else str(name))

    def error(self, problem: str) -> PolicyError:
        """The error of this key; the problem begins with its value or a colon."""
        key = ".".join(filter(None, (self.section, self.key)))
        return PolicyError(": ".join(filter(None, (self.place, f"{key}{problem}"))))

    def unknown(self, problem: str, name: Any, known: Iterable[str]) -> PolicyError:
        """The error of a name that there is not, with the ones that there are."""
        near = get_close_matches(str(name), known := list(known), 1)
        hint = f", did you mean {near[0]}?" if near else "."
        return self.error(f"{problem}{hint} There are {', '.join(known)}")

    @property
    def origin(self) -> str:
        """Where a value of this key comes from."""
        return f"{self.place} [{self.section}]" if self.section else self.place


@dataclass(frozen=True, slots=True)
class OtherName(At):
    """A key under another name, by which alone errors and origins name it."""

    def __truediv__(self, name: object) -> At:
        return self

    @property
    def origin(self) -> str:
        """Where a value comes from, and as what."""
        return f"{At(self.place, self.section).origin} {self.key}"
