"""What a model call costs."""

from __future__ import annotations

import pytest

from loopguard_lg.budgets import Price
from loopguard_lg.steps import Tokens
from loopguard_lg.telemetry import prices

MILLION = Tokens(input=1_000_000, output=1_000_000)


def test_your_own_price_comes_first() -> None:
    """A price of your own replaces the listed one of that name."""
    own = {"gpt-4o-mini": Price(input=1, output=2)}

    assert prices.cost("gpt-4o-mini", MILLION, own) == 3


def test_a_free_model_costs_nothing() -> None:
    """A price of zero is a price."""
    assert prices.cost("local", MILLION, {"local": Price(input=0, output=0)}) == 0


def test_a_known_model_is_listed() -> None:
    """The table that is installed has input, output and cached prices."""
    price = prices.listed("gpt-4o-mini")

    assert price is not None
    assert 0 < (price.cached or 0) < price.input < price.output


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "azure_openai:gpt-4o-mini"])
def test_a_provider_may_stand_before_the_model(name: str) -> None:
    """LangChain's names of providers are understood."""
    assert prices.listed(name) == prices.listed("gpt-4o-mini")


def test_a_model_s_name_may_hold_colons() -> None:
    """Only what stands before the first one is the provider."""
    name = "bedrock:anthropic.claude-3-5-sonnet-20240620-v1:0"

    assert prices.listed(name) is not None


@pytest.mark.parametrize(
    "name", ["no-such-model", "openai:no-such-model", "x:y:z", ":"]
)
def test_an_unknown_model_has_no_price(name: str) -> None:
    """It is `None`, which is not the same as free."""
    assert prices.cost(name, MILLION) is None


@pytest.mark.parametrize(("name", "tokens"), [(None, MILLION), ("gpt-4o-mini", None)])
def test_without_model_or_usage_there_is_no_cost(
    name: str | None, tokens: Tokens | None
) -> None:
    """A call of which too little is known is not guessed at."""
    assert prices.cost(name, tokens) is None
