"""What a machine reads of a dataclass: its fields, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


class Told:
    """A dataclass whose fields are what is to be told of it."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The figures for a machine to read, as JSON has them."""
        known: Any = self
        return {each.name: _plain(getattr(self, each.name)) for each in fields(known)}


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value
