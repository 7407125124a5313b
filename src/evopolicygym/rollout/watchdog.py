"""The watchdog of a worker: ends the whole process when its simulator makes no progress on a valid action.

It is the kernel's alarm: a simulator that hangs in its own code lets no thread of Python run, but no code can keep the
signal from ending the process. The executor then plays the case again. A policy that hangs is no business of its; that
is ``rollout/attendant.py``.
"""

import signal

HANG_S = 300.0
"""Seconds after which a simulator that neither answers nor ends is given up."""


class Watchdog:
    """Bites unless it is put to rest again in time."""

    def __init__(self, hang_s: float) -> None:
        self._hang_s = hang_s
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def rest(self) -> None:
        """Grant the full time from now on; any thread may."""
        signal.setitimer(signal.ITIMER_REAL, self._hang_s)

    def chain(self) -> None:
        """Have it bite no more until it is put to rest again."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
