"""What a call cost, from the price tables of ``genai-prices`` (extra ``prices``)."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import Any, Final

from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.vocabulary import Env, GenAI

PRICES_VARIABLE: Final = Env.PRICES
"""``true``: price every call that has usage and no stated cost."""

_FIELDS: Final = (
    ("input_tokens", GenAI.USAGE_INPUT_TOKENS),
    ("output_tokens", GenAI.USAGE_OUTPUT_TOKENS),
    ("cache_read_tokens", GenAI.USAGE_CACHE_READ),
    ("cache_write_tokens", GenAI.USAGE_CACHE_WRITE),
)
_logger = logging.getLogger(__name__)


def prices_wanted() -> bool:
    """Tell whether the environment asks for prices; read when a run starts."""
    return os.environ.get(PRICES_VARIABLE, "").strip().lower() == "true"


def price_usd(model: str | None, provider: str | None, said: dict[str, Any]) -> float | None:
    """Return the price of a call in US dollars; None where it is not known.

    Args:
        model: The model that answered, else the one asked.
        provider: ``gen_ai.provider.name``, if known.
        said: Attributes with the usage, cache figures as parts of the input.
    """
    try:
        import genai_prices  # noqa: PLC0415 - optional
    except ImportError:
        misused(Misuse.VALUE, "prices need genai-prices: pip install 'otel-turnavoid[prices]'")
        return None
    usage = {field: said[key] for field, key in _FIELDS if key in said}
    if model is None or not usage:
        return None
    for named in (provider, None) if provider else (None,):
        try:
            price = genai_prices.calc_price(
                genai_prices.Usage(**usage), model_ref=model, provider_id=named
            )
        except LookupError:
            continue
        except Exception:  # noqa: BLE001 - a price is never worth an agent's failure
            break
        return float(price.total_price)
    _say_unpriced(model)
    return None


@lru_cache(maxsize=256)
def _say_unpriced(model: str) -> None:
    _logger.warning("no price is known for model %r: its calls have no cost", model)
