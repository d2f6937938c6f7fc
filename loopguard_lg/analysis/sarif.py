"""Problems of tools in the format that code hosts show beside the code.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopguard_lg.analysis.toollint import RULES, Problem

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""What the file says that it follows."""

_IDS = list(RULES)


def sarif(problems: Iterable[Problem], version: str) -> dict[str, Any]:
    """A SARIF log of problems; `version`: of this package."""
    driver = {
        "name": "loopguard lint-tools",
        "semanticVersion": version,
        "rules": [_rule(name) for name in _IDS],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem) for problem in problems],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in name.split("-")),
        "shortDescription": {"text": rule.text},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    }


def _result(problem: Problem) -> dict[str, Any]:
    return {
        "ruleId": problem.rule,
        "ruleIndex": _IDS.index(problem.rule),
        "level": problem.level,
        "message": {"text": message(problem)},
        "locations": [_location(problem)] if problem.tools else [],
        "partialFingerprints": {
            "tools/v1": f"{problem.rule}:{','.join(sorted(problem.tools))}"
        },
        "properties": {
            "calls": problem.calls,
            "runs": problem.runs,
            "loops": problem.loops,
            "evidence": [each._asdict() for each in problem.evidence],
        },
    }


def _location(problem: Problem) -> dict[str, Any]:
    names = [{"name": name, "kind": "function"} for name in problem.tools]
    found: dict[str, Any] = {"logicalLocations": names}
    if problem.where and problem.where.file:
        found["physicalLocation"] = {
            "artifactLocation": {"uri": problem.where.file},
            "region": {"startLine": problem.where.line},
        }
    return found


def message(problem: Problem) -> str:
    """What is wrong, in one line, with what helps."""
    who = " and ".join(f"`{name}`" for name in problem.tools)
    seen = f" (in {problem.runs} runs, {problem.loops} of them go in circles)"
    text = f"{who} {problem.text}".strip() + (seen if problem.runs else "")
    return f"{text[0].upper()}{text[1:]}. {RULES[problem.rule].help}"
