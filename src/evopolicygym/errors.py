"""The exceptions that users of ``evopolicygym`` catch: all are subclasses of ``EvoPolicyGymError``.

Examples:
    >>> try:
    ...     evopolicygym.run("cartpol")
    ... except evopolicygym.errors.UnknownName as error:
    ...     print(error)  # lists the names that are known
"""

from evopolicygym.core.errors import (
    AgentError,
    EnvironmentFault,
    EvoPolicyGymError,
    MissingExtra,
    MissingPackage,
    NodeError,
    RecordError,
    RefusalStatus,
    RequestRefused,
    SandboxError,
    StorageError,
    UnknownName,
    UnregisteredId,
    UsageError,
)

__all__ = [
    "AgentError",
    "EnvironmentFault",
    "EvoPolicyGymError",
    "MissingExtra",
    "MissingPackage",
    "NodeError",
    "RecordError",
    "RefusalStatus",
    "RequestRefused",
    "SandboxError",
    "StorageError",
    "UnknownName",
    "UnregisteredId",
    "UsageError",
]
