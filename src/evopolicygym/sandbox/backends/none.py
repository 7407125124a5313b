"""No sandbox: a plain process with the user's rights. It must be named; ``auto`` never chooses it."""

from collections.abc import Mapping

from evopolicygym.sandbox.backends.process import spawn
from evopolicygym.sandbox.base import (
    Confinement,
    Guarantee,
    ProgramSandbox,
    SandboxFeature,
    WorkerDirectory,
    ZygoteView,
)
from evopolicygym.sandbox.program.plain import PlainPrograms


class Backend:
    """Policies in a plain process, for your own code on your own machine."""

    guarantees: frozenset[Guarantee] = frozenset()
    required_features: frozenset[SandboxFeature] = frozenset()

    def findings(self) -> Mapping[str, str]:
        """Return a warning that nothing is enforced."""
        return {"warning": "policies run with your own rights: scores of this level are unverified"}

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote without any confinement."""
        return ZygoteView(spawn(ground, control, environment), str(ground.policy), Confinement())

    def program_sandbox(self) -> ProgramSandbox:
        """Return a sandbox that starts an agent's program as a plain process, with a minimal environment."""
        return PlainPrograms(confined=False)
