"""A policy from a TOML, YAML or JSON file.

```toml
preset = "coding"                    # or nothing: the defaults
stronger_model = "openai:gpt-5.5"
ladder = ["reflect", { rung = "escalate", turns = 3 }, "ask_user"]

[budget]                             # several: [[budget]]
steps = 60

[detectors]
churn = false                        # switched off
repeat = { times = 4, window = 12 }  # the rest as it is

[tools.check_ci]
role = "poll"
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.detectors import Detector
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Role
from loopguard_lg.tools import ToolPolicy

T = TypeVar("T")

_ROLES = get_args(Role)

_RUNGS: dict[str, type[Any]] = {
    "reflect": Reflect,
    "escalate": Escalate,
    "ask_user": AskUser,
    "give_up": GiveUp,
}


def load_policy(path: str | Path) -> Policy:
    """The policy that a file describes.

    Raises:
        PolicyError: It can't be read, or a setting is wrong; the message begins with
            the file.
        OSError: There is no such file.
    """
    path = Path(path)
    try:
        return from_settings(_parse(path))
    except (ValueError, TypeError) as error:
        raise PolicyError(f"{path}: {error}") from None


def from_settings(settings: Mapping[str, Any]) -> Policy:
    """The policy that plain data describes, with the keys of a file.

    Raises:
        PolicyError: A setting is wrong.
        TypeError: A setting is of a type that nothing can be made of.
    """
    changes = dict(_table(settings, "a policy"))
    model = changes.pop("stronger_model", None)
    base = Policy()
    if "preset" in changes:
        base = Policy.preset(changes.pop("preset"), stronger_model=model)
    elif model is not None:
        changes.setdefault("ladder", ["reflect", "escalate", "give_up"])
    if "progress" in changes:
        raise PolicyError("progress: functions can only be given in Python")
    for key in changes.keys() & _READERS.keys():
        changes[key] = _READERS[key](changes[key], base, model)
    return base.replace(**changes)


def _parse(path: Path) -> Any:
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if path.suffix in (".yaml", ".yml"):
        return _parse_yaml(text)
    if path.suffix == ".json":
        import json

        return json.loads(text)
    raise PolicyError("a policy's name ends in .toml, .yaml, .yml or .json")


def _parse_yaml(text: str) -> Any:
    import yaml  # comes with langchain-core

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(" ".join(str(error).split())) from None


def _budget(value: Any, base: Policy, model: Any) -> Any:
    many = value if isinstance(value, list) else [value]
    return tuple(_make(Budget, table, "budget") for table in many)


def _detectors(value: Any, base: Policy, model: Any) -> tuple[Detector, ...]:
    specs: dict[str, Any] = {spec.kind: spec for spec in base.detectors}
    for kind, table in _table(value, "detectors").items():
        if kind not in specs:
            raise PolicyError(f"detectors.{kind}: there are {', '.join(specs)}")
        if table is False:
            del specs[kind]
        else:
            known = _checked(specs[kind], table, f"detectors.{kind}")
            specs[kind] = replace(specs[kind], **known)
    return tuple(specs.values())


def _ladder(value: Any, base: Policy, model: Any) -> Ladder:
    if not isinstance(value, list):
        raise PolicyError("ladder: give a list of rungs")
    return Ladder(*(_rung(item, model) for item in value))


def _rung(item: Any, model: Any) -> Any:
    table = dict(_table({"rung": item} if isinstance(item, str) else item, "ladder"))
    name = table.pop("rung", None)
    if name not in _RUNGS:
        raise PolicyError(f"ladder: {name!r} is no rung: there are {', '.join(_RUNGS)}")
    if name == "escalate":
        table.setdefault("model", model)
    return _make(_RUNGS[name], table, f"ladder.{name}")


def _tools(value: Any, base: Policy, model: Any) -> dict[str, ToolPolicy]:
    tools = _each(ToolPolicy, value, "tools")
    for name, tool in tools.items():
        if tool.role not in (None, *_ROLES):
            known = ", ".join(_ROLES)
            raise PolicyError(f"tools.{name}.role={tool.role!r}: there are {known}")
    return tools


def _prices(value: Any, base: Policy, model: Any) -> dict[str, Price]:
    return _each(Price, value, "prices")


_READERS: dict[str, Callable[[Any, Policy, Any], Any]] = {
    "budget": _budget,
    "detectors": _detectors,
    "ladder": _ladder,
    "tools": _tools,
    "prices": _prices,
}


def _each(kind: type[T], value: Any, where: str) -> dict[str, T]:
    tables = _table(value, where)
    return {name: _make(kind, tables[name], f"{where}.{name}") for name in tables}


def _make(kind: type[T], table: Any, where: str) -> T:
    return kind(**_checked(kind, table, where))


def _checked(spec: Any, table: Any, where: str) -> dict[str, Any]:
    """The settings of one part, after a look at their names."""
    known = [field.name for field in fields(spec)]
    for key in _table(table, where):
        if key not in known:
            raise PolicyError(f"{where}.{key}: there are {', '.join(known)}")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{where}: give a table of settings, not {value!r}")
    return value
