"""The words and operators of a shell's text, with its quotes, here-documents and substitutions; nothing is expanded.

It reads what agents write, not all that bash takes: what it can't make out it keeps as a word, and it never fails.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;|&\n(){}]")
REDIRECTION = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|<>|<&|>|<)")
HERE = re.compile(r"\d*<<(-?)[ \t]*")
PLAIN = re.compile(r"[^\s'\"\\$`;|&(){}<>#]+")
SEPARATORS = frozenset({"&&", "||", "|&", ";;", ";", "|", "&", "\n", "(", ")", "{", "}"})
MOST_DEPTH = 6
"""Substitutions within substitutions that are looked into."""


@dataclass(slots=True)
class Token:
    """A word or an operator."""

    text: str
    start: int
    is_operator: bool = False
    is_redirection: bool = False
    here: str | None = None
    """The text of a here-document, where the token begins one."""
    inside: list[str] = field(default_factory=list)
    """The texts of commands that are substituted in the word."""


class ShellLexer:
    """Reads the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._waiting: list[tuple[Token, str, bool]] = []
        """Here-documents that begin at the next line: token, delimiter, whether tabs are stripped."""

    def tokens(self) -> Iterator[Token]:
        """Yield all tokens; here-documents are filled in once the line that begins them has ended."""
        found: list[Token] = []
        while self.at < len(self.text):
            token = self._next()
            if token is not None:
                found.append(token)
        self._fill_here()
        yield from found

    def _next(self) -> Token | None:
        text, at = self.text, self.at
        char = text[at]
        if char == "\n":
            self.at += 1
            self._fill_here()
            return Token("\n", at, is_operator=True)
        if char.isspace():
            self.at += 1
            return None
        if text.startswith("\\\n", at):
            self.at += 2
            return None
        if char == "#":
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end
            return None
        if (match := HERE.match(text, at)) and not text.startswith("<<<", match.start()):
            return self._here(match)
        if text.startswith("<<<", at):
            self.at += 3
            return Token("<<<", at, is_redirection=True)
        if match := REDIRECTION.match(text, at):
            self.at = match.end()
            return Token(match.group(), at, is_redirection=True)
        if (match := OPERATOR.match(text, at)) and not self._is_brace_word(match):
            self.at = match.end()
            return Token(match.group(), at, is_operator=True)
        return self._word()

    def _is_brace_word(self, match: re.Match[str]) -> bool:
        """Return whether a brace is part of a word, as ``{}`` and ``{a,b}`` are, and no group."""
        after = self.text[match.end() : match.end() + 1]
        return match.group() == "{" and bool(after) and not after.isspace()

    def _here(self, match: re.Match[str]) -> Token:
        self.at = match.end()
        word = self._word()
        token = Token("<<", match.start(), is_redirection=True, here="")
        self._waiting.append((token, word.text, match.group(1) == "-"))
        return token

    def _fill_here(self) -> None:
        for token, delimiter, stripped in self._waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                line = line.lstrip("\t") if stripped else line
                if line.rstrip("\r") == delimiter:
                    break
                lines.append(line)
            token.here = "\n".join(lines) + "\n" if lines else ""
        self._waiting.clear()

    def _word(self) -> Token:
        """Read one word: its parts stand together without spaces."""
        start, parts, inside = self.at, list[str](), list[str]()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "'":
                parts.append(self._until("'", self.at + 1))
            elif char == '"':
                parts.append(self._double(inside))
            elif char == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif self.text.startswith("$'", self.at):
                parts.append(self._until("'", self.at + 2).replace("\\n", "\n").replace("\\t", "\t"))
            elif char in "$`":
                parts.append(self._substitution(inside))
            elif char in "{}":
                parts.append(char)
                self.at += 1
            elif (match := PLAIN.match(self.text, self.at)) or (char == "#" and parts):
                parts.append(match.group() if match else char)
                self.at += len(parts[-1])
            else:
                break
        if self.at == start:  # nothing that begins a word: it is passed over
            self.at += 1
        return Token("".join(parts), start, inside=inside)

    def _until(self, quote: str, start: int) -> str:
        end = self.text.find(quote, start)
        end = len(self.text) if end < 0 else end
        self.at = end + 1
        return self.text[start:end]

    def _double(self, inside: list[str]) -> str:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in {'"', "\\", "$", "`", "\n"}:
                parts.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif char in "$`":
                parts.append(self._substitution(inside))
            else:
                parts.append(char)
                self.at += 1
        self.at += 1
        return "".join(parts)

    def _substitution(self, inside: list[str]) -> str:
        """Read ``$(…)``, backquotes or a variable, which stay in the word as they are written."""
        start = self.at
        if self.text[start] == "`":
            inside.append(self._until("`", start + 1))
        elif self.text.startswith("$(", start):
            self.at = _closing(self.text, start + 1, "(", ")")
            if not self.text.startswith("$((", start):
                inside.append(self.text[start + 2 : self.at - 1])
        elif self.text.startswith("${", start):
            self.at = _closing(self.text, start + 1, "{", "}")
        else:
            self.at += 1
        return self.text[start : self.at]


def _closing(text: str, start: int, opening: str, closing: str) -> int:
    """Return the place behind the bracket that closes the one at ``start``."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == closing)
        if depth == 0:
            return at + 1
    return len(text)
