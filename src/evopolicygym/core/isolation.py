"""Which sandbox backend plays a run, and which of the features that it promises a user let be missing.

Records, files and the command line hold it as text, such as ``bubblewrap`` or ``bubblewrap without seccomp``.
"""

from dataclasses import dataclass

WITHOUT, AND = " without ", " and "
UNVERIFIED = "none"
"""The backend, as records name it, that is no sandbox: scores that were made with it are marked wherever they stand."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """A backend's name, and the features that may be missing or, in a record, that were."""

    backend: str
    missing: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Isolation":
        """Return the isolation that a text names."""
        backend, _, features = text.partition(WITHOUT)
        return cls(backend, frozenset(feature.strip() for feature in features.split(AND) if feature.strip()))

    def __str__(self) -> str:
        return f"{self.backend}{WITHOUT}{AND.join(sorted(self.missing))}" if self.missing else self.backend


def is_unverified(isolation: str) -> bool:
    """Return whether a score that was made at an isolation is marked as unverified."""
    return Isolation.parse(isolation).backend == UNVERIFIED
