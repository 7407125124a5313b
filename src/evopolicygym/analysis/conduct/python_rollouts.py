"""Loops of a Python program that play: a state that is carried on, an action that changes it, and what is counted.

What is looked at is how values flow (``loop_flow.py``), and the words that programs use (``control_words.py``). Loops
whose actions are those of recorded episodes are none: they fit or filter what was played.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from evopolicygym.analysis.conduct.control_words import (
    ACTING,
    SHORT_ACTIONS,
    STEPS,
    TRIGONOMETRY,
    is_ending,
    is_long_action,
    is_reward,
)
from evopolicygym.analysis.conduct.loop_flow import STEPPING, LoopFlow, LoopWrite, loop_flow, names_in
from evopolicygym.analysis.conduct.python_program import PythonModule, PythonProgram, called_name
from evopolicygym.analysis.conduct.python_reach import loops, nodes, reached
from evopolicygym.analysis.conduct.recorded_data import names_from_files, recorded_names

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
    for module, part in reached(program, body):
        for loop in loops(part):
            flow = loop_flow(loop)
            found = _rollout(program, module, flow, from_files) if flow else None
            if found:
                yield found
        yield from _integrated(program, module, part, from_files)


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
    functions = [one for call in flow.calls for one in program.function(module, call.func)]
    read = {name for write in flow.writes for name in write.reads}
    read |= {name for _, function in functions for name in names_in(function)}
    fitted = not (read - flow.written - flow.targets).isdisjoint(from_files)
    return Rollout(module.name, flow.loop.lineno, tuple(sorted(moved)), action, counts, fitted)


def _is_state(flow: LoopFlow, name: str) -> bool:
    """Return whether a carried name is more than a counter or a sum: something is made of it, and it of something."""
    own = [one for one in flow.writes if one.target == name]
    if all(one.is_added and one.reads <= {name} for one in own):
        return False
    used_in_calls = any(name in names_in(argument) for call in flow.calls for argument in call.args)
    return bool(flow.feeds(name)) or used_in_calls or any(not one.is_added and name in one.reads for one in own)


def _action(
    flow: LoopFlow,
    states: set[str],
    recorded: frozenset[str],
    moves: bool,  # noqa: FBT001 - of two findings
) -> tuple[str, set[str]]:
    """Return the action of a loop and the states that it changes; nothing where there is none."""
    made_of = {state: flow.origins(state) for state in states}
    for name in sorted(flow.written | flow.targets, key=lambda one: not is_long_action(one)):
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
    """Return what chooses an action within a write: a policy's call, or a step from a state to the next."""
    for node in ast.walk(write.value) if write.value else ():
        if not isinstance(node, ast.Call):
            continue
        name = called_name(node)
        if name in ACTING:
            return f"{name}(…)"
        given = frozenset().union(*map(names_in, node.args)) if node.args else frozenset()
        if len(node.args) > 1 and STEPS.search(name) and write.target in given:
            return f"{name}(…)"
        if name in STEPPING and node.args and any(is_long_action(one) for one in given):
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
        for node in nodes(function.body)
    )


def _is_map_of(node: ast.AST, states: set[str]) -> bool:
    """Return whether a cell of a world is looked up beside where a state is: ``MAP[y + dy]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.BinOp)
        and not names_in(node.slice).isdisjoint(states)
        and len(names_in(node.slice)) > 1
    )


def _counts(flow: LoopFlow, moved: set[str]) -> bool:
    """Return whether a loop counts what it plays is worth, or ends where an episode would."""
    names = flow.written | flow.targets
    if any(is_reward(name) or is_ending(name) for name in names):
        return True
    return not flow.ends_on.isdisjoint(moved)


def _integrated(
    program: PythonProgram, module: PythonModule, body: list[ast.stmt], from_files: frozenset[str]
) -> Iterator[Rollout]:
    """Yield the calls that have a library integrate a function with an action in it."""
    counts = any(isinstance(node, ast.Name) and is_reward(node.id) for node in nodes(body))
    for node in nodes(body):
        if not (isinstance(node, ast.Call) and called_name(node) in INTEGRATORS and node.args):
            continue
        for _, function in program.function(module, node.args[0]):
            inside = names_in(function)
            calls = {called_name(one) for one in ast.walk(function) if isinstance(one, ast.Call)}
            actions = sorted(name for name in inside | calls if is_long_action(name) or name in SHORT_ACTIONS | ACTING)
            recorded = "interp" in calls and not inside.isdisjoint(from_files)
            if actions and not recorded:
                yield Rollout(module.name, node.lineno, ("y",), actions[0], counts, not inside.isdisjoint(from_files))
