"""Entry point of the program: Ctrl-C ends it at once from its first line, before it imports anything slow."""

from evopolicygym.cli.interruption import exit_on_interrupt


def main() -> None:
    """Run the program and exit with its exit code."""
    exit_on_interrupt()
    from evopolicygym.cli.main import main as run_program  # takes some tenths of a second

    run_program()
