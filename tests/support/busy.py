"""A machine that others keep busy too."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Have so many programs compute all the time, and end them afterwards."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield
