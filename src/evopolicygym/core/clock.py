"""Times as they are written down. What is measured by them is measured by a monotonic clock instead."""

from datetime import UTC, datetime
from time import time


def now() -> str:
    """Return the present time, ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_time() -> float:
    """Return the present time, in seconds since 1970 in UTC, for formats that write it so."""
    return time()
