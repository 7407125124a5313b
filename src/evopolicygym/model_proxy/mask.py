"""Masks a secret in a byte stream, should a server echo it: plain, escaped, in base64 or in hex.

Lengths are preserved. Account names, which are not secret, are masked in errors only.
"""

import base64
import re
from functools import lru_cache

MIN_LENGTH = 16
"""Shortest secret that is masked; a shorter one would match innocent text."""
_ACCOUNT = re.compile(rb"\b((?:org|proj|project|user|acct|account|key|sk)[-_])([A-Za-z0-9_*-]{6,})")
"""Candidates for account names, as whole words; linear time, since an agent can make a server repeat thousands."""
_NUMBERED = re.compile(rb"[0-9*]")
"""In ``org-1a2B3c4D``, but not in the code ``project_not_found``."""
_BREAK = rb"(?:[\r\n]|\\\\{0,7}[rn]|%(?:25){0,4}0[AaDd]){0,4}"
"""Line ends between two characters, escaped or not: base64 is often wrapped."""
_ESCAPE = re.compile(
    rb"\\\\{0,7}(?:u(?:0(?:0[0-9A-Fa-f]?)?)?|x[0-9A-Fa-f]?)?"
    rb"|%(?:25){0,4}(?:2|[0-9A-Fa-f])?|&(?:#(?:[xX]?[0-9A-Fa-f]{0,8})?)?"
)
"""An incomplete escape at the end of a chunk."""
_CONTINUATION = re.compile(_BREAK + b"(?:" + _ESCAPE.pattern + b")?")
LONGEST_ESCAPE = 24


class Mask:
    """Replaces a secret in a stream, across chunks; buffers only a possible beginning of the secret."""

    def __init__(self, secret: str) -> None:
        self._forms = _forms(secret) if len(secret) >= MIN_LENGTH else ()
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the masked bytes that can be passed on now."""
        if not self._forms:
            return chunk
        data = self._pending + chunk
        for form in self._forms:
            data = form.whole.sub(lambda match: b"*" * len(match[0]), data)
        end = min(_incomplete_escape(data), *(form.beginning(data) for form in self._forms))
        self._pending = data[end:]
        return data[:end]

    def finish(self) -> bytes:
        """Return the bytes that were still buffered."""
        pending, self._pending = self._pending, b""
        return pending


def contains_secret(secret: str, text: bytes) -> bool:
    """Return whether a complete text contains a secret in any form."""
    mask = Mask(secret)
    return mask.feed(text) + mask.finish() != text


class _Form:
    """One encoding of the secret, in which each character may be escaped."""

    def __init__(self, characters: list[str]) -> None:
        """Take the alternatives for each character."""
        tokens = [_token(choice) for choice in characters]
        compiled = {token: re.compile(_BREAK + token) for token in {*tokens}}
        self.whole = re.compile(_BREAK.join(tokens))
        self._first = re.compile(tokens[0])
        self._others = [compiled[token] for token in tokens[1:]]
        self._longest = len(tokens) * LONGEST_ESCAPE

    def beginning(self, data: bytes) -> int:
        """Return where an incomplete secret may start at the end of ``data``; ``len(data)`` if none does."""
        start = max(0, len(data) - self._longest)
        for first in self._first.finditer(data, start):
            position = first.end()
            for token in self._others:
                if not (match := token.match(data, position)):
                    break
                position = match.end()
            if _CONTINUATION.fullmatch(data, position):
                return first.start()
        return len(data)


def _incomplete_escape(data: bytes) -> int:
    """Return where an incomplete escape starts at the end of ``data``; ``len(data)`` if none does."""
    starts = range(max(0, len(data) - LONGEST_ESCAPE), len(data))
    return next((at for at in starts if data[at] in b"\\%&" and _ESCAPE.fullmatch(data, at)), len(data))


def mask_account(body: bytes) -> bytes:
    """Return an error body without the names of organisations, projects, users and keys."""
    return _ACCOUNT.sub(lambda word: word[1] + b"***" if _NUMBERED.search(word[2]) else word[0], body)


@lru_cache(maxsize=4)
def _forms(secret: str) -> tuple[_Form, ...]:
    """Return the secret plain, in hex, and in base64 at each of three offsets, in both alphabets."""
    data = secret.encode()
    texts = [list(secret), [digit + digit.upper() if digit.isalpha() else digit for digit in data.hex()]]
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        whole = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        texts.append([{"+": "+-", "/": "/_"}.get(letter, letter) for letter in whole])
    return tuple(_Form(text) for text in texts)


def _token(choice: str) -> bytes:
    """Return a pattern of a character, plain or escaped for JSON (of any depth), URLs or HTML.

    Each alternative begins with a literal byte, by which ``re`` skips what can't match.
    """
    ways = []
    for letter in choice:
        code, plain = ord(letter), re.escape(letter.encode())
        digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{code:02x}").encode()
        escapes = [b"u00" + digits, b"x" + digits, *([plain] if letter in "/\"'\\" else [])]
        ways += [
            plain,
            rb"\\\\{0,7}(?:" + b"|".join(escapes) + b")",
            b"%(?:25){0,4}" + digits,
            b"&#(?:0{0,4}" + str(code).encode() + b"|[xX]0{0,4}" + digits + b");",
        ]
    return b"(?:" + b"|".join(ways) + b")"
