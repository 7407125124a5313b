"""What all requests of a run to its model have in common, and whether they get the same answers again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from evopolicygym.agents.kit.model_options import ANSWER_TOKENS
from evopolicygym.agents.kit.neutral_harness.chat_formats import Conversation
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.server_details import LLAMA_CPP, SEEDED

MOST_SEED = 2**31
YES = "yes"


@dataclass(frozen=True, slots=True)
class ModelRequests:
    """The form of the requests to one model at one server."""

    model: str
    wire: ApiFormat
    sampling: Mapping[str, float]
    """The sampling that a user asked for, by the names of options."""
    server: Mapping[str, str]
    """What the server told of the model (``model_proxy/server_details.py``); may be empty."""
    caches: bool
    """Whether the server may answer from its cache of earlier prompts; only llama.cpp's has a switch for it."""

    def seed(self, run_seed: int, number: int) -> int | None:
        """Return the seed of a turn's request, made of the run's seed; None if the server isn't known to take one."""
        if "seed" in self.sampling:
            return int(self.sampling["seed"])
        if self.wire is not ApiFormat.CHAT or self.server.get("server") not in SEEDED:
            return None
        return int.from_bytes(sha256(f"{run_seed} {number}".encode()).digest()[:4]) % MOST_SEED

    def document(self, conversation: Conversation, seed: int | None) -> dict[str, Any]:
        """Return the next request of a conversation."""
        most = "max_output_tokens" if self.wire is ApiFormat.RESPONSES else "max_tokens"
        sampling = {most if name == ANSWER_TOKENS else name: value for name, value in self.sampling.items()}
        fields: dict[str, Any] = {**conversation.body(self.model), **sampling}
        if seed is not None:
            fields["seed"] = seed
        if self._switches_cache and not self.caches:
            fields["cache_prompt"] = False
        return fields

    @property
    def details(self) -> dict[str, str]:
        """What a record says of them beyond the server's own words."""
        details = {option: f"{value:g}" for option, value in self.sampling.items()}
        if self._switches_cache:
            details["cache"] = "on" if self.caches else "off"
        return details | ({"replayable": self.replayable} if self.server else {})

    @property
    def replayable(self) -> str:
        """``yes`` if the server is known to give the same answers again, else why not."""
        if self.server.get("server") != LLAMA_CPP:
            return "no: only llama.cpp's server is known to repeat its answers"
        if self.wire is not ApiFormat.CHAT:
            return f"no: requests in the format {self.wire} have no seed"
        if self.caches:
            return "no: the server's cache of prompts changes answers"
        if self.server.get("slots", "1") != "1":
            return f"no: the server has {self.server['slots']} slots, which may change answers"
        return YES

    @property
    def _switches_cache(self) -> bool:
        return self.wire is ApiFormat.CHAT and self.server.get("server") == LLAMA_CPP


def request_sha256(document: Mapping[str, Any]) -> str:
    """Return the hash of a request, whatever the order of its fields."""
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
