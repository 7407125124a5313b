"""Loops of a program that simulate episodes: they carry a state, change it by an action, and count something.

Python loops are found by how values flow and by the words that programs use for actions, rewards and endings; loops in
languages with braces (C and its kin, JavaScript, Perl) by words and marks alone. A loop whose actions come from
recorded episodes is not a rollout: it fits or filters data.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from evopolicygym.analysis.conduct.data_flow import (
    STEPPING,
    LoopFlow,
    LoopWrite,
    loop_flow,
    loops_of,
    name_of,
    names_in,
    nodes_of,
    reachable_bodies,
    statements,
    target_names,
)
from evopolicygym.analysis.conduct.python_program import PythonModule, PythonProgram, called_name

LONG_ACTIONS = frozenset(
    {"action", "actions", "act", "torque", "torques", "force", "forces", "push", "thrust", "throttle", "throttles"}
    | {"steer", "steering", "control", "controls", "ctrl", "command", "cmd", "accel", "acceleration", "motor", "gas"}
    | {"brake", "tau", "kick", "voltage", "move", "impulse", "engine", "rudder", "pedal"}
)
SHORT_ACTIONS = frozenset({"a", "u", "f", "act0", "ac"})
"""Names of one letter count only together with dynamics."""
ACTING = frozenset(
    {"act", "policy", "controller", "choose_action", "select_action", "get_action", "decide", "agent", "pi"}
    | {"compute_action", "action", "control", "torque", "steer"}
)
"""Functions that return an action."""
REWARDS = frozenset(
    {"reward", "rewards", "r", "rew", "ret", "rets", "return", "returns", "total", "tot", "score", "scores", "cost"}
    | {"costs", "fitness", "loss", "wins", "win", "success", "successes", "value", "ep", "R", "T", "G", "c"}
    | {"episode_return", "episode_reward", "total_reward", "cum_reward", "result", "results", "sum"}
)
FEWEST_LETTERS = 3
"""Least length of a significant part of a name."""
ENDINGS = frozenset(
    {"done", "terminated", "truncated", "term", "trunc", "crashed", "landed", "won", "alive", "fallen", "over", "goal"}
    | {"reached", "finished", "success", "dead"}
)
STEPS = re.compile(
    r"(?:^|_)(?:step|steps|dynamics|simulate|sim|transition|advance|integrate|integrator|rk4|euler|physics|"
    r"next_state|predict|model|forward|propagate|imagine|env|world)(?:_|$)",
    re.IGNORECASE,
)
"""Names of functions that take a state to the next one."""
TRIGONOMETRY = frozenset({"sin", "cos", "tan", "arctan2", "atan2", "hypot"})


def parts(name: str) -> str:
    """Return a name's last part, without the object that it belongs to and without numbers behind it."""
    return name.rpartition(".")[2].rstrip("0123456789_") or name


def is_long_action(name: str) -> bool:
    """Return whether a name says that it is an action."""
    words = parts(name).lower().split("_")
    return parts(name).lower() in LONG_ACTIONS or words[-1] in LONG_ACTIONS or words[0] in {"action", "torque", "force"}


def is_reward(name: str) -> bool:
    """Return whether a name says that it is a reward, a return or a score."""
    whole = parts(name)
    return whole in REWARDS or not REWARDS.isdisjoint(
        word for word in whole.lower().split("_") if len(word) >= FEWEST_LETTERS
    )


def is_ending(name: str) -> bool:
    """Return whether a name says that an episode is over."""
    return not ENDINGS.isdisjoint(parts(name).lower().split("_"))


NO_CODE = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
LOOP = re.compile(r"\b(?:for(?:each)?|while|loop)\b[^{;]*(?:;[^{;]*;[^{;]*)?\{?")
NAME = re.compile(r"[$@]?[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*)*")
ADDED = re.compile(r"([$@]?[A-Za-z_][\w.>\[\]-]*)\s*[+-]=\s*([^;\n]*)")
FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^(){};]*\)\s*(?:->\s*[\w<>]+\s*)?(?:=>\s*)?\{")
CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
BRACE_TRIGONOMETRY = re.compile(r"\b(?:sin|cos|tan|atan2|hypot|sinf|cosf)\s*\(")
BRACE_ACTING = frozenset({"act", "policy", "controller", "action", "control", "chooseAction", "choose_action"})
NO_FUNCTION = frozenset({"if", "for", "while", "switch", "main", "foreach"})
BRACE = re.compile(r"[{}]")
MOST_BLOCK = 20_000
"""Limit on the characters of a loop or a function."""
MOST_LOOPS = 200
"""Limit on the loops, on the functions, and on the sums in a loop."""


@dataclass(frozen=True, slots=True)
class BraceRollout:
    """A loop that plays."""

    line: int
    action: str
    counts: bool


def brace_rollouts(text: str) -> Iterator[BraceRollout]:
    """Yield the innermost loops that play."""
    code = NO_CODE.sub(lambda match: "\n" * match.group().count("\n") or " ", text)
    functions = {
        match.group(1): _block(code, match.end() - 1)
        for match in islice(FUNCTION.finditer(code), MOST_LOOPS)
        if match.group(1) not in NO_FUNCTION
    }
    for match in islice(LOOP.finditer(code), MOST_LOOPS):
        head = match.group()
        body = _block(code, match.end() - 1) if head.endswith("{") else code[match.end() :].partition("\n")[0]
        whole = head + body
        if LOOP.search(body):
            continue
        called = [functions[name] for name in dict.fromkeys(CALLED.findall(whole)) if name in functions]
        action, counts = _find_action(whole, "\n".join(called))
        if action:
            yield BraceRollout(code.count("\n", 0, match.start()) + 1, action, counts)


def _block(code: str, start: int) -> str:
    depth = 0
    for match in BRACE.finditer(code, start, start + MOST_BLOCK):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return code[start : match.end()]
    return code[start : start + MOST_BLOCK]


def _find_action(loop: str, called: str) -> tuple[str, bool]:
    """Return the action of a loop, empty if it is not a rollout, and whether it counts something."""
    both = f"{loop}\n{called}"
    added = [
        (match.group(1), {_last(name) for name in NAME.findall(match.group(2))})
        for match in islice(ADDED.finditer(both), MOST_LOOPS)
    ]
    states = {name for name, value in added if value and not is_reward(_last(name))}
    last = {_last(name) for name in states}
    moves = bool(BRACE_TRIGONOMETRY.search(both)) or any(value & (last - {_last(name)}) for name, value in added)
    names = {_last(name) for name in NAME.findall(both)}
    action = next((name for name in sorted(names) if is_long_action(name)), "") or next(
        (f"{name}(…)" for name in sorted(set(CALLED.findall(loop)) & BRACE_ACTING)), ""
    )
    counts = "break" in loop or "last" in names or any(is_reward(name) or is_ending(name) for name in names)
    return (action, counts) if len(states) > 1 and moves else ("", False)


def _last(name: str) -> str:
    return re.split(r"\.|->", name.lstrip("$@"))[-1].partition("[")[0]


READERS = frozenset(
    {"open", "load", "loads", "loadtxt", "genfromtxt", "read_csv", "read_json", "read_text", "read_bytes", "glob"}
    | {"fromfile", "read", "readlines", "iglob", "rglob", "listdir", "DictReader", "urlopen"}
)
"""Functions and methods that return what is in files."""
ADDING = frozenset({"append", "extend", "update", "add", "insert", "setdefault"})
MOST_ROUNDS = 12


def names_from_files(program: PythonProgram) -> frozenset[str]:
    """Return the names, in any function, that hold data from files."""
    flows = [flow for module in program.modules.values() for flow in _flows(program, module)]
    names: set[str] = set()
    for _ in range(MOST_ROUNDS):
        size = len(names)
        names |= {target for target, reads, is_read in flows if is_read or not reads.isdisjoint(names)}
        if len(names) == size:
            break
    return frozenset(names)


def recorded_names(flow: LoopFlow, from_files: frozenset[str]) -> frozenset[str]:
    """Return the names that hold another piece of recorded data in each turn of a loop.

    Those are what its head takes from recorded data, and what its body takes from there by a number that it counts.
    """
    names: set[str] = set()
    head = getattr(flow.loop, "iter", None)
    is_range = isinstance(head, ast.Call) and called_name(head) == "range"
    if head is not None and not is_range and (flow.source & from_files or _has_reader(head)):
        names |= flow.targets
    for write in flow.writes:
        if write.value is None and not write.reads.isdisjoint(from_files):
            names.add(write.target)
        for node in ast.walk(write.value) if write.value else ():
            if isinstance(node, ast.Subscript) and name_of(node) in from_files and _is_counted(node, flow):
                names.add(write.target)
    return frozenset(names)


def _is_counted(node: ast.Subscript, flow: LoopFlow) -> bool:
    return not names_in(node.slice).isdisjoint(flow.targets | flow.carried)


def _has_reader(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and called_name(part) in READERS for part in ast.walk(node))


def _flows(program: PythonProgram, module: PythonModule) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the flows of a module: a name, the names that its value reads, and whether the value reads a file."""
    bodies = [module.tree.body, *(function.body for function in _functions(module))]
    for body in bodies:
        for statement, _ in statements(body):
            yield from _statement_flows(statement)
    for node in ast.walk(module.tree):
        match node:
            case ast.comprehension(target=target, iter=source):
                yield from ((name, names_in(source), _has_reader(source)) for name in names_in(target))
            case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=args) if attr in ADDING:
                yield name_of(inner), frozenset().union(*map(names_in, args)), any(map(_has_reader, args))
            case ast.Call(func=func, args=args):
                for _, function in program.function(module, func):
                    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
                    yield from ((name, names_in(part), False) for name, part in zip(names, args, strict=False))


def _functions(module: PythonModule) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _statement_flows(statement: ast.stmt) -> Iterator[tuple[str, frozenset[str], bool]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from (
                (name, names_in(value), _has_reader(value)) for target in targets for name in target_names(target)
            )
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from ((name, names_in(value), _has_reader(value)) for name in target_names(target))
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            yield from ((name, names_in(source), _has_reader(source)) for name in target_names(target))
        case ast.With(items=items):
            for item in items:
                if item.optional_vars is not None:
                    reads, is_read = names_in(item.context_expr), _has_reader(item.context_expr)
                    yield from ((name, reads, is_read) for name in target_names(item.optional_vars))


INTEGRATORS = frozenset({"solve_ivp", "odeint", "ode", "RK45", "solve_ivp_fixed", "odeintw"})


@dataclass(frozen=True, slots=True)
class Rollout:
    """A loop that plays, or an integrator's call that does."""

    module: str
    line: int
    state: tuple[str, ...]
    action: str
    counts: bool
    """Whether it counts a reward, or ends where an episode would."""
    is_fitted: bool
    """Whether what it computes with comes from files: a model of the agent's own feedback."""


def rollouts(program: PythonProgram, body: list[ast.stmt]) -> Iterator[Rollout]:
    """Yield the rollouts in all that a body runs, in no order."""
    from_files = names_from_files(program)
    for module, part in reachable_bodies(program, body):
        for loop in loops_of(part):
            flow = loop_flow(loop)
            rollout = _rollout(program, module, flow, from_files) if flow else None
            if rollout:
                yield rollout
        yield from _integrator_rollouts(program, module, part, from_files)


def _rollout(
    program: PythonProgram, module: PythonModule, flow: LoopFlow, from_files: frozenset[str]
) -> Rollout | None:
    recorded = recorded_names(flow, from_files)
    states = {name for name in flow.carried if _is_state(flow, name)}
    moves = _has_dynamics(program, module, flow, states)
    action, moved = _action(flow, states, recorded, moves)
    counts = _counts(flow, moved)
    if not action or not (moves or counts):
        return None
    functions = [function for call in flow.calls for function in program.function(module, call.func)]
    read = {name for write in flow.writes for name in write.reads}
    read |= {name for _, function in functions for name in names_in(function)}
    fitted = not (read - flow.written - flow.targets).isdisjoint(from_files)
    return Rollout(module.name, flow.loop.lineno, tuple(sorted(moved)), action, counts, fitted)


def _is_state(flow: LoopFlow, name: str) -> bool:
    """Return whether a carried name is more than a counter or a sum: it depends on names, and names depend on it."""
    own = [write for write in flow.writes if write.target == name]
    if all(write.is_added and write.reads <= {name} for write in own):
        return False
    used_in_calls = any(name in names_in(argument) for call in flow.calls for argument in call.args)
    return bool(flow.feeds(name)) or used_in_calls or any(not write.is_added and name in write.reads for write in own)


def _action(
    flow: LoopFlow,
    states: set[str],
    recorded: frozenset[str],
    moves: bool,  # noqa: FBT001 - of two findings
) -> tuple[str, set[str]]:
    """Return the action of a loop and the states that it changes; empty if it has no action."""
    made_of = {state: flow.origins(state) for state in states}
    for name in sorted(flow.written | flow.targets, key=lambda candidate: not is_long_action(candidate)):
        if not (is_long_action(name) or (moves and name in SHORT_ACTIONS)) or name in states:
            continue
        if name in recorded or flow.origins(name, frozenset(states)) & recorded:
            continue
        moved = {state for state in states if name in made_of[state]}
        if moved:
            return name, moved
    for write in flow.writes:
        call = _acting_call(write)
        if call and not (write.reads & recorded) and (write.target in states or flow.feeds(write.target) & states):
            return call, {write.target} if write.target in states else set(flow.feeds(write.target) & states)
    return "", set()


def _acting_call(write: LoopWrite) -> str:
    """Return the call that chooses an action within a write: a policy's call, or a step from a state to the next."""
    for node in ast.walk(write.value) if write.value else ():
        if not isinstance(node, ast.Call):
            continue
        name = called_name(node)
        if name in ACTING:
            return f"{name}(…)"
        argument_names = frozenset().union(*map(names_in, node.args)) if node.args else frozenset()
        if len(node.args) > 1 and STEPS.search(name) and write.target in argument_names:
            return f"{name}(…)"
        if name in STEPPING and node.args and any(is_long_action(argument) for argument in argument_names):
            return f"{name}(…)"
    return ""


def _has_dynamics(program: PythonProgram, module: PythonModule, flow: LoopFlow, states: set[str]) -> bool:
    """Return whether a loop moves its states as physics or a world does."""
    for write in flow.writes:
        if write.target not in states or write.value is None:
            continue
        others = (write.reads & states) - {write.target}
        if write.is_added and others:
            return True
        for node in ast.walk(write.value):
            if isinstance(node, ast.Call) and (called_name(node) in TRIGONOMETRY or _steps(program, module, node)):
                return True
    return any(_is_map_of(node, states) for node in ast.walk(flow.loop))


def _steps(program: PythonProgram, module: PythonModule, call: ast.Call) -> bool:
    name = called_name(call)
    if STEPS.search(name) and (call.args or name in STEPPING):
        return True
    return any(
        isinstance(node, ast.Call) and called_name(node) in TRIGONOMETRY
        for _, function in program.function(module, call.func)
        for node in nodes_of(function.body)
    )


def _is_map_of(node: ast.AST, states: set[str]) -> bool:
    """Return whether a node looks up a cell of a world next to a state: ``MAP[y + dy]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.BinOp)
        and not names_in(node.slice).isdisjoint(states)
        and len(names_in(node.slice)) > 1
    )


def _counts(flow: LoopFlow, moved: set[str]) -> bool:
    """Return whether a loop counts a reward, or ends where an episode would."""
    names = flow.written | flow.targets
    if any(is_reward(name) or is_ending(name) for name in names):
        return True
    return not flow.ends_on.isdisjoint(moved)


def _integrator_rollouts(
    program: PythonProgram, module: PythonModule, body: list[ast.stmt], from_files: frozenset[str]
) -> Iterator[Rollout]:
    """Yield the calls that have a library integrate a function with an action in it."""
    counts = any(isinstance(node, ast.Name) and is_reward(node.id) for node in nodes_of(body))
    for node in nodes_of(body):
        if not (isinstance(node, ast.Call) and called_name(node) in INTEGRATORS and node.args):
            continue
        for _, function in program.function(module, node.args[0]):
            inside = names_in(function)
            calls = {called_name(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
            actions = sorted(name for name in inside | calls if is_long_action(name) or name in SHORT_ACTIONS | ACTING)
            recorded = "interp" in calls and not inside.isdisjoint(from_files)
            if actions and not recorded:
                yield Rollout(module.name, node.lineno, ("y",), actions[0], counts, not inside.isdisjoint(from_files))
