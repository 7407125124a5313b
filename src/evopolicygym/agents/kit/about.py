"""What a person is shown of an agent before choosing it: what it is, and what it needs.

A built-in agent's module says so as ``ABOUT``. Whether what it needs is here is found out in ``listing.py``.
"""

from dataclasses import dataclass
from enum import StrEnum


class Model(StrEnum):
    """Whether an agent asks a model."""

    NONE = "none"
    OPTIONAL = "optional"
    NEEDED = "needed"


@dataclass(frozen=True, slots=True)
class About:
    """What a module says of its agent."""

    summary: str
    """What it is, in a line."""
    model: Model = Model.NONE
    program: str = ""
    """The command-line tool that it calls, as found on the PATH; empty for none."""
    install: str = ""
    """The command that installs the tool."""
    extra: str = ""
    """The extra of this package that brings what it imports; empty for none."""
    imports: tuple[str, ...] = ()
    """The modules that the extra has to bring."""
    key: str = ""
    """The environment variable that holds the key of its model's server, unless ``--model-key`` names another."""
    needs: str = ""
    """What it has to be given besides, as it is typed."""
