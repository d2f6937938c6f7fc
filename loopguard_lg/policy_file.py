"""A policy by name or from a file, for `--policy FILE|PRESET` and for apps.

A file is TOML, YAML or JSON by its name, or a `pyproject.toml` with all of it below
`[tool.loopguard]`. Settings have the names that they have in Python; what is not set
stays as in the preset, or as in `Policy()`. A `[budget]` replaces the preset's budget
as a whole, as it does in Python.

```toml
preset = "coding"
tool_errors = "return"

[budget]                                 # [[budget]] for several
steps = 60

[detectors.repeat]                       # by kind
times = 4

[detectors.churn]
enabled = false                          # or shadow = true

[tools.check_ci]
role = "poll"

[prices."my-model"]                      # US dollars for a million tokens
input = 0.5
output = 1.5

[ladder]
reflect = {tokens = 300}                 # false to leave the rung out
escalate = {model = "openai:gpt-5.5", turns = 5}
exit = "give_up"                         # or "ask_user"
most = 8
```
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar, get_type_hints

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect, Rung
from loopguard_lg.policy import PRESETS, Policy
from loopguard_lg.tools import ToolPolicy

T = TypeVar("T")
Table: TypeAlias = Mapping[str, Any]

_RUNGS: dict[str, type[Reflect] | type[Escalate]] = {
    "reflect": Reflect,
    "escalate": Escalate,
}
_EXITS: dict[str, type[GiveUp] | type[AskUser]] = {
    "give_up": GiveUp,
    "ask_user": AskUser,
}


def load_policy(source: str | Path) -> Policy:
    """The policy that `source` names: a file, or else a preset.

    Raises:
        PolicyError: There is neither, it can't be read, or a setting is wrong: the
            message has the file, the key, its value and what is allowed.
    """
    path = Path(source)
    if isinstance(source, str) and not path.exists():
        if source in PRESETS:
            return Policy.preset(source)
        _refuse(f"{source!r} is neither a file nor a preset", source, PRESETS)
    try:
        return _policy(_read(path))
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def _read(path: Path) -> Table:
    name, parse = _FORMATS.get(path.suffix, (None, None))
    if name is None or parse is None:
        raise PolicyError("a policy's name ends in .toml, .yaml, .yml or .json")
    try:
        data = parse(path.read_text("utf-8"))
    except OSError as error:
        raise PolicyError(f"can't be read: {error.strerror}") from None
    except ValueError as error:
        raise PolicyError(f"is no {name}: {error}") from None
    if path.name != "pyproject.toml":
        return _table(data, "")
    table = _table(data.get("tool", {}), "tool").get("loopguard")
    if table is None:
        raise PolicyError("has no [tool.loopguard]")
    return _table(table, "tool.loopguard")


def _parse_yaml(text: str) -> Any:
    import yaml  # comes with langchain-core

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_FORMATS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "": ("TOML", tomllib.loads),
    ".toml": ("TOML", tomllib.loads),
    ".yaml": ("YAML", _parse_yaml),
    ".yml": ("YAML", _parse_yaml),
    ".json": ("JSON", json.loads),
}


def _policy(table: Table) -> Policy:
    settings = dict(table)
    preset = settings.pop("preset", None)
    if preset not in (None, *PRESETS):
        _refuse(f"preset={preset!r} is no preset", preset, PRESETS)
    base = Policy() if preset is None else Policy.preset(preset)
    if "progress" in settings:
        raise PolicyError("progress: functions can only be given in Python")
    readers = {name: _READERS.get(name) for name in _names(Policy)}
    _refuse_unknown(settings, "", ["preset", *readers])
    hints = get_type_hints(Policy)
    changes = {}
    for name, value in settings.items():
        reader = readers[name]
        changes[name] = (
            reader(value, base) if reader else _value(hints[name], value, name)
        )
    return base.replace(**changes)


def _budget(value: Any, base: Policy) -> tuple[Budget, ...]:
    many = value if isinstance(value, list) else [value]
    return tuple(_make(Budget, table, "budget") for table in many)


def _detectors(value: Any, base: Policy) -> tuple[Any, ...]:
    known = {spec.kind: spec for spec in DEFAULTS}
    specs: dict[str, Any] = {spec.kind: spec for spec in base.detectors}
    table = _table(value, "detectors")
    _refuse_unknown(table, "detectors.", [*known])
    for kind in table:
        where = f"detectors.{kind}"
        settings = dict(_table(table[kind], where))
        enabled = _value(bool, settings.pop("enabled", True), f"{where}.enabled")
        spec = specs.pop(kind, known[kind])
        changed = _changed(spec, settings, where, "enabled")
        if enabled:
            specs[kind] = changed
    return tuple(specs.values())


def _ladder(value: Any, base: Policy) -> Ladder:
    table = _table(value, "ladder")
    _refuse_unknown(table, "ladder.", [*_RUNGS, "exit", "most"])
    rungs = list(base.ladder.rungs)
    for name, kind in _RUNGS.items():
        if name in table:
            rungs = _with_rung(rungs, kind, table[name], f"ladder.{name}")
    end = table.get("exit")
    if end is not None:
        if end not in (*_EXITS,):
            _refuse(f"ladder.exit={end!r} is no exit", end, _EXITS)
        rungs[-1] = _EXITS[end]()
    most = table.get("most", base.ladder.most)
    return _named(lambda: Ladder(*rungs, most=most), "ladder")


def _with_rung(
    rungs: list[Rung], kind: type[Reflect] | type[Escalate], value: Any, where: str
) -> list[Rung]:
    """The rungs with these settings for those of one kind, or without them."""
    if value is False:
        return [rung for rung in rungs if not isinstance(rung, kind)]
    return [
        _changed(rung, value, where) if isinstance(rung, kind) else rung
        for rung in rungs
    ]


def _tools(value: Any, base: Policy) -> dict[str, ToolPolicy]:
    return {**base.tools, **_each(ToolPolicy, value, "tools")}


def _prices(value: Any, base: Policy) -> dict[str, Price]:
    return {**base.prices, **_each(Price, value, "prices")}


_READERS: dict[str, Callable[[Any, Policy], Any]] = {
    "budget": _budget,
    "detectors": _detectors,
    "ladder": _ladder,
    "tools": _tools,
    "prices": _prices,
}
"""What has to be made of tables; other settings are taken as they are."""


def _each(kind: type[T], value: Any, where: str) -> dict[str, T]:
    table = _table(value, where)
    return {name: _make(kind, table[name], f"{where}.{name}") for name in table}


def _make(kind: type[T], table: Any, where: str) -> T:
    settings = _settings(kind, table, where)
    missing = [f"{where}.{name}" for name in _required(kind) if name not in settings]
    if missing:
        raise PolicyError(f"{' and '.join(missing)}: has to be given")
    return _named(lambda: kind(**settings), where)


def _changed(spec: Any, table: Any, where: str, *more: str) -> Any:
    settings = _settings(type(spec), table, where, *more)
    return _named(lambda: replace(spec, **settings), where)


def _named(make: Callable[[], T], where: str) -> T:
    """What is made; an error of it names the table, where it does not already."""
    try:
        return make()
    except PolicyError as error:
        text = str(error)
        raise PolicyError(text if where in text else f"{where}: {text}") from None


def _settings(kind: type, table: Any, where: str, *more: str) -> dict[str, Any]:
    """A table as arguments of a dataclass, whose fields are what is allowed."""
    _refuse_unknown(_table(table, where), f"{where}.", [*_names(kind), *more])
    hints = get_type_hints(kind)
    return {n: _value(hints[n], value, f"{where}.{n}") for n, value in table.items()}


def _names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind) if field.init]


def _required(kind: Any) -> list[str]:
    return [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING and field.init
    ]


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value of the type that the dataclass declares; integers are numbers, too."""
    from pydantic import TypeAdapter, ValidationError

    given = tuple(value) if isinstance(value, list) else value
    try:
        return TypeAdapter(hint).validate_python(given, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([where, *(str(part) for part in first["loc"])])
        problem = first["msg"].replace("Input should", "it should")
        raise PolicyError(f"{key}={first['input']!r}: {problem}") from None


def _table(value: Any, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{where}={value!r}: give a table of settings")
    return value


def _refuse_unknown(table: Table, where: str, allowed: list[str]) -> None:
    for key, value in table.items():
        if key not in allowed:
            _refuse(f"{where}{key}={value!r} is no setting", key, allowed)


def _refuse(problem: str, name: Any, allowed: Iterable[str]) -> NoReturn:
    known = list(allowed)
    near = get_close_matches(str(name), known, 1)
    hint = f", did you mean {near[0]}?" if near else "."
    raise PolicyError(f"{problem}{hint} There are {', '.join(known)}")
