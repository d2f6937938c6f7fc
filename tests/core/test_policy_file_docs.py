"""Every policy of the docs, and any other, is the same from a file as from Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

import loopguard_lg
from loopguard_lg import (
    AskUser,
    Budget,
    Escalate,
    GiveUp,
    Ladder,
    Policy,
    Reflect,
    detectors as kinds,
)
from loopguard_lg.budgets import Price
from loopguard_lg.detectors import DEFAULTS, Churn, NearRepeat, Repeat
from loopguard_lg.errors import PolicyError
from loopguard_lg.policy_file import PREFIX
from loopguard_lg.policy_places import DEFAULT
from loopguard_lg.policy_schema import policy_schema
from loopguard_lg.policy_settings import Settings, _tree
from loopguard_lg.steps import Turn
from loopguard_lg.tools import ToolPolicy
from tests.docs_pages import PAGES, ROOT, blocks, blocks_of, text

PAGE = text("docs/policy-file.md")
NAMES = {
    **{name: getattr(loopguard_lg, name) for name in loopguard_lg.__all__},
    **{name: getattr(kinds, name) for name in kinds.__all__},
    "strong": "openai:gpt-5.5",
}
LOADED = "Policy.load("


def python() -> Iterator[str]:
    """All Python of the README, the docs and the examples."""
    for page in PAGES:
        yield from blocks(page, "python")
    for example in sorted(ROOT.glob("examples/*.py")):
        yield example.read_text("utf-8")


def policies() -> Iterator[str]:
    """The expressions in it that make a policy, apart from those of files."""
    for code in python():
        for node in ast.walk(ast.parse(code)):
            text = ast.unparse(node) if isinstance(node, ast.Call) else ""
            made = re.match(r"Policy\(|Policy\.preset\(|Policy\(.*\)\.replace\(", text)
            if made and LOADED not in text:
                yield text


def settings_of(policy: Policy) -> dict[str, Any]:
    """A policy as plain data that a file can hold, and that makes an equal policy."""
    return Settings(_tree(policy, DEFAULT)).plain()


def for_files(text: str) -> bool:
    """Whether a file can say it: it has no functions and no models of a script."""
    try:
        settings_of(eval(text, dict(NAMES)))
    except NameError:
        return False
    except PolicyError as error:
        if "can only be given in Python" not in str(error):
            raise
        return False
    return True


EXAMPLES = sorted(filter(for_files, {*policies()}))


def toml(data: dict[str, Any]) -> str:
    """Plain data as TOML, which has no null."""
    return "\n".join(f"{key} = {_inline(value)}" for key, value in data.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        items = ((json.dumps(k), v) for k, v in value.items() if v is not None)
        return "{" + ", ".join(f"{k} = {_inline(v)}" for k, v in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def variables(data: dict[str, Any], name: str = PREFIX) -> dict[str, str]:
    """Plain data as environment variables, as many as can be."""
    found: dict[str, str] = {}
    for key, value in data.items():
        at = f"{name}{key if name.count('__') == 1 else key.upper()}"
        deeper = isinstance(value, dict) and value
        more = variables(value, f"{at}__") if deeper else {at: json.dumps(value)}
        found.update(more)
    return found


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "toml": toml,
    "yaml": yaml.safe_dump,
    "json": json.dumps,
}


def loaded(data: dict[str, Any], folder: Path) -> list[Policy]:
    """The policy of plain data, in every format and from the environment."""
    found = []
    for suffix, write in FORMATS.items():
        path = folder / f"policy.{suffix}"
        path.write_text(write(data), "utf-8")
        found.append(Policy.load(path, env={}))
    return [*found, Policy.load("coding", env=variables(data))]


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_policy_of_the_docs_can_be_loaded(code: str, tmp_path: Path) -> None:
    """From TOML, YAML, JSON and the environment, to an equal object."""
    policy = eval(code, dict(NAMES))  # the docs' own code

    for other in loaded(settings_of(policy), tmp_path):
        assert other == policy


def test_the_docs_have_policies() -> None:
    """The search for them finds those of the README."""
    assert any("Policy.preset('coding'" in code for code in EXAMPLES)
    assert len(EXAMPLES) >= 5


def test_the_same_in_four_ways_is_the_same(tmp_path: Path) -> None:
    """As the page writes them by hand."""
    part = PAGE.partition("## The same in four ways")[2]
    scope = dict(NAMES)
    exec(blocks_of(part, "python")[0], scope)
    lines = blocks_of(part, "sh")[0].splitlines()
    env = {k: v.strip("'") for k, _, v in (line.partition("=") for line in lines)}

    for suffix in ("toml", "yaml"):
        path = tmp_path / f"policy.{suffix}"
        path.write_text(blocks_of(part, suffix)[0])
        assert Policy.load(path, env={}) == scope["policy"]
    assert Policy.load("coding", env=env) == scope["policy"]


def test_the_changed_preset_of_the_page_loads(tmp_path: Path) -> None:
    """Every line of it does what its comment says."""
    part = PAGE.partition("## Changing a preset")[2]
    path = tmp_path / "loopguard.toml"
    path.write_text(blocks_of(part, "toml")[0])

    policy = Policy.load(path, env={}, agent="researcher")

    found = {spec.kind: spec for spec in policy.detectors}
    assert "bloat" not in found
    assert found["churn"] == Churn(steps=9, shadow=True)
    assert policy.budgets == (Budget(steps=200, seconds=3600.0, usd=2.0),)
    escalate = Escalate(model="openai:gpt-5.5", turns=3)
    assert policy.ladder == Ladder(Reflect(tokens=300), escalate, AskUser(), most=5)
    assert policy.prices == {"my-model": Price(input=0.5, output=1.5)}
    assert Policy.load(path, env={}, graph="triage").budgets[0].steps == 20


def keys(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each key of a schema with its own schema; tables by their first form."""
    for name, sub in schema["properties"].items():
        table = next(iter(sub.get("anyOf", [sub])))
        more = table.get("additionalProperties")
        if "properties" in table:
            yield from keys(table, f"{prefix}{name}.")
        elif isinstance(more, dict) and "properties" in more:
            yield from keys(more, f"{prefix}{name}.NAME.")
        else:
            yield f"{prefix}{name}", sub


def rows() -> Iterator[str]:
    """How the rows of the page's table begin: key and default."""
    for key, sub in keys(policy_schema()):
        name = f"{key}.NAME" if key in ("graphs", "agents") else key
        default = f"`{json.dumps(sub['default'])}`" if "default" in sub else ""
        if key != "$schema":
            yield f"| `{name}` | {default} |"


def test_the_page_has_every_key_with_its_default() -> None:
    """The keys of the table and their defaults are those of the code."""
    shown = PAGE.partition("## Every key")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `[^|]*\|[^|]*\|", shown, re.MULTILINE) == [*rows()]


def test_the_defaults_of_the_schema_are_the_defaults(tmp_path: Path) -> None:
    """A file of all defaults that editors show changes nothing."""
    data: dict[str, Any] = {}
    for key, sub in keys(policy_schema()):
        *parents, last = key.split(".")
        if "default" in sub and "NAME" not in parents and sub["default"] is not None:
            at = data
            for parent in parents:
                at = at.setdefault(parent, {})
            at[last] = sub["default"]

    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    assert Policy.load(path, env={}) == Policy()
    assert {*data["detectors"]} == {spec.kind for spec in DEFAULTS}


def amounts(most: float | None = None) -> st.SearchStrategy[Any]:
    """A limit, or none."""
    whole = st.none() | st.integers(1, 10**9)
    return whole if most is None else whole | st.floats(0.001, most)


BUDGETS = st.builds(
    Budget,
    steps=amounts(),
    seconds=amounts(1e6),
    usd=amounts(1e6),
    per_tool=st.dictionaries(st.sampled_from(["search", "my-tool"]), st.integers(1, 9)),
    scope=st.sampled_from(["run", "thread"]),
    warn=st.floats(0.01, 1),
)
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=9)
RUNGS = st.lists(
    st.builds(
        Reflect,
        tokens=st.integers(1, 999),
        temperature=st.none() | st.floats(0, 2),
        samples=st.integers(1, 5),
        hide_tool=st.booleans(),
    )
    | st.builds(
        Escalate,
        model=st.none() | TEXT,
        turns=st.integers(1, 9),
        reading_only=st.integers(0, 3),
        lift_tool_choice=st.booleans(),
    ),
    max_size=3,
)
SPECS = st.lists(
    st.builds(Repeat, times=st.integers(2, 5), window=st.integers(5, 99))
    | st.builds(NearRepeat, shadow=st.booleans())
    | st.builds(Churn, steps=st.integers(3, 9)),
    unique_by=lambda spec: spec.kind,
)
POLICIES = st.builds(
    lambda rungs, end, **settings: Policy(ladder=Ladder(*rungs, end), **settings),
    rungs=RUNGS,
    end=st.sampled_from([GiveUp(), AskUser()]),
    detectors=SPECS,
    budget=BUDGETS,
    tools=st.dictionaries(
        st.sampled_from(["search", "check-ci"]),
        st.builds(
            ToolPolicy,
            volatile=st.lists(TEXT, max_size=2).map(tuple),
            retry=st.none() | st.booleans(),
            wait=st.none() | st.floats(0, 99),
            stop=st.none() | st.integers(1, 99),
            slow=st.booleans(),
        ),
    ),
    prices=st.dictionaries(
        st.sampled_from(["gpt", "my-model"]),
        st.builds(Price, input=st.floats(0, 99), output=st.floats(0, 99)),
    ),
    observe_only=st.booleans(),
    acts_off=st.lists(st.sampled_from(["poll", "cache", "decoding"]), unique=True),
)


@given(policy=POLICIES)
def test_any_policy_is_the_same_from_a_file(
    policy: Policy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """TOML, YAML, JSON and the environment hold what Python does."""
    folder = tmp_path_factory.getbasetemp()

    for other in loaded(settings_of(policy), folder):
        assert other == policy


def signal(turn: Turn) -> bool:
    """A signal of progress."""
    return True


class Own(Churn):
    """A detector of an app's own."""


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Policy(progress=[signal]), r"^progress=\(<function signal"),
        (Policy(detectors=[Own()]), r"^detectors\.churn=Own\("),
        (
            Policy.preset("coding", stronger_model=type("M", (), {"invoke": 1})()),
            r"^ladder\.model=<",
        ),
    ],
)
def test_what_only_python_can_say_is_refused(policy: Policy, problem: str) -> None:
    """Functions, models and detectors of one's own have no form in a file."""
    with pytest.raises(PolicyError, match=f"{problem}.*: can only be given in Python"):
        settings_of(policy)
