"""Which keys a policy has in a file, found in the dataclasses; and their JSON schema.

There is no second list of keys: types and defaults are those of the fields, what a key
is for is said in the `Attributes` of the class.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from inspect import getdoc
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect, Rung
from loopguard_lg.policy import PRESETS, Policy
from loopguard_lg.tools import ToolPolicy

Schema: TypeAlias = dict[str, Any]

DETECTORS: dict[str, type[Any]] = {spec.kind: type(spec) for spec in DEFAULTS}
"""The detectors by kind, in the order of the defaults."""

STEPS: dict[str, type[Reflect] | type[Escalate]] = {
    "reflect": Reflect,
    "escalate": Escalate,
}
"""The rungs below the exit."""

EXITS: dict[str, type[GiveUp] | type[AskUser]] = {
    "give_up": GiveUp,
    "ask_user": AskUser,
}

RUNGS: dict[str, type[Rung]] = {**STEPS, **EXITS}

SECTIONS = {"graphs": "graph", "agents": "agent"}
"""The tables whose entries hold for one graph or agent, with what they are of."""

ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "loop": {
        "failing_edits": ("detectors", "failing_edits", "times"),
        "repeated_errors": ("detectors", "recurring_error", "times"),
        "block_ignored": ("ladder", "block_ignored"),
        "edit_threshold": ("detectors", "edit_rate", "edits"),
        "edit_window_seconds": ("detectors", "edit_rate", "seconds"),
    },
    "tampering": {"enabled": ("detectors", "tampering", "enabled")},
    "bloat": {
        "context_tokens": ("detectors", "bloat", "tokens"),
        "tool_output_kb": ("detectors", "bloat", "output"),
    },
}
"""Other names of settings, as hooks of coding agents have them: table, key, place."""

KB = 1_000
"""Bytes of one `tool_output_kb`."""

_SIMPLE: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
}


@dataclass(frozen=True, slots=True)
class Key:
    """One setting of a dataclass.

    Attributes:
        hint: Its type, as far as a file can hold it.
        schema: The same for editors; `None` where it can only be given in Python.
        default: What it is if it is not set; `MISSING` where it has to be given.
        about: What it is for.
    """

    hint: Any
    schema: Schema | None
    default: Any
    about: str


def keys_of(kind: type[Any]) -> Mapping[str, Key]:
    """The settings of a dataclass by name, in its order."""
    return _keys(cast("Any", kind))


@cache
def _keys(kind: Any) -> Mapping[str, Key]:
    names = {**vars(builtins), **vars(sys.modules[kind.__module__])}
    hints = get_type_hints(kind, localns=_Names(names))
    texts = _attribute_texts(kind)
    return {
        field.name: _key(field, hints[field.name], texts.get(field.name, texts[""]))
        for field in fields(kind)
        if field.init
    }


class _Names(dict[str, Any]):
    """Names for hints; one imported for type checkers alone is of no plain type."""

    def __missing__(self, name: str) -> Any:
        return object


def _key(field: Field[Any], hint: Any, about: str) -> Key:
    # A model may be any object in Python, its name in a file.
    hint = str | None if hint is Any else _plain(hint)
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return Key(hint, json_type(hint), default, about)


def _plain(hint: Any) -> Any:
    """A hint without the functions in it, if there is anything else."""
    parts = [p for p in get_args(hint) if get_origin(p) is not Callable]
    if get_origin(hint) not in (Union, UnionType) or parts == [NoneType]:
        return hint
    return Union[tuple(parts)]  # noqa: UP007 - made of what there is


def _attribute_texts(kind: type[Any]) -> dict[str, str]:
    """What a class's docstring says of each attribute, and of itself under ``."""
    texts: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        doc = getdoc(part) or ""
        about = doc.partition("Attributes:\n")[2]
        found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", about, re.M)
        texts |= {name: " ".join(text.split()) for name, text in found}
        texts[""] = doc.partition("\n")[0]
    return texts


def json_type(hint: Any) -> Schema | None:
    """The JSON schema of a type hint; `None` where plain data can't hold its values."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [*args]}
    if origin in (Union, UnionType):
        return _any_of(*map(json_type, args))
    if origin in (tuple, list, Sequence):
        items = json_type(args[0])
        return items and {"type": "array", "items": items}
    if origin in (dict, Mapping):
        values = json_type(args[1])
        return values and {"type": "object", "additionalProperties": values}
    return _SIMPLE.get(hint)


def _any_of(*schemas: Schema | None) -> Schema | None:
    known = [schema for schema in schemas if schema is not None]
    return {"anyOf": known} if len(known) == len(schemas) else None


def policy_schema() -> Schema:
    """The JSON schema of a policy file, for editors (draft 7, which most of them read).

    What holds between keys (`window` not below `times`) is checked when it is loaded.
    """
    policy = _policy()
    one = {"$ref": "#/definitions/policy"}
    sections = {
        name: {
            "description": f"What is different for one {thing}, by its name.",
            **_by_name(one),
        }
        for name, thing in SECTIONS.items()
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Policy of loopguard_lg",
        "definitions": {"policy": policy},
        **_object({"$schema": {"type": "string"}, **policy["properties"], **sections}),
    }


def _policy() -> Schema:
    budget = {"anyOf": [_part(Budget, Policy().budget), _list(_part(Budget))]}
    parts = {
        "detectors": _detectors(),
        "ladder": _ladder(),
        "budget": budget,
        "prices": _by_name(_part(Price)),
        "tools": _by_name(_part(ToolPolicy)),
    }
    own = {
        name: {"description": key.about, **parts[name]} if name in parts else key
        for name, key in keys_of(Policy).items()
    }
    preset = {"description": "What the rest builds on.", "enum": [*PRESETS]}
    model = {"description": "The model of every escalation.", "type": "string"}
    tables = {table: _aliases(table) for table in ALIASES}
    return _object({"preset": preset, "stronger_model": model, **own, **tables})


def _aliases(table: str) -> Schema:
    """The schema of a table of other names."""
    policy = Policy()
    specs: dict[str, Any] = {spec.kind: spec for spec in policy.detectors}
    found: dict[str, Schema] = {}
    for key, (*_, part, name) in ALIASES[table].items():
        default = getattr(specs.get(part, policy.ladder), name, True)
        default = default // KB if key.endswith("_kb") else default
        kind = _SIMPLE[type(default)]
        unit = f", in units of {KB:,} bytes" if key.endswith("_kb") else ""
        about = f"The same as `{'.'.join(ALIASES[table][key])}`{unit}."
        found[key] = {"description": about, **kind, "default": default}
    return _object(found)


def _detectors() -> Schema:
    on = _SIMPLE[bool] | {"default": True, "description": "Is it looked for?"}
    tables: Schema = {}
    items: list[Schema] = [{"enum": [*DETECTORS]}]
    for spec in DEFAULTS:
        table = _part(type(spec), spec, enabled=on)
        tables[spec.kind] = {"anyOf": [table, _SIMPLE[bool]]}
        items.append(_part(type(spec), kind={"const": spec.kind}))
    return {"anyOf": [_object(tables), _list({"anyOf": items})]}


def _ladder() -> Schema:
    rungs = [_part(kind, rung={"const": name}) for name, kind in RUNGS.items()]
    every = _list({"anyOf": [{"enum": [*RUNGS]}, *rungs]})
    about, ladder = _attribute_texts(Ladder), Policy().ladder
    (end,) = (name for name, kind in EXITS.items() if type(ladder.rungs[-1]) is kind)
    table = {
        "rungs": every | {"description": about["rungs"]},
        **{name: {"anyOf": [_part(STEPS[name]), _SIMPLE[bool]]} for name in STEPS},
        "exit": {"description": "The last rung.", "enum": [*EXITS], "default": end},
        "most": _SIMPLE[int] | {"description": about["most"], "default": ladder.most},
        "block_ignored": _SIMPLE[bool]
        | {"description": about["block_ignored"], "default": ladder.block_ignored},
    }
    return {"anyOf": [_object(table), every]}


def _part(of: type[Any], spec: Any = None, **more: Any) -> Schema:
    """The schema of a table of a dataclass's settings; defaults are those of `spec`."""
    keys = keys_of(of)
    if spec is not None:
        keys = {n: replace(key, default=getattr(spec, n)) for n, key in keys.items()}
    return _object({**more, **keys})


def _object(settings: Mapping[str, Schema | Key]) -> Schema:
    """A table with these settings, apart from those that are left to Python."""
    schemas = {n: s if isinstance(s, dict) else _single(s) for n, s in settings.items()}
    return {
        "type": "object",
        "properties": {name: schema for name, schema in schemas.items() if schema},
        "additionalProperties": False,
    }


def _single(key: Key) -> Schema | None:
    if key.schema is None:
        return None
    default = list(key.default) if isinstance(key.default, tuple) else key.default
    known = {} if key.default is MISSING else {"default": default}
    return {"description": key.about, **key.schema, **known}


def _by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}
