"""Reads an agent's model and limits from its options."""

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from urllib.parse import urlsplit

from evopolicygym.core.agent import AgentConfig, AgentLimits
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.server_details import read_server_details
from evopolicygym.model_proxy.upstream import ModelUpstream

LOG = logging.getLogger(__name__)
MODEL_OPTIONS = ("model_url", "model_key", "model_wire")
"""Options of an agent's model proxy (``model_proxy.upstream.ModelUpstream``)."""

ANSWER_TOKENS = "answer_tokens"
"""The option that limits the tokens of an answer; requests call it otherwise."""
SAMPLING = ("temperature", "top_p", "seed", ANSWER_TOKENS)
"""Options of an agent's sampling."""
SAMPLING_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "seed": (0, 2**31 - 1), ANSWER_TOKENS: (1, 10**6)
}  # fmt: skip
"""The smallest and the largest value of each; where both are integers, the value is one too."""


CACHE = "cache"
"""The option that lets a server answer from its cache of prompts, or forbids it: ``on`` or ``off``."""


def describe_model(upstream: ModelUpstream | None) -> dict[str, str]:
    """Return what a model's server tells of the model; warn if the server runs another model."""
    model = upstream.models[0] if upstream and upstream.models else ""
    details = read_server_details(upstream, model) if upstream else {}
    name = details.get("name", "").removesuffix(":latest")
    if model and name and name != model.removesuffix(":latest"):
        LOG.warning("The model server runs %s, not %s; the record has both.", name, model)
    return details


def caches_of(config: AgentConfig, default: str) -> bool:
    """Return whether a config's options let a server answer from its cache; raise ``UsageError``."""
    cache = config.options.get(CACHE, default)
    if cache not in {"on", "off"}:
        raise UsageError(f"Invalid option cache of the agent {config.name!r}: expected on or off, got {cache!r}.")
    return bool(cache == "on")


def sampling_of(config: AgentConfig, wire: ApiFormat) -> dict[str, float]:
    """Return the sampling in a config's options; raise ``UsageError`` if it is invalid, or the format can't have it."""
    sampling = {name: config.options[name] for name in SAMPLING if name in config.options}
    for name, value in sampling.items():
        least, most = SAMPLING_RANGES[name]
        kinds, kind = ((int,), "an integer") if isinstance(most, int) else ((int, float), "a number")
        if type(value) not in kinds or not (math.isfinite(value) and least <= value <= most):
            raise UsageError(
                f"Invalid option {name} of the agent {config.name!r}: expected {kind} in [{least:g}, {most:.0f}], got "
                f"{value!r}."
            )
    if "seed" in sampling and wire is ApiFormat.MESSAGES:
        raise UsageError(f"Invalid option seed of the agent {config.name!r}: the format messages has no seed.")
    return sampling


def limits_of(config: AgentConfig, others: tuple[str, ...] = ()) -> AgentLimits:
    """Return the limits in a config's options; raise ``UsageError`` for an unknown option or an invalid limit.

    ``others`` are the agent's options besides limits and a model proxy.
    """
    known = [field.name for field in fields(AgentLimits)]
    limits = {name: amount for name, amount in config.options.items() if name not in {*MODEL_OPTIONS, *others}}
    for name, amount in limits.items():
        if name not in known:
            options = ", ".join((*known, *MODEL_OPTIONS, *others))
            raise UsageError(f"Invalid option {name} of the agent {config.name!r}: expected one of {options}.")
        if type(amount) is not int or amount < 1:
            raise UsageError(
                f"Invalid option {name} of the agent {config.name!r}: expected an integer >= 1, got {amount!r}."
            )
    return AgentLimits(**limits)


def upstream_of(config: AgentConfig) -> ModelUpstream | None:
    """Return the upstream of an agent's model proxy; None for an agent without one.

    Raises ``UsageError`` for invalid options, and ``MissingExtra`` if the proxy's dependencies are not installed.
    """
    url, key, wire = (str(config.options.get(name, "")) for name in MODEL_OPTIONS)
    if not url:
        if key or wire:
            raise UsageError("Missing model_url (--model-url): model_key and model_wire need it.")
        return None
    if wire and wire not in set(ApiFormat):
        raise UsageError(f"Invalid model_wire {wire!r}: expected one of {', '.join(ApiFormat)}.")
    upstream = ModelUpstream(url, key, ApiFormat(wire or ApiFormat.AUTO), (config.model,) if config.model else ())
    upstream.key()
    upstream.check_certificates()
    try:
        import httpx2  # noqa: F401 - checks that it is installed
    except ModuleNotFoundError as error:
        raise MissingExtra(f"The agent {config.name!r}, which uses a model,", "agents", str(error.name)) from error
    return upstream


def choose_model(
    config: AgentConfig, formats: Collection[ApiFormat], others: Collection[str] = ()
) -> tuple[ModelUpstream, str]:
    """Return a model's server and name, for an agent that supports these API formats.

    ``others`` are the agent's options besides those of a model. Raises ``UsageError`` or ``MissingExtra``.
    """
    name = config.name
    if unknown := set(config.options) - {*MODEL_OPTIONS, *others}:
        known = ", ".join((*MODEL_OPTIONS, *others))
        raise UsageError(f"The agent {name!r} has no option {', '.join(sorted(unknown))}: expected {known}.")
    upstream = upstream_of(config)
    if upstream is None or not config.model:
        raise UsageError(
            f"The agent {name!r} needs a model and its server. Example: evopolicygym run TASK --agent {name} "
            f"--model NAME --model-url URL --model-key VARIABLE"
        )
    parts = urlsplit(upstream.base_url.rstrip("/"))
    wire = upstream.wire
    if wire is ApiFormat.AUTO and (parts.hostname or "").endswith("anthropic.com"):
        wire = ApiFormat.MESSAGES
    elif wire is ApiFormat.AUTO and parts.path.rpartition("/")[2] in {"", "v1", "openai"}:
        wire = ApiFormat.CHAT
    if wire not in formats:
        raise UsageError(
            f"Invalid model_wire of the agent {name!r}: expected chat or messages, got {wire.value}, and the address "
            f"doesn't tell. Give --model-wire chat or --model-wire messages."
        )
    return replace(upstream, wire=wire), config.model
