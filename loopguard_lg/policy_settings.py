"""Which value of each setting holds, where it came from, and the policy they make.

Pure: `policy_file` reads the layers, in rising precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from functools import reduce
from typing import Any, TypeVar

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import Ladder
from loopguard_lg.policy import PRESETS, Policy
from loopguard_lg.policy_layers import LADDER, PARTS, Layer, defaults, lay_over, off
from loopguard_lg.policy_places import DEFAULT, Part, Setting, Tree
from loopguard_lg.policy_schema import DETECTORS, RUNGS, keys_of
from loopguard_lg.tools import ToolPolicy

T = TypeVar("T")

_PLAIN = (str, int, float, tuple, Mapping, type(None))


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its origin, as a tree (see `policy_layers`)."""

    tree: Tree

    def rows(self) -> Iterator[tuple[str, Setting]]:
        """Each setting with its dotted key."""
        tree = {name: self.tree[name] for name in keys_of(Policy) if name in self.tree}
        if len(tree["budget"]) == 1:
            (tree["budget"],) = tree["budget"]
        return _rows(tree)

    def plain(self) -> dict[str, Any]:
        """The settings as plain data that a file can hold, whatever the defaults."""
        tree = self.tree
        detectors = [
            {"kind": kind, **_plain({n: s for n, s in part.items() if n != "enabled"})}
            for kind, part in tree["detectors"].items()
            if part["enabled"].value
        ]
        return {**_plain(tree), "detectors": detectors}

    def policy(self) -> Policy:
        """The policy that they make.

        Raises:
            PolicyError: Values that do not go together, with where they come from.
        """
        tree = self.tree
        budgets = [_made(Budget, part, "budget") for part in tree["budget"]]
        made: dict[str, Any] = {
            "detectors": [
                _made(DETECTORS[kind], part, f"detectors.{kind}")
                for kind, part in tree["detectors"].items()
                if part["enabled"].value
            ],
            "ladder": _ladder(tree["ladder"]),
            "budget": budgets[0] if len(budgets) == 1 else budgets,
            "tools": _made_each(ToolPolicy, tree, "tools"),
            "prices": _made_each(Price, tree, "prices"),
        }
        single: dict[str, Any] = {
            name: s.value for name, s in tree.items() if name not in PARTS
        }
        with _explained("", _rows(tree)):
            return Policy(**single, **made)


def resolve(layers: Sequence[Layer]) -> Settings:
    """The settings that hold: those of the last layer that has them.

    The last `preset` is the base of them all.

    Raises:
        PolicyError: A key that there is not, or a value of a wrong type.
    """
    base = _tree(Policy(), DEFAULT)
    for layer in layers:
        if "preset" in layer.table:
            base = _preset(layer.table["preset"], layer)
    return Settings(reduce(lay_over, layers, base))


def _preset(name: Any, layer: Layer) -> Tree:
    if name not in PRESETS:
        at = layer.at / "preset"
        raise at.unknown(f"={name!r} is no preset", name, PRESETS)
    return _tree(Policy.preset(name), f"preset {name}")


def _tree(policy: Policy, origin: str) -> Tree:
    """A policy's settings; those that are not the defaults have this origin."""
    own = {spec.kind: _detector(spec, origin) for spec in policy.detectors}
    rest = {k: off(defaults(c), origin) for k, c in DETECTORS.items() if k not in own}
    return {
        **_part(policy, "", origin),
        "detectors": {**own, **rest},
        "ladder": _ladder_tree(policy.ladder, origin),
        "budget": [_part(budget, "budget.", origin) for budget in policy.budgets],
        "tools": {n: _part(p, f"tools.{n}.", origin) for n, p in policy.tools.items()},
        "prices": {
            n: _part(p, f"prices.{n}.", origin) for n, p in policy.prices.items()
        },
    }


def _detector(spec: Any, origin: str) -> Part:
    if type(spec) is not DETECTORS.get(spec.kind):
        raise PolicyError(f"detectors.{spec.kind}={spec!r}: {_IN_PYTHON}")
    return {"enabled": Setting(True), **_part(spec, f"detectors.{spec.kind}.", origin)}


def _ladder_tree(ladder: Ladder, origin: str) -> Tree:
    origin = DEFAULT if ladder == Policy().ladder else origin
    names = {kind: name for name, kind in RUNGS.items()}
    rungs = [
        {"rung": Setting(names[type(rung)], origin), **_part(rung, "ladder.", origin)}
        for rung in ladder.rungs
    ]
    return {"rungs": rungs, **{n: Setting(getattr(ladder, n)) for n in LADDER}}


_IN_PYTHON = "can only be given in Python"


def _part(spec: Any, where: str, origin: str) -> Part:
    """The settings of an object that are single values."""
    part = {}
    for name, key in keys_of(type(spec)).items():
        value = getattr(spec, name)
        plain = key.schema is not None and isinstance(value, _PLAIN)
        if plain:
            part[name] = Setting(value, DEFAULT if value == key.default else origin)
        elif value != key.default and name not in PARTS:
            raise PolicyError(f"{where}{name}={value!r}: {_IN_PYTHON}")
    return part


def _plain(node: Any) -> Any:
    """A node of a tree without the origins."""
    if isinstance(node, Setting):
        return list(node.value) if isinstance(node.value, tuple) else node.value
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return {name: _plain(item) for name, item in node.items()}


def _rows(node: Any, key: str = "") -> Iterator[tuple[str, Setting]]:
    if isinstance(node, Setting):
        yield key, node
        return
    items = enumerate(node) if isinstance(node, list) else node.items()
    for name, item in items:
        yield from _rows(item, f"{key}.{name}" if key else str(name))


def _ladder(tree: Tree) -> Ladder:
    names = [part["rung"].value for part in tree["rungs"]]
    rungs = [
        _made(RUNGS[name], part, f"ladder.{name}")
        for name, part in zip(names, tree["rungs"], strict=True)
    ]
    with _explained("ladder", _rows(tree)):
        return Ladder(*rungs, **{name: tree[name].value for name in LADDER})


def _made_each(kind: type[T], tree: Tree, group: str) -> dict[str, T]:
    parts = tree[group].items()
    return {name: _made(kind, part, f"{group}.{name}") for name, part in parts}


def _made(kind: type[T], part: Part, where: str) -> T:
    """The object of a part."""
    given = {name: part[name].value for name in keys_of(kind) if name in part}
    with _explained(where, part.items()):
        for name, key in keys_of(kind).items():
            if key.default is MISSING and name not in part:
                raise PolicyError(f"{where}.{name}: has to be given")
        return kind(**given)


@contextmanager
def _explained(where: str, settings: Iterable[tuple[str, Setting]]) -> Iterator[None]:
    """Errors name the key, and the places of the settings that they speak of."""
    try:
        yield
    except PolicyError as error:
        text = str(error) if where in str(error) else f"{where}: {error}"
        set_ = [(k, s.origin) for k, s in settings if s.origin != DEFAULT]
        words = set(re.findall(r"\w+", text))
        named = [origin for key, origin in set_ if key.rpartition(".")[2] in words]
        places = dict.fromkeys(named or (origin for _, origin in set_))
        raise PolicyError(": ".join([", ".join(places), text])) from None
