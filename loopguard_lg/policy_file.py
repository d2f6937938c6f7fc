"""Where a policy's settings are read from: files and environment variables.

The way in is `Policy.load`. docs/policy-file.md has all keys.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import Escalate, Ladder
from loopguard_lg.policy import PRESETS, Policy
from loopguard_lg.policy_layers import Layer, as_table, section_names, select
from loopguard_lg.policy_places import At
from loopguard_lg.policy_settings import Settings, resolve

PREFIX = "LOOPGUARD_"
"""How the names of environment variables begin."""

FILES = ("loopguard.toml", "pyproject.toml")
"""What is looked for in the current folder if no file is named."""

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def load_policy(
    source: str | Path | None,
    *,
    env: Mapping[str, str],
    graph: str | None = None,
    agent: str | None = None,
    stronger_model: Any = None,
    **settings: Any,
) -> Policy:
    """What `Policy.load` gives."""
    policy = read_settings(source, env=env, graph=graph, agent=agent).policy()
    if stronger_model is not None:
        if "ladder" in settings:
            raise PolicyError(
                f"stronger_model={stronger_model!r}: a ladder is given, too; name the "
                "model in its Escalate(model=...)"
            )
        settings["ladder"] = _with_model(policy.ladder, stronger_model)
    return policy.replace(**settings)


def _with_model(ladder: Ladder, model: Any) -> Ladder:
    rungs = [
        replace(rung, model=model) if isinstance(rung, Escalate) else rung
        for rung in ladder.rungs
    ]
    return Ladder(*rungs, most=ladder.most, block_ignored=ladder.block_ignored)


def read_settings(
    source: str | Path | None,
    *,
    env: Mapping[str, str],
    graph: str | None = None,
    agent: str | None = None,
) -> Settings:
    """The settings of a source and the environment, with where each came from.

    Sections for other graphs and agents are checked as well.

    Raises:
        PolicyError: As `Policy.load`.
    """
    groups = [list(_source_layers(source)), list(env_layers(env))]

    def settings(**names: str | None) -> Settings:
        return resolve([layer for group in groups for layer in select(group, **names)])

    for name in section_names(layer for group in groups for layer in group):
        settings(**name).policy()
    return settings(graph=graph, agent=agent)


def env_layers(env: Mapping[str, str]) -> Iterator[Layer]:
    """One layer for each variable: `LOOPGUARD_BUDGET__STEPS` is `budget.steps`.

    An empty one counts as not set.
    """
    for name in sorted(env):
        if name.startswith(PREFIX) and env[name]:
            value = _env_value(env[name])
            for part in reversed(name.removeprefix(PREFIX).split("__")):
                value = {part.lower() if part.isupper() else part: value}
            yield Layer(At(name), value)


def _env_value(text: str) -> Any:
    """A number, truth value, list or table of JSON; what is none of these is text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _source_layers(source: str | Path | None) -> Iterator[Layer]:
    if source is None:
        yield from _found()
    elif isinstance(source, Path) or Path(source).exists():
        yield _file(Path(source))
    elif source in PRESETS:
        yield Layer(At("preset"), {"preset": source})
    else:
        problem = f"{source!r} is neither a file nor a preset"
        raise At("").unknown(problem, source, PRESETS)


def _found() -> Iterator[Layer]:
    """The first file of the current folder that has settings."""
    for name in FILES:
        path = Path(name)
        if path.exists() and (name != "pyproject.toml" or _tool(_parsed(path))):
            yield _file(path)
            return


def _file(path: Path) -> Layer:
    data, place = _parsed(path), str(path)
    if path.name == "pyproject.toml":
        place = f"{path} [tool.loopguard]"
        data = _tool(data)
        if data is None:
            raise PolicyError(f"{path}: has no [tool.loopguard]")
    table = as_table(data, At(place))
    return Layer(At(place), {k: v for k, v in table.items() if k != "$schema"})


def _tool(data: Any) -> Any:
    tools = data.get("tool", {})
    return tools.get("loopguard") if isinstance(tools, Mapping) else None


def _parsed(path: Path) -> Any:
    if path.suffix not in _FORMATS:
        raise PolicyError(
            f"{path}: a policy's name ends in .toml, .yaml, .yml or .json"
        )
    name, parse = _FORMATS[path.suffix]
    try:
        return parse(path.read_text("utf-8"))
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from None
    except ValueError as error:
        raise PolicyError(f"{path}: is no {name}: {error}") from None


def _parse_yaml(text: str) -> Any:
    import yaml  # comes with langchain-core

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    return {} if data is None else data


_FORMATS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "": ("TOML", tomllib.loads),
    ".toml": ("TOML", tomllib.loads),
    ".yaml": ("YAML", _parse_yaml),
    ".yml": ("YAML", _parse_yaml),
    ".json": ("JSON", json.loads),
}
