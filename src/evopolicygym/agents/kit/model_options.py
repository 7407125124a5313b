"""Reads an agent's model and limits from its options."""

from collections.abc import Collection
from dataclasses import fields, replace
from urllib.parse import urlsplit

from evopolicygym.core.agent import AgentConfig, AgentLimits
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream

MODEL_OPTIONS = ("model_url", "model_key", "model_wire")
"""Options of an agent's model proxy (``model_proxy.upstream.ModelUpstream``)."""


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
