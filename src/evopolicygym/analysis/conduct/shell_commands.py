"""The simple commands of a shell's text, in order: what is run, in which directory, on what input, written where."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.conduct.shell_lexer import MOST_DEPTH, SEPARATORS, ShellLexer, Token

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
    """Below the workspace, or absolute; empty for the workspace itself."""
    standard_input: str | None = None
    """Its text, where it stands in the command: a here-document, or what ``echo`` before a pipe prints."""
    writes: str = ""
    """The file to which its output goes."""
    targets: tuple[str, ...] = ()
    """Files that redirections name, for reading and for writing."""


def simple_commands(text: str, directory: str = "", depth: int = 0) -> Iterator[SimpleCommand]:
    """Yield what a text runs, substitutions and shells within it included, at most ``MOST_COMMANDS``."""
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
        piped = _printed(command) if ending in {"|", "|&"} else None
        if not command.words and not command.writes:
            continue
        if command.words and command.words[0] in {"cd", "pushd"}:
            directory = moved(directory, command.words[1] if len(command.words) > 1 else "~")
        yield command
        if (inner := _inner(command)) and depth < MOST_DEPTH:
            yield from _commands(inner, directory, depth + 1)


def moved(directory: str, path: str) -> str:
    """Return a path as seen from a directory, shortened; one that leads above the workspace begins with ``..``."""
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
    given, writes = piped, ""
    waiting = iter(tokens)
    for token in waiting:
        if token.here is not None:
            given = token.here
        elif token.is_redirection:
            target = next(waiting, None)
            if target is None or (token.text.endswith("&") and target.text.isdigit()):
                continue
            if token.text == "<<<":
                given = target.text
                continue
            targets.append(target.text)
            writes = target.text if ">" in token.text and not token.text.startswith("2") else writes
        else:
            words.append(token.text)
    shown = text[tokens[0].start : tokens[-1].start + len(tokens[-1].text)] if tokens else ""
    return SimpleCommand(tuple(_run(words)), shown, directory, given, writes, tuple(targets))


def _run(words: list[str]) -> list[str]:
    """Return the words of the command itself, without what stands before it: keywords, variables, wrappers."""
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
        words = _wrapped(words, options)
    return words


def _wrapped(words: Sequence[str], options: frozenset[str]) -> list[str]:
    at = 1
    while at < len(words) and (words[at].startswith("-") or _is_assignment(words[at])):
        at += 2 if words[at] in options else 1
    at += words[0].endswith("timeout") and at < len(words)
    return list(words[at:])


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _printed(command: SimpleCommand) -> str | None:
    """Return what a command prints, where its words say it."""
    match command.words[:1]:
        case ("echo" | "printf",):
            return " ".join(word for word in command.words[1:] if not word.startswith("-")) + "\n"
        case ("cat",) if len(command.words) == 1:
            return command.standard_input
        case _:
            return None


def _inner(command: SimpleCommand) -> str:
    """Return the text that a command has another shell run; empty where it does nothing of the kind."""
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
