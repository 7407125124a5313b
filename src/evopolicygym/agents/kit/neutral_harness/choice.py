"""Which model a config names, for agents of ours that ask one from outside: ``neutral`` and the optimisers."""

from dataclasses import replace
from urllib.parse import urlsplit

from evopolicygym.agents.builtin.command import MODEL_OPTIONS, upstream_of
from evopolicygym.agents.kit.neutral_harness.wires import CONVERSATIONS
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream


def chosen_model(config: AgentConfig) -> tuple[ModelUpstream, str]:
    """Return where a config's model is asked, and its name; raise ``UsageError`` or ``MissingExtra``."""
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
    return _resolved(upstream, name), config.model


def _resolved(upstream: ModelUpstream, name: str) -> ModelUpstream:
    """Return an upstream with one of the two formats, and the address as that has it; ``UsageError`` if unsure."""
    parts = urlsplit(upstream.prefix)
    wire = upstream.wire
    if wire is ApiFormat.AUTO and (parts.hostname or "").endswith("anthropic.com"):
        wire = ApiFormat.MESSAGES
    elif wire is ApiFormat.AUTO and parts.path.rpartition("/")[2] in {"v1", "openai"}:
        wire = ApiFormat.CHAT
    if wire not in CONVERSATIONS:
        raise UsageError(
            f"The agent {name!r} speaks chat and messages, and was given the wire {wire.value!r}, from which it can't "
            f"tell what this server speaks: give --model-wire chat or --model-wire messages."
        )
    base = upstream.prefix.removesuffix("/v1") if wire is ApiFormat.MESSAGES else upstream.prefix
    return replace(upstream, base_url=base, wire=wire)
