"""What a model call costs: the price table of `genai-prices`, and your own."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from loopguard_lg.budgets import Price
from loopguard_lg.redaction.logs import note_failure
from loopguard_lg.steps import Tokens


def cost(
    model: str | None, tokens: Tokens | None, own: Mapping[str, Price] | None = None
) -> float | None:
    """US dollars of a call of `model`; `None` where no price or usage is known."""
    price = None if tokens is None else known(model, own)
    return None if price is None or tokens is None else price.of(tokens)


def known(model: str | None, own: Mapping[str, Price] | None = None) -> Price | None:
    """The price of `model`, your own first; `None` also where a table fails."""
    if not model:
        return None
    try:
        return (own or {}).get(model) or listed(model)
    except Exception:  # a table must not end the run; budgets in dollars refuse it
        note_failure(known, f"no price of {model!r} can be looked up")
        return None


@lru_cache(maxsize=256)
def listed(model: str) -> Price | None:
    """The price of `model` in the table that ships with `genai-prices`.

    `model` may be prefixed with its provider, as in `openai:gpt-5.5`. Tiered prices
    are taken at their base.
    """
    from genai_prices import Usage, calc_price

    provider, ref = model.split(":", 1) if ":" in model else ("", model)

    def per_million(usage: Usage) -> float | None:
        try:
            found = calc_price(usage, model_ref=ref, provider_id=provider or None)
        except LookupError:
            return None
        return float(found.total_price * Decimal(1000))

    plain = per_million(Usage(input_tokens=1000))
    if plain is None:
        return None
    cached = per_million(Usage(input_tokens=1000, cache_read_tokens=1000))
    output = per_million(Usage(output_tokens=1000))
    return Price(
        input=plain, output=output or 0.0, cached=plain if cached is None else cached
    )
