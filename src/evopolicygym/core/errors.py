"""Every error that this project raises on purpose.

::

    EvoPolicyGymError
    ├── UsageError          an invalid request               (exit code 2)
    │   ├── UnknownName     an unknown name
    │   ├── UnregisteredId  an id that gymnasium does not know
    │   ├── MissingExtra    an optional dependency is not installed
    │   └── MissingPackage  a package that no extra brings is not installed
    ├── RequestRefused      the judge refuses a request; nothing was charged
    ├── RecordError         a run directory is damaged, locked, or not what it says   (exit code 3)
    ├── StorageError        a record can't be written, such as on a full disk         (exit code 1)
    ├── EnvironmentFault    a simulator crashed or hung on a valid action             (exit code 4)
    ├── SandboxError        a sandbox can't be made, or broke by itself               (exit code 4)
    │   └── NodeError       a machine of a cluster is unfit to play, or all are gone  (exit code 4)
    └── AgentError          an agent can't be started, or failed where that counts    (exit code 5)

A policy that fails is not an error of ours: it is data (``core.rollout.Failure``) and goes into the episode.
"""

import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class EvoPolicyGymError(Exception):
    """Base class of all errors that the project raises on purpose."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments and attributes, whatever the constructor takes."""
        return _restore, (type(self), self.args, self.__dict__)


def described(error: BaseException) -> str:
    """Return a line with an error of other code, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{'' if isinstance(error, SyntaxError) else where}"


def _restore(kind: type[EvoPolicyGymError], args: tuple[Any, ...], state: dict[str, Any]) -> EvoPolicyGymError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(EvoPolicyGymError):
    """An invalid request; the message says what was expected, what was given, and how to mend it."""

    exit_code = 2


class UnknownName(UsageError):
    """An unknown name; the message lists the known names."""

    def __init__(self, kind: str, name: str, known: Iterable[str], more: str = "") -> None:
        names = sorted(known)
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        more = f" {more}" if more else ""
        super().__init__(f"There is no {kind} named {name!r}.{hint} Known: {', '.join(names) or 'none'}.{more}")


class UnregisteredId(UsageError):
    """An id that gymnasium doesn't know after importing the named modules."""


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message names the command that installs it."""

    def __init__(self, what: str, extra: str, missing: str) -> None:
        super().__init__(
            f"{what} needs {missing}, which is not installed. Install it with: pip install 'evopolicygym[{extra}]'"
        )


class MissingPackage(UsageError):
    """A package that no extra brings is not installed; the message names the command that installs it."""

    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed. Install it with: pip install {package}")


class RefusalStatus:
    """Statuses of refused requests (protocol, section 4)."""

    BUDGET_INVALID = "budget_invalid"
    INVALID_ENV_INSTANCE = "invalid_env_instance"
    INVALID_REQUEST = "invalid_request"
    INVALID_CHECKPOINT = "invalid_checkpoint"
    CLOSED = "closed"
    UNAVAILABLE = "unavailable"


class RequestRefused(EvoPolicyGymError):
    """The judge refuses a request; nothing was charged, no environment was stepped."""

    def __init__(self, status: str, message: str, http_status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.http_status = http_status


class RecordError(EvoPolicyGymError):
    """A run directory is damaged, locked by another process, or not what it says it is."""

    exit_code = 3


class StorageError(EvoPolicyGymError):
    """A file of a run can't be written: the run stops after its last recorded event, and can be resumed."""


class EnvironmentFault(EvoPolicyGymError):
    """A simulator crashed, hung or returned invalid values on a valid action: the run stops and is never scored."""

    exit_code = 4


class SandboxError(EvoPolicyGymError):
    """A sandbox can't be created here, or failed by itself: the run stops and is never scored."""

    exit_code = 4


class NodeError(SandboxError):
    """A machine of a cluster is incompatible with the judge's, or none is left: the run stops and can be resumed."""


class AgentError(EvoPolicyGymError):
    """An agent can't be started, or failed and its user wants that to be an error."""

    exit_code = 5
