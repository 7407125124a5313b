"""Prices of models: where they come from when a run is opened, what a request costs by them, what is told of it."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from typer.testing import CliRunner

from evopolicygym.agents.base import make
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, ScriptedModel
from evopolicygym.cli.main import app
from evopolicygym.core.agent import AgentConfig, PriceSnapshot, Rates, Tier
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import AgentEnded, AgentStarted, RunClosed, RunOpened
from evopolicygym.model_proxy.formats import ModelRequestRefused
from evopolicygym.model_proxy.ledger import Ledger
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.records.journal import decode_event, encode_event
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs.preflight import look_up_price
from fakes import TIME, opening
from model_proxies import REAL_KEY, VARIABLE
from shell import Left, Shell

OPENAI = "https://api.openai.com/v1"
PRICE = PriceSnapshot("m", "given", TIME, Rates(2.0, 10.0, cached_input=0.5), (Tier(1000, Rates(4.0, 20.0, 1.0, 8.0)),))
COST_WITHOUT_CACHE = (INPUT * 1000 + OUTPUT * 10_000) / 1_000_000
"""US dollars of one answer of the scripted model, where what is cached costs as much as what is not."""
UPSTREAM = ModelUpstream("http://127.0.0.1:9", price=PRICE)


@pytest.mark.parametrize(
    ("counts", "cost"),
    [
        ((1000, 0, 0, 100), 1000 * 2 + 100 * 10),
        ((1000, 400, 100, 100), 500 * 2 + 400 * 0.5 + 100 * 2 + 100 * 10),
        ((1001, 400, 100, 100), 501 * 4 + 400 * 1 + 100 * 8 + 100 * 20),
    ],
)
def test_cost_of_a_request(counts: tuple[int, int, int, int], cost: float) -> None:
    """Cached input has its own rate, where there is one; above a tier's beginning, that tier's rates hold."""
    assert PRICE.cost(*counts) == pytest.approx(cost / 1_000_000)


WHOLE = some.integers(0, 9)
RATES = some.builds(Rates, WHOLE, WHOLE, *[some.none() | WHOLE] * 2)


@given(RATES, some.dictionaries(some.sampled_from([10, 20, 30]), RATES), some.integers(1, 40))
def test_the_dearest_rates_are_reserved(rates: Rates, tiers: dict[int, Rates], tokens: int) -> None:
    """A worst case is priced as the dearest request of at most its input: fresh, read from a cache or written to it."""
    price = PriceSnapshot("m", "given", TIME, rates, tuple(Tier(above, tiers[above]) for above in sorted(tiers)))
    sizes = [1, *(above + 1 for above in tiers if tokens > above)]
    of_input = [price.cost(size, *kind, 0) / size for size in sizes for kind in ((0, 0), (size, 0), (0, size))]
    of_output = [price.cost(size, 0, 0, 1) - price.cost(size, 0, 0, 0) for size in sizes]

    assert price.highest_rates(tokens) == pytest.approx((max(of_input), max(of_output)))


def test_costs_add_up_by_requests() -> None:
    """Each request is priced by itself: two short ones are not one long one; what was not told costs nothing yet."""
    ledger = Ledger(UPSTREAM)
    for usage in (Usage(input=800, output=0), Usage(input=800, output=0), Usage(), None):
        ledger.end(usage, 0, 0.0, failed=False)

    assert ledger.usage().cost == pytest.approx(1600 * 2 / 1_000_000)
    assert ledger.usage().unknown == 1
    assert Ledger(replace(UPSTREAM, price=None)).usage().cost is None


def test_limit_of_cost_counts_what_was_not_told() -> None:
    """For the limit alone, a request whose usage was not told is taken at four bytes a token: else it were no limit."""
    ledger = Ledger(replace(UPSTREAM, max_cost=0.001))
    ledger.begin(generates=True)
    ledger.end(Usage(), 4 * 500, 0.0, failed=False)

    assert ledger.usage().cost == 0
    with pytest.raises(ModelRequestRefused, match="USD"):
        ledger.begin(generates=True)


def test_known_price() -> None:
    """The price of a known model at its own server is looked up, with its tiers, and says where it is from."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    price = look_up_price("gpt-5.5", OPENAI)

    assert price is not None
    assert price.source.startswith("genai-prices ")
    assert 0 < (price.rates.cached_input or 0) < price.rates.input < price.rates.output
    assert price.tiers
    assert price.tiers[0].rates.input > price.rates.input


@pytest.mark.parametrize(
    ("model", "url"), [("no-such-model", OPENAI), ("gpt-5.5", "http://127.0.0.1:9/v1"), ("", OPENAI)]
)
def test_unknown_prices(model: str, url: str) -> None:
    """A model that nobody knows, or one at a server that nobody knows, has no price: it is not guessed."""
    assert look_up_price(model, url) is None


def test_without_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where genai-prices is not installed, no price is known and nothing fails; a record is read as ever."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    opened = opening(price=PRICE)

    assert look_up_price("gpt-5.5", OPENAI) is None
    assert decode_event(encode_event(opened)) == opened


def test_journals_from_before() -> None:
    """A journal that knows of no price, effort or allowance is read."""
    document = encode_event(opening())
    del document["price"]
    document["agent"] = {name: document["agent"][name] for name in ("name", "model", "options", "command")}

    assert isinstance(decode_event(document), RunOpened)


@pytest.mark.parametrize(("price", "said"), [(PRICE, "least 0.0012 USD"), (None, "unknown")])
def test_outcome_tells_what_was_used(price: PriceSnapshot | None, said: str, tmp_path: Path) -> None:
    """A run's outcome says in a line what its model took and cost; with usage that was not told, that is the least."""
    usage = {
        "requests": 3,
        "input": 100,
        "output": 100,
        "seconds": 9.0,
        "unknown": 1,
        **({"cost": 0.0012} if price else {}),
    }
    with RunWriter(tmp_path / "run", opening(price=price)) as writer:
        for event in (AgentStarted(TIME, 0), AgentEnded(TIME, 0, "finished", usage=usage)):
            writer.record(event)
        writer.record(RunClosed(TIME, writer.state.close_reason))
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "run")]).output

    assert re.search(rf"200 tokens.*\b100\b.*\b100\b.*\b3 requests.*\b9 s\b.*{said}", shown)


ASKS_ONCE = """
import os, subprocess, urllib.request
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
body = b'{"model": "nobody-knows-me", "messages": []}'
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, key)
urllib.request.urlopen(request).read()
subprocess.run(["./judge", "submit", "0"], check=True)
"""


def played(shell: Shell, runs: Path, *words: str) -> Left:
    """Play a short run on cartpole by the program, at level none."""
    command = ["run", "cartpole", "--budget", "1", "--held-out", "2", "--validation", "1", "--workers", "1"]
    command += ["--split", "public", "--isolation", "none", "--runs", str(runs), "--model", "nobody-knows-me"]
    return shell(*command, *words)


def test_a_name_alone_has_no_price(shell: Shell, tmp_path: Path) -> None:
    """A program that names its model for tables, and has no model's door, is not asked for a price that is refused."""
    left = played(shell, tmp_path / "runs", "--", "./judge", "submit", "0")

    assert (left.code, "price" in left.err.replace(str(tmp_path), "")) == (0, False), left.err


@pytest.mark.parametrize(
    ("limits", "code", "is_known"),
    [
        (["--max-tokens", "5000"], 0, False),
        (["--max-cost", "5", "--price", "input=1000,output=10000"], 0, True),
        (["--max-cost", "5"], 2, False),
    ],
)
def test_a_price_that_is_not_known_is_told(
    limits: list[str],
    code: int,
    is_known: bool,  # noqa: FBT001 - a parameter
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run without a price warns on stderr and is played; under a limit of cost it is refused before it is opened."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setenv("COLUMNS", "400")
    with ScriptedModel() as model:
        door = ["--model-url", model.url, "--model-key", VARIABLE]
        left = played(shell, tmp_path / "runs", *door, *limits, "--", "python3", "-c", ASKS_ONCE)

    assert left.code == code, left.err
    assert ("'nobody-knows-me'" in left.err) != is_known
    assert ("--price" in left.err) != is_known
    assert (tmp_path / "runs").exists() == (code == 0)
    if code == 0:
        assert len(model.asked) == 1
        assert (f"{COST_WITHOUT_CACHE:,.4f} USD" in left.out) == is_known
        assert ("USD" in left.out) == is_known


@pytest.mark.parametrize(
    ("name", "effort", "said"),
    [
        ("claude_code", "huge", "low, medium, high, xhigh, max"),
        ("kimi_code", "high", "kimi_code"),
        ("random", "high", "effort"),
        ("scripted", "high", "scripted"),
        ("command", "high", "command"),
    ],
)
def test_efforts_that_cannot_be_told(name: str, effort: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An effort for an agent without such a setting, or in a word that it doesn't know, is refused."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    model = "" if name in {"random", "scripted", "command"} else "m"
    command = ("true",) if name == "command" else ()
    with pytest.raises(UsageError, match=said):
        make(AgentConfig(name, model, command=command, effort=effort))
