"""An isolation backend: the shipped one of plain processes, under another name."""

from collections.abc import Mapping

from evopolicygym.sandbox.backends import process


class Backend(process.Backend):
    """Policies in a plain process, behind a fence."""

    def findings(self) -> Mapping[str, str]:
        """Return what the shipped backend finds, and whose this one is."""
        return {**super().findings(), "fence": "of the package outside"}
