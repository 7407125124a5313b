"""Loops that play in languages with braces (C and its kin, JavaScript, Perl), by their words and marks.

It reads less well than what is known of Python: comments and texts are cut out, loops are matched by their braces.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from evopolicygym.analysis.conduct.control_words import is_ending, is_long_action, is_reward

NO_CODE = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
LOOP = re.compile(r"\b(?:for(?:each)?|while|loop)\b[^{;]*(?:;[^{;]*;[^{;]*)?\{?")
NAME = re.compile(r"[$@]?[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*)*")
ADDED = re.compile(r"([$@]?[A-Za-z_][\w.>\[\]-]*)\s*[+-]=\s*([^;\n]*)")
FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^(){};]*\)\s*(?:->\s*[\w<>]+\s*)?(?:=>\s*)?\{")
CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
TRIGONOMETRY = re.compile(r"\b(?:sin|cos|tan|atan2|hypot|sinf|cosf)\s*\(")
ACTING = frozenset({"act", "policy", "controller", "action", "control", "chooseAction", "choose_action"})
NO_FUNCTION = frozenset({"if", "for", "while", "switch", "main", "foreach"})
BRACE = re.compile(r"[{}]")
MOST_BLOCK = 20_000
"""Characters of a loop or a function that are looked at."""
MOST_LOOPS = 200
"""Loops, functions, and sums in a loop, that are looked at."""


@dataclass(frozen=True, slots=True)
class BraceRollout:
    """A loop that plays."""

    line: int
    action: str
    counts: bool


def brace_rollouts(text: str) -> Iterator[BraceRollout]:
    """Yield the innermost loops that play."""
    code = NO_CODE.sub(lambda found: "\n" * found.group().count("\n") or " ", text)
    functions = {
        found.group(1): _block(code, found.end() - 1)
        for found in islice(FUNCTION.finditer(code), MOST_LOOPS)
        if found.group(1) not in NO_FUNCTION
    }
    for found in islice(LOOP.finditer(code), MOST_LOOPS):
        head = found.group()
        body = _block(code, found.end() - 1) if head.endswith("{") else code[found.end() :].partition("\n")[0]
        whole = head + body
        if LOOP.search(body):
            continue
        called = [functions[name] for name in dict.fromkeys(CALLED.findall(whole)) if name in functions]
        action, counts = _played(whole, "\n".join(called))
        if action:
            yield BraceRollout(code.count("\n", 0, found.start()) + 1, action, counts)


def _block(code: str, start: int) -> str:
    depth = 0
    for found in BRACE.finditer(code, start, start + MOST_BLOCK):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return code[start : found.end()]
    return code[start : start + MOST_BLOCK]


def _played(loop: str, called: str) -> tuple[str, bool]:
    """Return the action of a loop, empty where it plays nothing, and whether something is counted."""
    both = f"{loop}\n{called}"
    added = [
        (found.group(1), {_last(one) for one in NAME.findall(found.group(2))})
        for found in islice(ADDED.finditer(both), MOST_LOOPS)
    ]
    states = {name for name, value in added if value and not is_reward(_last(name))}
    last = {_last(name) for name in states}
    moves = bool(TRIGONOMETRY.search(both)) or any(value & (last - {_last(name)}) for name, value in added)
    names = {_last(one) for one in NAME.findall(both)}
    action = next((one for one in sorted(names) if is_long_action(one)), "") or next(
        (f"{one}(…)" for one in sorted(set(CALLED.findall(loop)) & ACTING)), ""
    )
    counts = "break" in loop or "last" in names or any(is_reward(one) or is_ending(one) for one in names)
    return (action, counts) if len(states) > 1 and moves else ("", False)


def _last(name: str) -> str:
    return re.split(r"\.|->", name.lstrip("$@"))[-1].partition("[")[0]
