"""Environments that are given as a class or a function, and can't be imported by name: of a notebook or a script.

The id ``evopolicygym.environments.pickled:NAME`` names one; its code is the argument ``code`` of ``gymnasium.make``,
pickled by value, so that a run's record holds it. Python of another minor version can't read it.
"""

import base64
import inspect
import io
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle
import gymnasium

from evopolicygym.core.errors import UsageError
from evopolicygym.environments.versions import without_installed

Maker = Callable[..., "gymnasium.Env[Any, Any]"]
"""A class of environments, or a function that returns one."""
CODE = "code"
"""The argument of ``gymnasium.make`` that holds the pickle."""
DRAWN = re.compile("[0-9a-f]{32}")
"""A number that cloudpickle draws for a class, as hexadecimal digits."""
MOST_CODE = 1 << 20
"""Most bytes of a pickle, which a run's document, its event log and requests to workers have."""


def reference_to(maker: Maker) -> tuple[str, dict[str, Any], list[str]]:
    """Return the id, the arguments of ``gymnasium.make`` and the modules of a class or a function.

    What another process can import by name is named, ``module:Class``; everything else is pickled, and the modules are
    those that it refers to. Raises ``UsageError`` if it can't be called without arguments, or not be pickled.
    """
    name, module = getattr(maker, "__qualname__", type(maker).__name__), getattr(maker, "__module__", "")
    try:
        inspect.signature(maker).bind()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid environment {name}: expected a class or a function that needs no arguments, got one that does "
            f"({error}). Example: lambda: {name}(...)"
        ) from error
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is maker:
        return f"{module}:{name}", {}, []
    code = io.BytesIO()
    pickler = _Pickler(code)
    try:
        pickler.dump(maker)
    except Exception as error:
        raise UsageError(
            f"Invalid environment {name}: it can't be handed to another process ({type(error).__name__}: {error}). "
            f"Define it in a module, and give it as 'module:Class'."
        ) from error
    if (size := len(code.getbuffer())) > MOST_CODE:
        raise UsageError(
            f"Invalid environment {name}: expected at most {MOST_CODE:,} bytes of code with the values that it uses, "
            f"got {size:,}. Define it in a module, or read its data from a file."
        )
    plain = name.rpartition(".")[2].strip("<>")
    modules = without_installed(pickler.modules)
    return f"{__name__}:{plain}", {CODE: base64.b64encode(code.getvalue()).decode()}, modules


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle has no types
    """Pickles the same code to the same bytes in every process, and collects the modules that it refers to."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: list[str] = []

    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401 - as pickle has it
        """Return what an object is made of; ``NotImplemented`` where pickle knows."""
        if isinstance(obj, CodeType):  # a file's directory differs between machines, a notebook's between kernels
            made, arguments = self.dispatch_table[CodeType](obj.replace(co_filename=Path(obj.co_filename).name))
            return made, tuple(_ordered(given) if isinstance(given, tuple) else given for given in arguments)
        if isinstance(obj, FunctionType):
            self.globals_ref.setdefault(id(obj.__globals__), {"__name__": obj.__globals__.get("__name__")})
        reduced = super().reducer_override(obj)
        if isinstance(obj, ModuleType):
            self.modules.append(obj.__name__)
        elif reduced is NotImplemented and isinstance(obj, type | FunctionType | BuiltinFunctionType):
            self.modules.append(obj.__module__ or "")
        elif isinstance(obj, type) and isinstance(reduced, tuple):  # without the random number that names the class
            made, arguments, *others = reduced
            return (made, tuple(None if _is_drawn(given) else given for given in arguments), *others)
        return reduced


class _Ordered:
    """Pickled as a set whose elements have an order of their own, not the one that Python draws for each process."""

    def __init__(self, elements: frozenset[object]) -> None:
        self._elements = sorted(elements, key=repr)

    def __reduce__(self) -> tuple[type[frozenset[object]], tuple[list[object]]]:
        """Return the set."""
        return frozenset, (self._elements,)


def _ordered(constants: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(_Ordered(value) if isinstance(value, frozenset) else value for value in constants)


def _is_drawn(value: object) -> bool:
    """Return whether a value is a number that cloudpickle draws for a class."""
    return isinstance(value, str) and DRAWN.fullmatch(value) is not None


def __getattr__(name: str) -> Maker:
    """Return what makes the environment of a name, given its code."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _make


def _make(code: str, **arguments: Any) -> "gymnasium.Env[Any, Any]":  # noqa: ANN401 - as gymnasium.make has them
    """Return the environment; raise ``TypeError`` if it doesn't take the arguments."""
    try:
        return _unpickle(code)(**arguments)
    except gymnasium.error.UnregisteredEnv as error:
        raise UsageError(
            f"{error} An environment is made in other processes: name the module that registers the id, as in "
            f"gymnasium.make('module:Id')."
        ) from error


@cache
def _unpickle(code: str) -> Maker:
    """Return the class or function; an episode has the same as the one before, as of a module."""
    maker: Maker = cloudpickle.loads(base64.b64decode(code))
    return maker
