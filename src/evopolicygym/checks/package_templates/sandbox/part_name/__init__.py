"""A sandbox backend: plain processes with the least priority. Replace ``self._process`` by your own."""

from collections.abc import Mapping
from dataclasses import replace

from evopolicygym.sandbox.backends import process
from evopolicygym.sandbox.base import Guarantee, ProgramSandbox, SandboxFeature, WorkerDirectory, ZygoteView

NICE = 19


class Backend:
    """Policies in a confined process of the least priority. Declare only what the check of the sandbox confirms."""

    guarantees: frozenset[Guarantee] = process.Backend.guarantees
    required_features: frozenset[SandboxFeature] = process.Backend.required_features

    def __init__(self) -> None:
        self._process = process.Backend()

    def findings(self) -> Mapping[str, str]:
        """Return what is enforced here, by name; raise ``SandboxError`` if the backend doesn't work here."""
        return {**self._process.findings(), "priority": f"niceness {NICE}"}

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start the process that policies are forked from; each then gives up the rights of ``confinement``."""
        zygote = self._process.policy_sandbox(ground, control, environment)
        return replace(zygote, confinement=replace(zygote.confinement, nice=NICE))

    def program_sandbox(self) -> ProgramSandbox:
        """Return the sandbox of an agent's program; a backend without this method refuses such agents."""
        return self._process.program_sandbox()
