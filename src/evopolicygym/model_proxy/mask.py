"""Takes a secret out of what passes by, should a server ever send it back.

Lengths stay as they are. What names an account without being a secret is taken out of errors only.
"""

import re

LEAST = 16
"""A shorter word is no secret, and would be taken out of innocent text."""
_ACCOUNT = re.compile(rb"\b((?:org|proj|project|user|acct|account|key|sk)[-_])([A-Za-z0-9_*-]{6,})")
"""What may name an account, as a whole word: an agent may have a server repeat thousands of these to it."""
_NUMBERED = re.compile(rb"[0-9*]")
"""In ``org-1a2B3c4D``, but not in the code ``project_not_found``."""


class Mask:
    """Replaces a secret in a stream, wherever it is cut; holds back only what may be the beginning of one."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode() if len(secret) >= LEAST else b""
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be passed on."""
        if not self._secret:
            return chunk
        data = (self._held + chunk).replace(self._secret, b"*" * len(self._secret))
        longest = min(len(data), len(self._secret) - 1)
        held = next((size for size in range(longest, 0, -1) if self._secret.startswith(data[-size:])), 0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def finish(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return held


def mask_account(body: bytes) -> bytes:
    """Return an error without the names of organisations, projects, users and keys."""
    return _ACCOUNT.sub(lambda word: word[1] + b"***" if _NUMBERED.search(word[2]) else word[0], body)
