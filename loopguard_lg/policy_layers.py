"""Layers of settings as plain data, and how one is laid over the others.

A table changes the keys that it names, at any depth; a list (of detectors, rungs or
budgets) stands for the whole. A tree of settings has the shape of `Policy`:

    {"detectors": {kind: part}, "ladder": {"rungs": [part], "most": setting},
     "budget": [part], "tools": {name: part}, "prices": {name: part}, others: setting}

where a part has the settings of one dataclass by name, a detector's also `enabled`, a
rung's also `rung`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import cache
from typing import Any

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.policy import Policy
from loopguard_lg.policy_places import (
    DEFAULT,
    At,
    OtherName,
    Part,
    Setting,
    Table,
    Tree,
)
from loopguard_lg.policy_schema import (
    ALIASES,
    DETECTORS,
    EXITS,
    KB,
    RUNGS,
    SECTIONS,
    STEPS,
    keys_of,
)
from loopguard_lg.tools import ToolPolicy


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings of one place: of a file, of one of its sections, of a variable."""

    at: At
    table: Table


def select(
    layers: Iterable[Layer], *, graph: str | None = None, agent: str | None = None
) -> list[Layer]:
    """What holds for a graph and an agent: the common part, then their sections."""
    layers = list(layers)
    wanted = (("graphs", graph), ("agents", agent))
    common = [replace(layer, table=_common(layer.table)) for layer in layers]
    own = [part for layer in layers for part in _sections(layer)]
    return common + [part for one in wanted for key, part in own if key == one]


def section_names(layers: Iterable[Layer]) -> list[dict[str, str]]:
    """The graphs and agents that there are sections of, as arguments of `select`."""
    keys = [key for layer in layers for key, _ in _sections(layer)]
    return [{SECTIONS[group]: name} for group, name in dict.fromkeys(keys)]


def _common(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in SECTIONS}


def _sections(layer: Layer) -> Iterator[tuple[tuple[str, str], Layer]]:
    for group in SECTIONS:
        tables = as_table(layer.table.get(group, {}), layer.at / group)
        for name in tables:
            at = At(layer.at.place, f"{group}.{name}")
            yield (group, name), Layer(at, as_table(tables[name], at))


def lay_over(tree: Tree, layer: Layer) -> Tree:
    """The tree with what a layer changes; its `preset` is taken as done.

    Raises:
        PolicyError: A key that there is not, or a value of a wrong type.
    """
    keys = keys_of(Policy)
    known = ("preset", "stronger_model", *_READERS, *ALIASES)
    _check_keys(layer.table, layer.at, Policy, *known)
    tree = dict(tree)
    for name in ALIASES:
        tree = _other_names(tree, name, layer.table.get(name, {}), layer.at / name)
    for name, value in layer.table.items():
        at = layer.at / name
        if name in _READERS:
            tree[name] = _READERS[name](tree[name], value, at)
        elif name in keys:
            tree[name] = Setting(_checked(keys[name].hint, value, at), at.origin)
    if "stronger_model" in layer.table:
        model = layer.table["stronger_model"]
        tree["ladder"] = _stronger(tree["ladder"], model, layer.at / "stronger_model")
    return tree


def _other_names(tree: Tree, table: str, values: Any, at: At) -> Tree:
    """The tree with what a table of other names changes."""
    _check_names(values, at, ALIASES[table])
    for key, value in values.items():
        group, *parts = ALIASES[table][key]
        if key.endswith("_kb") and isinstance(value, int | float):
            value = round(value * KB) if math.isfinite(value) else value
        for part in reversed(parts):
            value = {part: value}
        named = OtherName(at.place, at.section, f"{at.key}.{key}")
        tree = {**tree, group: _READERS[group](tree[group], value, named)}
    return tree


def defaults(kind: type[Any]) -> Part:
    """The settings of a dataclass that have a default."""
    keys = {name: key for name, key in keys_of(kind).items() if key.schema is not None}
    return {n: Setting(k.default) for n, k in keys.items() if k.default is not MISSING}


def off(part: Part, origin: str = DEFAULT) -> Part:
    """A detector's part, switched off."""
    return {**part, "enabled": Setting(False, origin)}


def _budget(old: list[Part], value: Any, at: At) -> list[Part]:
    if isinstance(value, list | tuple):
        new = defaults(Budget)
        return [_changed(Budget, new, item, at / i) for i, item in enumerate(value)]
    if len(old) > 1:
        raise at.error(f"={value!r}: there are {len(old)} budgets, give all in a list")
    return [_changed(Budget, old[0] if old else defaults(Budget), value, at)]


def _detectors(old: Tree, value: Any, at: At) -> Tree:
    if isinstance(value, list | tuple):
        own = dict(_detector(item, at / i) for i, item in enumerate(value))
        rest = {k: off(part, at.origin) for k, part in old.items() if k not in own}
        return {**own, **rest}
    _check_names(value, at, DETECTORS)
    new = dict(old)
    for kind, settings in value.items():
        table = {"enabled": settings} if isinstance(settings, bool) else settings
        new[kind] = _detector_part(kind, old[kind], table, at / kind)
    return new


def _detector(item: Any, at: At) -> tuple[str, Part]:
    """A detector of a list: a kind, or a table with one and other settings."""
    kind, table = _tagged(item, "kind", DETECTORS, at)
    new = {"enabled": Setting(True, at.origin), **defaults(DETECTORS[kind])}
    return kind, _detector_part(kind, new, table, at)


def _detector_part(kind: str, old: Part, table: Any, at: At) -> Part:
    table = dict(as_table(table, at))
    on = old["enabled"]
    if "enabled" in table:
        value = _checked(bool, table.pop("enabled"), at / "enabled")
        on = Setting(value, at.origin)
    return _changed(DETECTORS[kind], {**old, "enabled": on}, table, at, "enabled")


def _ladder(old: Tree, value: Any, at: At) -> Tree:
    if isinstance(value, list | tuple):
        return {**old, "rungs": _rungs(value, at)}
    _check_names(value, at, [*_RUNG_KEYS, *LADDER])
    rungs, new = old["rungs"], dict(old)
    for name in _RUNG_KEYS:
        if name in value:
            rungs = _with(rungs, name, value[name], at / name)
    for name, hint in LADDER.items():
        if name in value:
            new[name] = Setting(_checked(hint, value[name], at / name), at.origin)
    return {**new, "rungs": rungs}


LADDER = {"most": int, "block_ignored": bool}
"""The settings of a ladder beside its rungs."""

_RUNG_KEYS = ("rungs", *STEPS, "exit")
"""What changes the rungs of a ladder, in the order in which it is done."""


def _with(rungs: list[Part], name: str, value: Any, at: At) -> list[Part]:
    """The rungs with what one key changes."""
    if name == "rungs":
        return _rungs(value, at)
    if name == "exit":
        return [*rungs[:-1], _exit(value, at)]
    return _with_step(rungs, name, value, at)


def _rungs(value: Any, at: At) -> list[Part]:
    if not isinstance(value, list | tuple):
        raise at.error(f"={value!r}: give a list of rungs")
    return [_rung(item, at / i) for i, item in enumerate(value)]


def _rung(item: Any, at: At) -> Part:
    name, table = _tagged(item, "rung", RUNGS, at)
    return _changed(RUNGS[name], _new_rung(name, at), table, at)


def _new_rung(name: str, at: At) -> Part:
    return {"rung": Setting(name, at.origin), **defaults(RUNGS[name])}


def _with_step(rungs: list[Part], name: str, value: Any, at: At) -> list[Part]:
    """The rungs with these settings for those of one kind, or without them.

    Where there is none, it comes to its usual place: `reflect` first, `escalate` last
    before the exit.
    """
    if value is False:
        return [rung for rung in rungs if not _is(rung, name)]
    table = {} if value is True else value
    return [
        _changed(STEPS[name], rung, table, at) if _is(rung, name) else rung
        for rung in _having(rungs, name, at)
    ]


def _having(rungs: list[Part], name: str, at: At) -> list[Part]:
    if any(_is(rung, name) for rung in rungs):
        return rungs
    place = 0 if name == "reflect" else len(rungs) - 1
    return [*rungs[:place], _new_rung(name, at), *rungs[place:]]


def _is(rung: Part, name: str) -> bool:
    return bool(rung["rung"].value == name)


def _exit(name: Any, at: At) -> Part:
    if name not in (*EXITS,):
        raise at.unknown(f"={name!r} is no exit", name, EXITS)
    return _new_rung(name, at)


def _stronger(ladder: Tree, model: Any, at: At) -> Tree:
    rungs = ladder["rungs"]
    if not any(_is(rung, "escalate") for rung in rungs):
        raise at.error(f"={model!r}: the ladder has no escalate")
    key = keys_of(RUNGS["escalate"])["model"]
    own = {"model": Setting(_checked(key.hint, model, at), at.origin)}
    new = [{**rung, **own} if _is(rung, "escalate") else rung for rung in rungs]
    return {**ladder, "rungs": new}


def _tools(old: Tree, value: Any, at: At) -> Tree:
    return _each(ToolPolicy, old, value, at)


def _prices(old: Tree, value: Any, at: At) -> Tree:
    return _each(Price, old, value, at)


def _each(kind: type[Any], old: Tree, value: Any, at: At) -> Tree:
    new = defaults(kind)
    tables = as_table(value, at)
    return {
        **old,
        **{n: _changed(kind, old.get(n, new), tables[n], at / n) for n in tables},
    }


_READERS: dict[str, Callable[[Any, Any, At], Any]] = {
    "budget": _budget,
    "detectors": _detectors,
    "ladder": _ladder,
    "tools": _tools,
    "prices": _prices,
}
"""What is made of parts; the other settings of a policy are single values."""

PARTS = frozenset(_READERS)
"""The settings of a policy that are made of parts."""


def _changed(kind: type[Any], old: Part, table: Any, at: At, *more: str) -> Part:
    """A part with what a table changes; entries are added to a table in it."""
    _check_keys(table, at, kind, *more)
    new = dict(old)
    for name, value in table.items():
        value = _checked(keys_of(kind)[name].hint, value, at / name)
        if isinstance(value, Mapping) and name in old:
            value = {**old[name].value, **value}
        new[name] = Setting(value, at.origin)
    return new


def _check_keys(table: Any, at: At, kind: type[Any], *more: str) -> None:
    """Refuse what is no setting of a dataclass, and none of `more`."""
    keys = keys_of(kind)
    known = [*more, *(name for name, key in keys.items() if key.schema is not None)]
    for name, value in as_table(table, at).items():
        if name in keys and name not in known:
            raise (at / name).error(f"={value!r}: can only be given in Python")
    _check_names(table, at, known)


def _check_names(table: Any, at: At, known: Iterable[str]) -> None:
    for name, value in as_table(table, at).items():
        if name not in known:
            raise (at / name).unknown(f"={value!r} is no setting", name, known)


def _tagged(item: Any, tag: str, known: Iterable[str], at: At) -> tuple[str, Table]:
    """The name of an item of a list, and its other settings."""
    table = dict(as_table({tag: item} if isinstance(item, str) else item, at))
    name = table.pop(tag, None)
    if name not in (*known,):
        raise (at / tag).unknown(f"={name!r} is no {tag}", name, known)
    return name, table


def as_table(value: Any, at: At) -> Table:
    """The value, if it is a table of named settings.

    Raises:
        PolicyError: It is not.
    """
    if not isinstance(value, Mapping):
        raise at.error(f"={value!r}: give a table of settings")
    for name in value:
        if not isinstance(name, str):
            raise (at / name).error(f": {name!r} is no name, put it in quotes")
    return value


def _checked(hint: Any, value: Any, at: At) -> Any:
    """A value of the type that the dataclass declares; integers are numbers, too."""
    from pydantic import ValidationError

    given = tuple(value) if isinstance(value, list) else value
    try:
        return _adapter(hint).validate_python(given, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        for part in first["loc"]:
            at = at / part
        problem = first["msg"].replace("Input should", "it should")
        raise at.error(f"={first['input']!r}: {problem}") from None


@cache
def _adapter(hint: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)
