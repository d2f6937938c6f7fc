"""What is found wrong with tools."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.sarif import sarif
from loopguard_lg.analysis.toollint import RULES, ToolSpec, lint
from loopguard_lg.analysis.tooluse import Uses, look, uses
from loopguard_lg.policy import Policy
from loopguard_lg.traces.model import from_dict

POLICY = Policy(budget=())
LEAVE = ToolSpec(name="give_up", description="Ends the run and says why.")


def tool(name: str, description: str = "", *arguments: str) -> ToolSpec:
    """A tool whose arguments have no descriptions of their own."""
    about = dict.fromkeys(arguments, "")
    return ToolSpec(name=name, description=description, arguments=about)


def found(*tools: ToolSpec, seen: Uses | None = None) -> list[tuple[Any, ...]]:
    """Rule and tools of each problem; a way to leave is there."""
    return [(p.rule, *p.tools) for p in lint([*tools, LEAVE], seen)]


def used(name: str, *results: Any, tool: str = "look_up", **call: Any) -> Uses:
    """How a tool was used in one run with these results."""
    steps = [
        {
            "i": i,
            "agent": "a",
            "calls": [{"tool": tool, "args": {"n": i}, "result": r, **call}],
        }
        for i, r in enumerate(results)
    ]
    return look(POLICY, from_dict({"id": name, "steps": steps}))


def test_a_good_set_of_tools_has_no_problem() -> None:
    """Distinct, described, with a way out."""
    search = tool("search_docs", "Finds pages of the manual by `words`.", "words")
    page = tool("open_page", "Returns one page, by `id`, as Markdown.", "id")

    assert found(search, page) == []


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (tool("search"), "no-description"),
        (tool("search_docs", "Search docs"), "thin-description"),
        (tool("search", "Finds pages of the manual.", "q"), "undescribed-argument"),
    ],
)
def test_a_poor_description_is_a_problem(spec: ToolSpec, rule: str) -> None:
    """None, one that says the name again, and one without the arguments."""
    assert found(spec) == [(rule, spec.name)]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("get_user", "fetch_users", True),
        ("searchDocs", "docs_lookup", True),
        ("search_v2", "search", True),
        ("read_file", "write_file", False),
        ("create", "insert", False),
        ("get_user", "get_order", False),
    ],
)
def test_names_that_mean_the_same_overlap(a: str, b: str, same: bool) -> None:
    """Word order, number, spelling, version and synonyms tell no tools apart."""
    names = [tool(a, "Is one thing that it does."), tool(b, "Has quite other uses.")]

    assert (("overlapping-names", a, b) in found(*names)) == same


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (
            "Search the web for pages about a topic.",
            "Look up pages on the web about some topic. ",
            False,
        ),
        (
            "Searches the web for pages about a topic.",
            "Search web pages about the topic.",
            True,
        ),
        (
            "Start the server process by name.",
            "Stop the server process by name.",
            False,
        ),
        ("Reads it.", "Reads it.", False),
    ],
)
def test_descriptions_that_say_the_same_overlap(a: str, b: str, same: bool) -> None:
    """The same act on mostly the same things; two words say too little."""
    problems = found(tool("alpha", a), tool("beta", b))

    assert (("overlapping-descriptions", "alpha", "beta") in problems) == same


def test_no_exit_is_a_problem_of_the_whole() -> None:
    """A run that can only go on goes on in circles; runs alone do not tell."""
    problems = lint([tool("search", "Finds pages of the manual.")])

    assert [(p.rule, p.tools) for p in problems] == [("no-exit", ())]
    assert lint([], used("a", "x")) == []


def test_errors_that_name_nothing_to_do_are_mute() -> None:
    """With the evidence; one that names what is right is not mute."""
    mute = used("a", *["Error: request failed"] * 3, error=True)
    (problem,) = lint([], mute)

    assert (problem.rule, problem.calls, problem.runs) == ("mute-error", 3, 1)
    assert problem.evidence[0].text == "look_up(n=0) -> Error: request failed"
    helps = "Error: no table `user`; available are `users`, `orders`"
    assert lint([], used("a", *[helps] * 3, error=True)) == []


def test_a_fault_that_runs_loop_over_is_an_error() -> None:
    """What half of the runs that show it go in circles over is worse."""
    loops = used("a", *["Error: request failed"] * 6, error=True)
    fine = [used(name, "Error: request failed", error=True) for name in "bcd"]

    assert [p.level for p in lint([], loops)] == ["error"]
    assert [p.level for p in lint([], uses([loops, *fine]))] == ["warning"]


@pytest.mark.parametrize(
    ("results", "name", "problems"),
    [
        (["", "[]", "{}"], "look_up", 1),
        (["", "[]"], "look_up", 0),
        (["No results."] * 3, "look_up", 0),
        ([""] * 3, "write_todos", 0),
    ],
)
def test_results_without_a_word_are_a_problem(
    results: list[str], name: str, problems: int
) -> None:
    """A sentence says that the call worked; a plan needs no answer."""
    assert len(lint([], used("a", *results, tool=name))) == problems


@pytest.mark.parametrize(
    ("ending", "problems"),
    [("and then th", 1), (" [truncated]", 0), ("the end.", 0)],
)
def test_results_of_one_length_without_an_end_are_cut(
    ending: str, problems: int
) -> None:
    """A mark, or the end of a sentence, tells that nothing is missing unsaid."""
    texts = [letter * (1_000 - len(ending)) + ending for letter in "abc"]

    rules = [p.rule for p in lint([], used("a", *texts))]

    assert rules == ["unmarked-cut"] * problems


def test_overlapping_tools_show_where_both_were_asked() -> None:
    """The evidence is a run that put the same to both."""
    calls = [{"tool": name, "args": {"q": "x"}} for name in ("get_doc", "fetch_doc")]
    run = from_dict({"id": "r", "steps": [{"agent": "a", "calls": calls}]})
    tools = [tool("get_doc", "Is one."), tool("fetch_doc", "Other, then.")]

    problem = lint([*tools, LEAVE], look(POLICY, run))[0]

    assert problem.rule == "overlapping-names"
    assert problem.evidence[0].text == "fetch_doc and get_doc with the same arguments"


RESULTS = st.lists(
    st.sampled_from(["", "[]", "Error: no", "ok.", "x" * 600]), max_size=9
)


@given(st.lists(RESULTS, max_size=4))
def test_uses_add_up_in_any_grouping(runs: list[list[str]]) -> None:
    """Counts of parts are the counts of the whole; parts travel between processes."""
    parts = [used(str(n), *results) for n, results in enumerate(runs)]
    whole = uses(pickle.loads(pickle.dumps(part)) for part in parts)

    assert whole.runs == len(runs)
    assert whole.tools["look_up"].calls == sum(map(len, runs))
    for problem in lint([], whole):
        assert len(problem.evidence) <= 3


def test_a_sarif_log_refers_to_its_rules() -> None:
    """Every result has a rule of the driver, a level, a message and a place."""
    spec = ToolSpec(name="search", description="", file="tools.py", line=7)
    log = sarif(lint([spec]), "1.2.3")

    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert (log["version"], len(rules)) == ("2.1.0", len(RULES))
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    first = run["results"][0]
    assert first["message"]["text"].startswith("`search` has no description. Say")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "tools.py"}
    assert place["region"] == {"startLine": 7}
    assert first["locations"][0]["logicalLocations"][0]["name"] == "search"
