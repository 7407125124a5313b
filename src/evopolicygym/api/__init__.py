"""The Python API: playing runs, loading them and comparing them. The command line is built on it.

``evopolicygym`` exports its names.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def accept_old_names(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a function accept renamed arguments, given as ``old="new"``, with a ``DeprecationWarning``."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__name__}() got both {new!r} and its old name {old!r}.")
                    warnings.warn(
                        f"{function.__name__}({old}=…) is deprecated; use {new}=….", DeprecationWarning, stacklevel=2
                    )
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
