"""The starter policy that every run's workspace begins with: the parent of what has no other.

It is read as the data that it is, from the package's files: a record doesn't hold it, and nothing of the wing that
plays runs is imported.
"""

from functools import cache
from importlib.resources import as_file, files

from evopolicygym.analysis.lineage.program import PolicyProgram, read_program

PLACE = ("runs", "workspace_template", "system")
"""Of its files in the package."""


@cache
def starter() -> PolicyProgram:
    """Return the starter policy."""
    with as_file(files("evopolicygym").joinpath(*PLACE)) as directory:
        program = read_program(directory)
    if program is None:
        raise FileNotFoundError(f"The starter policy is not among the package's files, in {'/'.join(PLACE)}.")
    return program
