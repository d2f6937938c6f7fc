"""Settings from a file and the environment, with a section for one agent.

The model answers from a script, so that it runs without a key or a network:

    python examples/11_policy_file.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from loopguard_lg import Policy
from loopguard_lg.errors import PolicyError

FILE = """\
preset = "coding"

[detectors]
churn = { steps = 9, shadow = true }

[budget]
steps = 80

[tools.check_ci]
role = "poll"
wait = 30

[agents.researcher.budget]
tool_calls = 200
"""


def show(policy: Policy) -> None:
    """Print what a policy says of the files' settings."""
    (churn,) = (spec for spec in policy.detectors if spec.kind == "churn")
    (budget, *_) = policy.budgets
    print(f"{churn}, {budget.steps} steps, {budget.tool_calls} tool calls")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "loopguard.toml")
        path.write_text(FILE)
        show(Policy.load(path, env={}))
        show(Policy.load(path, env={}, agent="researcher"))
        show(Policy.load(path, env={"LOOPGUARD_BUDGET__STEPS": "20"}))
        path.write_text(FILE.replace("steps = 80", "stepps = 80"))
        try:
            Policy.load(path, env={})
        except PolicyError as error:
            print(str(error).replace(folder, "..."))
