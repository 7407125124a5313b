"""The simple commands of a shell's text, in order, each with its directory, input and output files.

The lexer reads quotes, here-documents and substitutions, and expands nothing. It reads what agents write, not all of
bash: it keeps what it can't parse as a word, and it never fails.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;|&\n(){}]")
REDIRECTION = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|<>|<&|>|<)")
HERE = re.compile(r"\d*<<(-?)[ \t]*")
PLAIN = re.compile(r"[^\s'\"\\$`;|&(){}<>#]+")
SEPARATORS = frozenset({"&&", "||", "|&", ";;", ";", "|", "&", "\n", "(", ")", "{", "}"})
MOST_DEPTH = 6
"""Limit on the nesting of substitutions."""


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
        result: list[Token] = []
        while self.at < len(self.text):
            token = self._next()
            if token is not None:
                result.append(token)
        self._fill_here()
        yield from result

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
        """Read one word, up to the next space or operator."""
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


KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "time", "fi", "done", "esac"})
NOT_RUN = frozenset({"for", "case", "select", "function"})
"""Words that begin a line which runs nothing itself."""
WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g"}),
    "nohup": frozenset(),
    "nice": frozenset({"-n"}),
    "stdbuf": frozenset({"-o", "-i", "-e"}),
    "env": frozenset({"-u", "-C"}),
    "exec": frozenset(),
    "command": frozenset(),
    "builtin": frozenset(),
    "time": frozenset(),
    "setsid": frozenset(),
    "timeout": frozenset({"-k", "-s"}),
    "xargs": frozenset({"-n", "-I", "-P", "-L", "-d", "-s"}),
    "parallel": frozenset({"-j"}),
}
"""Programs that run the command in their arguments, with those of their options that take a value."""
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
MOST_COMMANDS = 5_000
"""Simple commands of one text."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command with its redirections, as a shell would run it."""

    words: tuple[str, ...]
    text: str
    directory: str
    """The working directory: below the workspace, or absolute; empty for the workspace itself."""
    standard_input: str | None = None
    """The text of its input, if it is a here-document or the output of ``echo`` before a pipe."""
    writes: str = ""
    """The file to which its output goes."""
    targets: tuple[str, ...] = ()
    """Files that redirections name, for reading and for writing."""


def simple_commands(text: str, directory: str = "", depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield the commands of a text, those in substitutions and nested shells included, at most ``MOST_COMMANDS``."""
    for number, command in enumerate(_commands(text, directory, depth)):
        if number >= MOST_COMMANDS:
            return
        yield command


def _commands(text: str, directory: str, depth: int) -> Iterator[SimpleCommand]:
    piped: str | None = None
    for tokens, ending in _groups(ShellLexer(text).tokens()):
        if not tokens:
            continue
        if depth < MOST_DEPTH:
            for token in tokens:
                for inside in token.inside:
                    yield from _commands(inside, directory, depth + 1)
        command = _command(text, tokens, directory, piped)
        piped = _printed_text(command) if ending in {"|", "|&"} else None
        if not command.words and not command.writes:
            continue
        if command.words and command.words[0] in {"cd", "pushd"}:
            directory = resolve_path(directory, command.words[1] if len(command.words) > 1 else "~")
        yield command
        if (inner := _inner_script(command)) and depth < MOST_DEPTH:
            yield from _commands(inner, directory, depth + 1)


def resolve_path(directory: str, path: str) -> str:
    """Return a path relative to a directory, normalised; a path above the workspace begins with ``..``."""
    joined = posixpath.normpath(posixpath.join(directory, path)) if path else directory
    return "" if joined == "." else joined


def _groups(tokens: Iterator[Token]) -> Iterator[tuple[list[Token], str]]:
    group: list[Token] = []
    for token in tokens:
        if token.is_operator and token.text in SEPARATORS:
            yield group, token.text
            group = []
        else:
            group.append(token)
    yield group, ""


def _command(text: str, tokens: Sequence[Token], directory: str, piped: str | None) -> SimpleCommand:
    words, targets = list[str](), list[str]()
    standard_input, writes = piped, ""
    waiting = iter(tokens)
    for token in waiting:
        if token.here is not None:
            standard_input = token.here
        elif token.is_redirection:
            target = next(waiting, None)
            if target is None or (token.text.endswith("&") and target.text.isdigit()):
                continue
            if token.text == "<<<":
                standard_input = target.text
                continue
            targets.append(target.text)
            writes = target.text if ">" in token.text and not token.text.startswith("2") else writes
        else:
            words.append(token.text)
    shown = text[tokens[0].start : tokens[-1].start + len(tokens[-1].text)] if tokens else ""
    return SimpleCommand(tuple(_strip_prefixes(words)), shown, directory, standard_input, writes, tuple(targets))


def _strip_prefixes(words: list[str]) -> list[str]:
    """Return the words of the command itself, without keywords, variables and wrappers before it."""
    while words:
        first = words[0]
        if first in NOT_RUN:
            return []
        if first in KEYWORDS or _is_assignment(first):
            words = words[1:]
            continue
        options = WRAPPERS.get(first.rsplit("/", 1)[-1])
        if options is None:
            return words
        words = _strip_wrapper(words, options)
    return words


def _strip_wrapper(words: Sequence[str], options: frozenset[str]) -> list[str]:
    at = 1
    while at < len(words) and (words[at].startswith("-") or _is_assignment(words[at])):
        at += 2 if words[at] in options else 1
    at += words[0].endswith("timeout") and at < len(words)
    return list(words[at:])


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _printed_text(command: SimpleCommand) -> str | None:
    """Return the output of a command, if its words determine it."""
    match command.words[:1]:
        case ("echo" | "printf",):
            return " ".join(word for word in command.words[1:] if not word.startswith("-")) + "\n"
        case ("cat",) if len(command.words) == 1:
            return command.standard_input
        case _:
            return None


def _inner_script(command: SimpleCommand) -> str:
    """Return the script that a command passes to another shell; empty if there is none."""
    if not command.words:
        return ""
    name = command.words[0].rsplit("/", 1)[-1]
    if name == "eval":
        return " ".join(command.words[1:])
    if name not in SHELLS:
        return ""
    for at, word in enumerate(command.words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return command.words[at + 1] if at + 1 < len(command.words) else ""
        if not word.startswith("-"):
            return ""
    return command.standard_input or ""
