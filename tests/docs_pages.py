"""The pages, their blocks, and what each page takes as given.

A block in a language that can be run is run. One that needs what a test has not (a key,
a server, a terminal) begins with a line `# needs: ...`, which the reader sees as well.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

import loopguard_lg
from loopguard_lg import Policy
from loopguard_lg.testing import ledger_kit, store_kit
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.analysis.made import circles, works
from tests.graph.graphs import BY_NAME, agent_of, guarded, react
from tests.middleware.runs import THREAD, TOOLS, ask
from tests.shared_pad.onnx_model import write
from tests.workspace import coding

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
NEEDS = "# needs: "
TOP_LEVEL = {name: getattr(loopguard_lg, name) for name in loopguard_lg.__all__}

Names = dict[str, Any]


def text(page: str) -> str:
    """What a page says."""
    return (ROOT / page).read_text("utf-8")


def blocks_of(said: str, languages: str) -> list[str]:
    """The blocks of a text in some languages (`"py|python"`), in their order."""
    pattern = rf"^( *)```(?:{languages})\n(.*?)^\1```$"
    found = re.findall(pattern, said, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def blocks(page: str, languages: str) -> list[str]:
    """The blocks of a page in some languages."""
    return blocks_of(text(page), languages)


def runnable(page: str, languages: str) -> list[str]:
    """Those of them that need nothing."""
    return [block for block in blocks(page, languages) if not block.startswith(NEEDS)]


def marked(page: str) -> list[str]:
    """Those that need something."""
    found = blocks(page, "py|python|console|sh")
    return [block for block in found if block.startswith(NEEDS)]


def recordings(folder: Path) -> None:
    """The recordings and labels that pages speak of, under the names they give them."""
    (folder / "tests").mkdir()
    (folder / "my_tools.py").write_text("TOOLS = [print]\n")
    runs = [circles("RUN_ID", model="m"), circles("loop"), works("fine", model="m")]
    lines = "".join(json.dumps(run) + "\n" for run in runs)
    for name in ("runs", "watched", "base", "current"):
        (folder / f"{name}.jsonl").write_text(lines)
    label = {"id": "loop", "loop": True, "kind": "repeat", "onset_step": 2}
    for name in ("labels", "mine", "yours"):
        (folder / f"{name}.jsonl").write_text(json.dumps(label) + "\n")


def usual(folder: Path) -> Names:
    """What most pages take as given: models, tools, a graph, a folder."""
    model = ScriptedModel(default="done")
    builder = react(model)
    builder.add_node("agent_strong", agent_of(model))
    names = {"model": model, "strong": model, "tools": TOOLS, "builder": builder}
    # Dataclasses ask for the name of their module.
    return names | {"folder": folder, "__name__": "__main__"}


def _asked(folder: Path) -> Names:
    def reply(messages: Any) -> Any:
        return "found" if "archive" in str(messages) else call("search", query="x")

    return {"model": ScriptedModel(default=reply)}


def _several(folder: Path) -> Names:
    asks = call("transfer_to_bob", task="the tax of order 17", done_when="it is known")
    return _asked(folder) | {
        "lead_model": ScriptedModel(model_name="gpt-5"),
        "worker_model": ScriptedModel(),
        "alice_model": ScriptedModel(replies=[asks]),
        "bob_model": ScriptedModel(replies=["found"]),
    }


def _other_ways_in(folder: Path) -> Names:
    model = ScriptedModel(default="found")
    builder = react(model)
    builder.nodes.pop("tools")
    graph = guarded(react(model), checkpointer=InMemorySaver())
    graph.invoke(ask(), THREAD)
    names: Names = {"builder": builder, "graph": graph, "model": model}
    return names | {"chain": RunnableLambda(model.invoke), "by_name": BY_NAME}


def _files(folder: Path) -> Names:
    root = folder / "work"
    root.mkdir()
    coding.repository(root)
    return {
        "folder": root,
        "elsewhere": folder / "store",
        "tools": coding.tools(root),
    }


def _policies(folder: Path) -> Names:
    (folder / "loopguard.toml").write_text("preset = 'support'")
    (folder / "loopguard.yaml").write_text("agents: {researcher: {preset: research}}")
    return {**TOP_LEVEL, "strong": "openai:gpt-5.5", "tests_passing": lambda turn: True}


GIVEN: dict[str, Callable[[Path], Names]] = {
    "docs/asking.md": _asked,
    "docs/checkpointers.md": lambda folder: {"path": str(folder / "threads.db")},
    "docs/coding-agents.md": _files,
    "docs/multi-agent.md": _several,
    "docs/policy-file.md": _policies,
    "docs/shared-scratchpad.md": lambda folder: {
        "folder": write(folder, ["[UNK]", "port"])
    },
    "docs/surfaces.md": _other_ways_in,
    "docs/workspace.md": _files,
}
"""What a page takes as given beside the usual."""


def _readme(names: Names) -> None:
    assert Path("runs.jsonl").read_text().count("\n") == 4  # three were there
    kinds = [detector.kind for detector in Policy().detectors]
    assert [detector.kind for detector in names["policy"].detectors] == kinds


def _acts(names: Names) -> None:
    assert names["off"].advisors == ()
    assert names["policy"].tools["fetch"].retry is True


def _answered(names: Names) -> None:
    assert names["state"]["messages"][-1].text == "found"


def _checkpointers(names: Names) -> None:
    asked = {"configurable": {"langgraph_auth_user_id": "ann"}}
    assert names["fleet"].labels(asked, None) == {"user": "ann"}


def _fleet(names: Names) -> None:
    for check in ledger_kit.CHECKS:
        names["test_my_ledger"](check)
    assert names["fleet"].when_down == "closed"


def _guarded(names: Names) -> None:
    assert "loopguard_escalate" in names["graph"].nodes


def _metrics(names: Names) -> None:
    assert names["slow"].fetchall() == [("search", 10)]


def _loaded(names: Names) -> None:
    policy = Policy.preset("support", stronger_model=names["strong"])
    assert names["policy"] == policy.replace(progress=(names["tests_passing"],))


def _shared(names: Names) -> None:
    for check in store_kit.CHECKS:
        names["test_my_store"](check)
    assert inspect.iscoroutinefunction(names["test_my_store_on_an_event_loop"])
    assert names["shared"].relevance is names["relevance"]


def _ways_in(names: Names) -> None:
    assert names["agent"].invoke(ask()["messages"])[-1].text == "found"
    assert names["watch"].runs[-1].usage["model_calls"] == 1
    assert names["graph"].get_state(names["branch"]).next == ("agent",)


def _workspace(names: Names) -> None:
    assert asyncio.run(names["orchestrate"]()).act == "done"
    assert len(names["stores"](None, None)) == 2


CHECKS: dict[str, Callable[[Names], None]] = {
    "README.md": _readme,
    "docs/acts.md": _acts,
    "docs/asking.md": _answered,
    "docs/checkpointers.md": _checkpointers,
    "docs/fleet-budgets.md": _fleet,
    "docs/guard_graph.md": _guarded,
    "docs/metrics.md": _metrics,
    "docs/multi-agent.md": _answered,
    "docs/policy-file.md": _loaded,
    "docs/shared-scratchpad.md": _shared,
    "docs/surfaces.md": _ways_in,
    "docs/workspace.md": _workspace,
}
"""What has to hold once the code of a page has run, where that is not in the code."""


def ran(page: str, folder: Path) -> Names:
    """The names that a page's Python leaves, run block by block in a folder."""
    recordings(folder)
    names = usual(folder) | GIVEN.get(page, lambda _: {})(folder)
    for block in runnable(page, "py|python"):
        exec(compile(block, page, "exec"), names)
    return names
