"""The watchdog of a worker: kills the process when its simulator makes no progress on a valid action.

It uses the kernel's alarm: a simulator that hangs in native code blocks all Python threads, but can't block the signal.
The executor then retries the episode. A hanging policy is the monitor's business (``rollout/policy_monitor.py``).
"""

import signal

HANG_S = 300.0
"""Seconds without progress after which a simulator is killed."""


class Watchdog:
    """Kills the process unless reset in time."""

    def __init__(self, hang_s: float) -> None:
        self._hang_s = hang_s
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def reset(self) -> None:
        """Restart the countdown; thread-safe."""
        signal.setitimer(signal.ITIMER_REAL, self._hang_s)

    def disarm(self) -> None:
        """Stop the countdown until the next reset."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
