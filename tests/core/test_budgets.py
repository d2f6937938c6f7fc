"""What may be spent, what was, and where the two meet."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg import budgets
from loopguard_lg.budgets import Budget, Exceeded, Price, Usage, Used
from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Nested, Step, Tokens, Turn

WHOLE = [
    "steps",
    "model_calls",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "handoffs",
]
LIMITS = [*WHOLE, "seconds", "usd"]
NOTHING: dict[str, Used] = {"run": {}, "thread": {}}


def used(run: Used | None = None, thread: Used | None = None) -> dict[str, Used]:
    """Usage by scope."""
    return {"run": run or {}, "thread": thread or {}}


def out(budget: Budget, **run: float) -> Exceeded | None:
    """The budget that is out after a run has used this much."""
    return budgets.exceeded((budget,), used(run))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, True, "5", [5]])
def test_a_limit_is_a_number_above_zero(limit: str, wrong: Any) -> None:
    """Anything else is refused in one line that names the limit and the value."""
    with pytest.raises(PolicyError) as refused:
        Budget(**{limit: wrong})

    assert f"budget.{limit}={wrong!r}: give a" in str(refused.value)
    assert "above 0, or None for no limit" in str(refused.value)


@pytest.mark.parametrize("limit", WHOLE)
def test_what_is_counted_has_a_whole_limit(limit: str) -> None:
    """Half a step can't be spent."""
    with pytest.raises(PolicyError, match=rf"budget\.{limit}=2\.5: give a whole"):
        Budget(**{limit: 2.5})


@pytest.mark.parametrize("limit", ["seconds", "usd"])
def test_what_is_measured_may_have_a_part(limit: str) -> None:
    """Seconds and dollars are no whole numbers."""
    assert dict(Budget(**{limit: 0.5}).limits) == {limit: 0.5}


@pytest.mark.parametrize("wrong", [0, 1.5, math.inf, True, "3", None])
def test_a_tool_s_limit_is_a_whole_number(wrong: Any) -> None:
    """The tool is named as it is written."""
    with pytest.raises(PolicyError, match=r"budget\.per_tool\['search'\]="):
        Budget(per_tool={"search": wrong})


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("per_tool", ["search"]),
        ("warn", 0),
        ("warn", 1.5),
        ("warn", True),
        ("warn", "most"),
        ("warn", math.nan),
        ("scope", "turn"),
        ("scope", []),
        ("unknown_price", "free"),
    ],
)
def test_the_other_settings_are_checked_too(setting: str, wrong: Any) -> None:
    """The error names the setting and what was given."""
    with pytest.raises(PolicyError) as refused:
        Budget(**{setting: wrong})

    assert f"budget.{setting}={wrong!r}: give" in str(refused.value)


def test_a_fresh_budget_limits_nothing() -> None:
    """`None` is no limit, and that is the default of each."""
    assert list(Budget().limits) == []
    assert out(Budget(), steps=10**9, usd=1e9, seconds=1e9) is None


@pytest.mark.parametrize("limit", [name for name in LIMITS if name != "total_tokens"])
def test_a_budget_is_out_when_it_is_used_up(limit: str) -> None:
    """The check comes before the next spending: nothing is left at the limit."""
    budget = Budget(**{limit: 3})

    assert out(budget, **{limit: 2}) is None
    assert out(budget, **{limit: 3}) == Exceeded(
        limit=limit, spent=3, allowed=3, scope="run"
    )


def test_total_tokens_are_input_and_output() -> None:
    """Both count towards the one limit."""
    assert out(Budget(total_tokens=10), input_tokens=6, output_tokens=3) is None
    spent = out(Budget(total_tokens=10), input_tokens=6, output_tokens=4)
    assert spent is not None
    assert spent.spent == 10


def test_a_budget_looks_at_its_own_scope() -> None:
    """A thread's budget counts what earlier runs took, a run's does not."""
    spent = used({"steps": 1}, {"steps": 5})

    assert budgets.exceeded((Budget(steps=5),), spent) is None
    assert budgets.exceeded((Budget(steps=5, scope="thread"),), spent) is not None


def test_the_wider_budget_is_named_first() -> None:
    """Where both are out, the thread's is: another run would not help."""
    both = (Budget(steps=2), Budget(steps=4, scope="thread"))

    found = budgets.exceeded(both, used({"steps": 4}, {"steps": 4}))

    assert found is not None
    assert found.scope == "thread"


def test_a_tool_s_limit_ends_no_run() -> None:
    """It refuses that tool only; the run goes on with others."""
    budget = Budget(per_tool={"search": 2})

    assert out(budget, **{"tool:search": 2}) is None


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("usd", "usd"),
        ("tool_calls", "tool calls"),
        ("tool:search", "calls of `search`"),
    ],
)
def test_what_is_out_reads_as_a_sentence(limit: str, what: str) -> None:
    """The text is short, and the same whatever the numbers' types."""
    exceeded = Exceeded(limit=limit, spent=2.0000001, allowed=2, scope="run")

    assert str(exceeded) == f"the run's budget of 2 {what} is used (2)"


def refusals(budget: Budget, calls: list[str], spent: Used) -> list[bool]:
    """Which calls of a batch find no room; refused ones do not stand before others."""
    ran: list[str] = []
    refused = []
    for tool in calls:
        ahead = {"tool_calls": len(ran), f"tool:{tool}": ran.count(tool)}
        no = budgets.refuses_call((budget,), used(spent), ahead)
        refused.append(no is not None)
        if no is None:
            ran.append(tool)
    return refused


tools = st.sampled_from(["search", "edit", "test"])


@given(st.lists(tools, max_size=12), st.integers(1, 8), st.integers(0, 10))
def test_a_batch_cannot_pass_the_tool_calls(
    calls: list[str], allowed: int, before: int
) -> None:
    """Just as many calls of a batch run as the budget has room for."""
    refused = refusals(Budget(tool_calls=allowed), calls, {"tool_calls": before})

    assert refused.count(False) == min(len(calls), max(0, allowed - before))


@given(st.lists(tools, max_size=12), st.integers(1, 8), st.integers(0, 10))
def test_a_batch_cannot_pass_a_tool_s_limit(
    calls: list[str], allowed: int, before: int
) -> None:
    """The tool with a limit runs that often, the others as often as they like."""
    budget = Budget(per_tool={"search": allowed})

    refused = refusals(budget, calls, {"tool:search": before})

    ran = [tool for tool, no in zip(calls, refused, strict=True) if not no]
    assert ran.count("edit") == calls.count("edit")
    room = max(0, allowed - before)
    assert ran.count("search") == min(calls.count("search"), room)


@pytest.mark.parametrize("limit", ["seconds", "usd", "total_tokens", "input_tokens"])
def test_a_call_is_refused_when_what_is_measured_is_out(limit: str) -> None:
    """The model call that asked for it may have used the rest."""
    spent = {"seconds": 9.0, "usd": 9.0, "input_tokens": 9, "output_tokens": 0}

    assert refusals(Budget(**{limit: 9}), ["search"], spent) == [True]


@pytest.mark.parametrize("limit", ["steps", "model_calls", "handoffs"])
def test_a_call_of_the_last_turn_is_executed(limit: str) -> None:
    """What is counted by turns ends the run before the next turn, not within one."""
    assert refusals(Budget(**{limit: 1}), ["search"], {limit: 1}) == [False]


def test_the_warning_starts_at_its_share() -> None:
    """Each limit of which that much is used is named with its scope."""
    budget = Budget(steps=10, usd=1, warn=0.5)

    assert budgets.warnings((budget,), used({"steps": 4, "usd": 0.4})) == []
    assert budgets.warnings((budget,), used({"steps": 5, "usd": 0.4})) == ["run:steps"]


def test_a_warning_share_of_one_is_silent() -> None:
    """With `warn=1` the agent is never told."""
    assert budgets.warnings((Budget(steps=2, warn=1),), used({"steps": 2})) == []


def test_a_model_call_is_charged() -> None:
    """One call, its tokens, seconds and dollars."""
    turn = Turn(tokens=Tokens(input=7, output=3), cost=0.5, seconds=2)

    assert budgets.model_spend(turn) == {
        "model_calls": 1,
        "input_tokens": 7,
        "output_tokens": 3,
        "usd": 0.5,
        "seconds": 2,
    }


def test_agents_inside_tools_are_charged_to_their_parent() -> None:
    """Their calls, tokens and dollars add up; their time is the tool's."""
    inner = Nested(model_calls=3, tokens=Tokens(input=10, output=5), cost=0.25)
    turn = Turn(tokens=Tokens(input=1, output=1), cost=0.5, nested=(inner, inner))

    spent = Usage.of(budgets.model_spend(turn))

    assert (spent.model_calls, spent.total_tokens, spent.usd) == (7, 32, 1.0)
    assert spent.seconds == 0


def test_calls_without_a_price_are_counted() -> None:
    """Those of agents inside tools too, each for itself."""
    turn = Turn(nested=(Nested(model_calls=4), Nested(model_calls=2, cost=0.1)))

    spent = budgets.model_spend(turn)

    assert spent["unpriced"] == 5
    assert spent["usd"] == 0.1


def test_calls_with_estimated_tokens_are_counted() -> None:
    """An estimate is spent like a count, and marked."""
    guess = Tokens(input=5, estimated=True)
    turn = Turn(tokens=guess, nested=(Nested(model_calls=2, tokens=guess),))

    spent = budgets.model_spend(turn)

    assert (spent["input_tokens"], spent["estimated"]) == (10, 3)


def test_a_batch_is_one_step_and_takes_as_long_as_its_slowest_call() -> None:
    """Its calls count one by one, its time and its step do not."""
    calls = (Step(tool="a", seconds=2), Step(tool="a", seconds=5), Step(tool="b"))

    spent = budgets.tool_spend(Turn(steps=calls), 0, frozenset("a"))

    assert spent == {"steps": 1, "tool_calls": 3, "seconds": 5, "tool:a": 2}


def test_only_executed_calls_are_charged() -> None:
    """A blocked call and one from the cache are a step, but no tool call."""
    calls = (Step(tool="a", blocked=True), Step(tool="a", cached=True))

    assert budgets.tool_spend(Turn(steps=calls), 0, frozenset("a")) == {
        "steps": 1,
        "tool_calls": 0,
    }


def test_a_turn_without_calls_takes_no_step() -> None:
    """Words are a model call only."""
    assert budgets.tool_spend(Turn(text="done"), 0, frozenset()) == {}


def test_hand_overs_are_charged() -> None:
    """As many as the turn had."""
    spent = budgets.tool_spend(Turn(steps=(Step(tool="to_b"),)), 1, frozenset())

    assert spent["handoffs"] == 1


amounts = st.dictionaries(
    st.sampled_from(["steps", "tool_calls", "tool:search"]), st.integers(0, 99)
)


@given(amounts, amounts, amounts)
def test_the_order_of_spending_does_not_matter(a: Used, b: Used, c: Used) -> None:
    """Sums are the same in any order, and what is added stays as it is."""
    before = dict(a)

    assert budgets.add(a, b, c) == budgets.add(c, budgets.add(b, a))
    assert a == before


@pytest.mark.parametrize("limit", LIMITS)
def test_nothing_is_spent_in_the_beginning(limit: str) -> None:
    """What was never charged is zero."""
    assert budgets.spent_of({}, limit) == 0
    assert getattr(Usage.of({}), limit) == 0


@given(amounts)
def test_usage_reads_plain_data(spent: Used) -> None:
    """Names that are not known are ignored; tools are under `per_tool`."""
    usage = Usage.of({**spent, "later": 1})

    assert usage.steps == spent.get("steps", 0)
    assert usage.per_tool.get("search") == spent.get("tool:search")


def test_a_price_is_for_a_million_tokens() -> None:
    """Cached input has its own price, or that of other input."""
    tokens = Tokens(input=2_000_000, output=1_000_000, cached=1_000_000)

    assert Price(input=2, output=10, cached=0.5).of(tokens) == 12.5
    assert Price(input=2, output=10).of(tokens) == 14


def test_a_price_never_gives_money_back() -> None:
    """More cached tokens than input ones is a provider's way of counting."""
    assert Price(input=2, output=10, cached=0).of(Tokens(input=1, cached=5)) == 0


@pytest.mark.parametrize("part", ["input", "output", "cached"])
@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "1", True])
def test_a_price_is_a_number(part: str, wrong: Any) -> None:
    """Anything else would let a budget in dollars leak."""
    prices: dict[str, Any] = {"input": 1, "output": 1, part: wrong}

    with pytest.raises(PolicyError, match=rf"price\.{part}="):
        Price(**prices)
