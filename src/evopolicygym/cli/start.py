"""Where the program starts: before it imports what takes a moment, so that Ctrl-C ends it from its first line on.

What it does is described in ``main.py``.
"""

from evopolicygym.cli.interruption import leave_when_interrupted


def main() -> None:
    """Run the program and leave with its exit code."""
    leave_when_interrupted()
    from evopolicygym.cli.main import main as run_program  # takes some tenths of a second

    run_program()
