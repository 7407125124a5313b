"""An agent's options that say which model it asks and what it may use, read from its config."""

from collections.abc import Collection
from dataclasses import fields, replace
from urllib.parse import urlsplit

from evopolicygym.core.agent import AgentConfig, AgentLimits
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream

MODEL_OPTIONS = ("model_url", "model_key", "model_wire")
"""Options that say where an agent's model proxy leads (``model_proxy.upstream.ModelUpstream``)."""


def limits_of(config: AgentConfig, others: tuple[str, ...] = ()) -> AgentLimits:
    """Return the limits that a config's options name; raise ``UsageError`` for an option that is none of an agent's.

    ``others`` are options that the agent has besides limits and a model proxy.
    """
    known = [field.name for field in fields(AgentLimits)]
    limits = {name: amount for name, amount in config.options.items() if name not in {*MODEL_OPTIONS, *others}}
    besides = f", and besides {', '.join(others)}" if others else ""
    for name, amount in limits.items():
        if name not in known or type(amount) is not int or amount < 1:
            raise UsageError(
                f"The agent {config.name!r} can't be given {name} = {amount!r}; whole numbers from 1 for "
                f"{', '.join(known)} can be given, and texts for {', '.join(MODEL_OPTIONS)}"
                f"{besides}."
            )
    return AgentLimits(**limits)


def upstream_of(config: AgentConfig) -> ModelUpstream | None:
    """Return where the model proxy leads; None for an agent without one.

    Raises ``UsageError`` where it can't be, and ``MissingExtra`` where what opens it is not installed.
    """
    url, key, wire = (str(config.options.get(name, "")) for name in MODEL_OPTIONS)
    if not url:
        if key or wire:
            raise UsageError("A model's key or wire format was given, and no address: give model_url (--model-url).")
        return None
    if wire and wire not in set(ApiFormat):
        raise UsageError(f"There is no wire format {wire!r}; known are {', '.join(ApiFormat)}.")
    upstream = ModelUpstream(url, key, ApiFormat(wire or ApiFormat.AUTO), (config.model,) if config.model else ())
    upstream.key()
    try:
        import httpx2  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtra(f"The agent {config.name!r}, which asks a model,", "agents", str(error.name)) from error
    return upstream


def chosen_model(config: AgentConfig, formats: Collection[ApiFormat]) -> tuple[ModelUpstream, str]:
    """Return the server and the name of a model that is asked in one of these formats.

    Raises ``UsageError`` or ``MissingExtra``.
    """
    name = config.name
    if unknown := set(config.options) - set(MODEL_OPTIONS):
        raise UsageError(
            f"The agent {name!r} has no option {', '.join(sorted(unknown))}; it takes {', '.join(MODEL_OPTIONS)}."
        )
    upstream = upstream_of(config)
    if upstream is None or not config.model:
        raise UsageError(
            f"The agent {name!r} needs a model and its server: evopolicygym run TASK --agent {name} --model NAME "
            f"--model-url URL --model-key VARIABLE."
        )
    parts = urlsplit(upstream.prefix)
    wire = upstream.wire
    if wire is ApiFormat.AUTO and (parts.hostname or "").endswith("anthropic.com"):
        wire = ApiFormat.MESSAGES
    elif wire is ApiFormat.AUTO and parts.path.rpartition("/")[2] in {"v1", "openai"}:
        wire = ApiFormat.CHAT
    if wire not in formats:
        raise UsageError(
            f"The agent {name!r} speaks chat and messages, and was given the wire {wire.value!r}, from which it can't "
            f"tell what this server speaks: give --model-wire chat or --model-wire messages."
        )
    base = upstream.prefix.removesuffix("/v1") if wire is ApiFormat.MESSAGES else upstream.prefix
    return replace(upstream, base_url=base, wire=wire), config.model
