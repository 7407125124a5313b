"""Where the price of an agent's model comes from when a run is opened: from ``genai-prices``, where that is installed.

Nothing is fetched. What a price is, and how a record is read that holds one, is described in ``core/agent.py``.
"""

from datetime import datetime
from importlib.metadata import version
from typing import Any

from evopolicygym.agents.base import make
from evopolicygym.core.agent import Agent, AgentConfig, PriceSnapshot, Rates, Tier
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import now
from evopolicygym.runs.config import RunConfig

SOURCE = "genai-prices"
NAMES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
"""Our names of rates, and theirs."""


def price_of(config: RunConfig, agent: Agent) -> PriceSnapshot | None:
    """Return what a run's model costs; None where that is not known.

    Raises ``UsageError`` where a limit is asked for that can't be kept: of cost or tokens for an agent without a
    model proxy, of cost without a price.
    """
    url, allowance = _model_url(agent), config.agent.allowance
    if not url:
        if allowance.asks_usage or config.price:
            raise UsageError(
                f"Limits of cost or tokens, and a price, don't work with the agent {config.agent.name!r}: its model "
                f"isn't asked through a proxy that counts. Use --max-time or --max-turns; a program of yours gets one "
                f"by --model-url URL."
            )
        return None
    price = config.price or looked_up(config.agent.model, url)
    if price is None and allowance.cost is not None:
        raise UsageError(
            f"--max-cost needs a price, and that of {config.agent.model!r} at this server is not known. Give it in USD "
            f"for a million tokens: --price input=1.25,cached_input=0.125,output=10."
        )
    return price


def unpriced(agent: AgentConfig, price: PriceSnapshot | None) -> str:
    """Return a warning where an agent asks a model whose price is not known; else nothing."""
    if price or not _model_url(make(agent)):
        return ""
    return (
        f"the price of the model {agent.model!r} at its server is not known, so cost is not counted; give it with "
        f"--price, or as price in a suite's file (prices that are known come with evopolicygym[agents])."
    )


def looked_up(model: str, url: str) -> PriceSnapshot | None:
    """Return the price of a model at a server as ``genai-prices`` has it; None where it doesn't, or isn't installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ModuleNotFoundError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, url)
        return _snapshot(model, found.get_prices(datetime.fromisoformat(now())))
    except (LookupError, ValueError, TypeError, AttributeError):
        return None


def _model_url(agent: Agent) -> str:
    """Return where an agent's model is asked, through a proxy that counts; empty for an agent without one."""
    return str(getattr(agent, "model_url", ""))


def _snapshot(model: str, prices: Any) -> PriceSnapshot | None:  # noqa: ANN401 - another distribution's, of any version
    named = {ours: getattr(prices, theirs, None) for ours, theirs in NAMES.items()}
    if named["input"] is None or named["output"] is None:
        return None
    steps = sorted({tier.start for one in named.values() for tier in getattr(one, "tiers", ())})
    tiers = tuple(Tier(above, _rates(named, above)) for above in steps)
    return PriceSnapshot(model, f"{SOURCE} {version(SOURCE)}", now(), _rates(named, None), tiers)


def _rates(named: dict[str, Any], above: int | None) -> Rates:
    """Return the rates below all tiers, or those that hold above so many tokens."""
    rates: dict[str, float] = {}
    for name, price in named.items():
        if price is not None:
            fitting = [tier.price for tier in getattr(price, "tiers", ()) if above is not None and tier.start <= above]
            rates[name] = float(fitting[-1] if fitting else getattr(price, "base", price))
    return Rates(**rates)
