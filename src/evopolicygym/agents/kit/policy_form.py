"""What a model needs to know to write a policy file: the task's own sections, and the form of the file."""

import ast
from collections.abc import Mapping
from typing import Any

LEFT_OUT = ("Budget", "Films", "Policy", "Rules")
"""Sections of a task's text that don't matter to a model that only writes the file."""
IDEA = "(the rule in one sentence)"
"""The placeholder of a policy's idea."""
FORM = '''\
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        """Called at the start of each episode."""

    def reset(self, episode_index):
        """Called once after that: set here what `act` remembers from step to step."""

    def act(self, obs):
        """Return the action: {action}. `obs` is {observation}."""
        # Idea: {idea}
        ...
'''


def essentials(task: str) -> str:
    """Return a task's text without the sections that don't matter to a model that only writes the file."""
    head, *sections = task.split("\n## ")
    return "\n## ".join([head, *(text for text in sections if text.partition("\n")[0].strip() not in LEFT_OUT)])


def policy_form(env_meta: Mapping[str, Any]) -> str:
    """Return a policy's file with dots in place of its rule; ``env_meta`` has the schemas of both spaces."""
    observation, action = (_describe(env_meta[name]) for name in ("obs_space", "action_space"))
    return FORM.format(observation=observation, action=action, idea=IDEA)


def rule_of(program: str) -> str:
    """Return the statements of a policy's ``act`` in one line; empty if they can't be read."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "act")
    body = next((node.body for node in functions), [])
    statements = (ast.unparse(node) for node in body if not isinstance(node, ast.Expr))
    return " ".join(" ".join(statements).split())


def _describe(space: Mapping[str, Any]) -> str:
    """Return what a value of a space is in Python."""
    match space["type"]:
        case "Discrete":
            start = space.get("start", 0)
            return f"an int from {start} to {start + space['n'] - 1}"
        case "Box":
            return f"a numpy array of shape {tuple(space['shape'])} and type {space['dtype']}"
        case "MultiDiscrete" | "MultiBinary":
            return "a numpy array of ints"
        case "Dict":
            return "a dict: " + "; ".join(f"{name!r} is {_describe(part)}" for name, part in space["spaces"].items())
        case "Tuple":
            return "a tuple: " + "; ".join(map(_describe, space["spaces"]))
        case _:
            return "a str"
