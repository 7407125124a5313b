"""Takes a secret out of what passes by, should a server ever send it back: as it is, escaped, in base64 or in hex.

Lengths stay as they are. What names an account without being a secret is taken out of errors only.
"""

import base64
import re
from functools import lru_cache

LEAST = 16
"""A shorter word is no secret, and would be taken out of innocent text."""
_ACCOUNT = re.compile(rb"\b((?:org|proj|project|user|acct|account|key|sk)[-_])([A-Za-z0-9_*-]{6,})")
"""What may name an account, as a whole word: an agent may have a server repeat thousands of these to it."""
_NUMBERED = re.compile(rb"[0-9*]")
"""In ``org-1a2B3c4D``, but not in the code ``project_not_found``."""
_BREAK = rb"(?:[\r\n]|\\\\{0,7}[rn]|%(?:25){0,4}0[AaDd]){0,4}"
"""Between two characters: the end of a line, escaped or not, as base64 is often broken."""
_ESCAPE = re.compile(
    rb"\\\\{0,7}(?:u(?:0(?:0[0-9A-Fa-f]?)?)?|x[0-9A-Fa-f]?)?"
    rb"|%(?:25){0,4}(?:2|[0-9A-Fa-f])?|&(?:#(?:[xX]?[0-9A-Fa-f]{0,8})?)?"
)
"""An escaped character that may go on after the end of what has come."""
_GOING_ON = re.compile(_BREAK + b"(?:" + _ESCAPE.pattern + b")?")
LONGEST_ESCAPE = 24


class Mask:
    """Replaces a secret in a stream, wherever it is cut; holds back only what may be the beginning of one."""

    def __init__(self, secret: str) -> None:
        self._forms = _forms(secret) if len(secret) >= LEAST else ()
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be passed on."""
        if not self._forms:
            return chunk
        data = self._held + chunk
        for form in self._forms:
            data = form.whole.sub(lambda found: b"*" * len(found[0]), data)
        end = min(_escape_at_the_end(data), *(form.beginning(data) for form in self._forms))
        self._held = data[end:]
        return data[:end]

    def finish(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return held


def holds(secret: str, text: bytes) -> bool:
    """Return whether a whole text holds a secret in any form."""
    mask = Mask(secret)
    return mask.feed(text) + mask.finish() != text


class _Form:
    """A text in which each character may be escaped in ways of its own."""

    def __init__(self, characters: list[str]) -> None:
        """Take for each place the characters that may stand there."""
        tokens = [_token(choice) for choice in characters]
        compiled = {token: re.compile(_BREAK + token) for token in {*tokens}}
        self.whole = re.compile(_BREAK.join(tokens))
        self._first = re.compile(tokens[0])
        self._others = [compiled[token] for token in tokens[1:]]
        self._longest = len(tokens) * LONGEST_ESCAPE

    def beginning(self, data: bytes) -> int:
        """Return where the text may begin that goes on after the end of some data; the data's end where it can't."""
        start = max(0, len(data) - self._longest)
        for found in self._first.finditer(data, start):
            place = found.end()
            for token in self._others:
                if not (matched := token.match(data, place)):
                    break
                place = matched.end()
            if _GOING_ON.fullmatch(data, place):
                return found.start()
        return len(data)


def _escape_at_the_end(data: bytes) -> int:
    """Return where an escaped character begins that goes on after the end of some data; the data's end without one."""
    starts = range(max(0, len(data) - LONGEST_ESCAPE), len(data))
    return next((at for at in starts if data[at] in b"\\%&" and _ESCAPE.fullmatch(data, at)), len(data))


def mask_account(body: bytes) -> bytes:
    """Return an error without the names of organisations, projects, users and keys."""
    return _ACCOUNT.sub(lambda word: word[1] + b"***" if _NUMBERED.search(word[2]) else word[0], body)


@lru_cache(maxsize=4)
def _forms(secret: str) -> tuple[_Form, ...]:
    """Return a secret as it is, in hex, and in base64 wherever it may begin there, of both alphabets."""
    data = secret.encode()
    texts = [list(secret), [digit + digit.upper() if digit.isalpha() else digit for digit in data.hex()]]
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        whole = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        texts.append([{"+": "+-", "/": "/_"}.get(letter, letter) for letter in whole])
    return tuple(_Form(text) for text in texts)


def _token(choice: str) -> bytes:
    """Return a pattern of one character, as it is or escaped: for JSON (of any depth), an address, or HTML.

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
