"""Environments that are given as a class or a function, and can't be imported by name: of a notebook or a script.

The id ``evopolicygym.environments.pickled:NAME`` names one; its code is the argument ``code`` of ``gymnasium.make``,
pickled by value, so that a run's record holds it. Python of another minor version can't read it.
"""

import base64
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import cloudpickle
import gymnasium

from evopolicygym.core.errors import UsageError

Maker = Callable[..., "gymnasium.Env[Any, Any]"]
"""A class of environments, or a function that returns one."""
CODE = "code"
"""The argument of ``gymnasium.make`` that holds the pickle."""


def reference_to(maker: Maker) -> tuple[str, dict[str, Any]]:
    """Return the id and the arguments of ``gymnasium.make`` for a class or a function.

    What another process can import by name is named, ``module:Class``; everything else is pickled. Raises
    ``UsageError`` if it can't be called without arguments, or not be pickled.
    """
    name, module = getattr(maker, "__qualname__", type(maker).__name__), getattr(maker, "__module__", "")
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid environment {name}: expected a class or a function that needs no arguments, got one that does "
            f"({error}). Example: lambda: {name}(...)"
        ) from error
    if module != "__main__" and getattr(import_module(module) if module else None, name, None) is maker:
        return f"{module}:{name}", {}
    try:
        code = cloudpickle.dumps(maker)
    except Exception as error:
        raise UsageError(
            f"Invalid environment {name}: it can't be handed to another process ({type(error).__name__}: {error}). "
            f"Define it in a module, and give it as 'module:Class'."
        ) from error
    plain = name.rpartition(".")[2].strip("<>")
    return f"{__name__}:{plain}", {CODE: base64.b64encode(code).decode()}


def __getattr__(name: str) -> Maker:
    """Return what makes the environment of a name, given its code."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _make


def _make(code: str, **arguments: Any) -> "gymnasium.Env[Any, Any]":  # noqa: ANN401 - as gymnasium.make has them
    """Return the environment; raise ``TypeError`` if it doesn't take the arguments."""
    maker: Maker = cloudpickle.loads(base64.b64decode(code))
    return maker(**arguments)
