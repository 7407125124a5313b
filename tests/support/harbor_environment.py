"""An environment of Harbor's whose containers are processes of this machine, for ``harbor run -e`` in its Python."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from harbor_topology import Container, Topology, VerifierContainer


class Processes(BaseEnvironment):
    """The agent's container and the judge's, or the verifier's; all are the same user's, whoever is asked for."""

    @staticmethod
    def type() -> str:
        """Return what Harbor's records call it."""
        return "processes"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Containers beside the agent's."""
        return EnvironmentCapabilities(docker_compose=True)

    def _validate_definition(self) -> None: ...

    async def start(self, force_build: bool) -> None:  # noqa: ARG002, FBT001 - Harbor's contract
        """Start the judge, and wait until it is healthy; the verifier's container has nothing to start."""
        self._container: Container
        if self.environment_dir.name == "tests":
            self._container = VerifierContainer(self.environment_dir)
            self._directory = self._container.root
            return
        agents = Topology(self.environment_dir.parent)
        self._container = agents
        self._directory = await asyncio.to_thread(lambda: agents.workspace)

    async def stop(self, delete: bool) -> None:  # noqa: ARG002, FBT001 - Harbor's contract
        """End all."""
        self._container.end()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,  # noqa: ARG002 - Harbor's contract, as all below
        env: dict[str, str] | None = None,
        timeout_sec: float | None = None,
        user: str | int | None = None,  # noqa: ARG002
    ) -> ExecResult:
        """Execute a command as a shell."""
        started = self._container.started(command, self._directory, subprocess.PIPE, **self._merge_env(env) or {})
        out, err = await asyncio.to_thread(started.communicate, timeout=timeout_sec)
        return ExecResult(stdout=out, stderr=err, return_code=started.returncode)

    async def service_exec(self, command: str, *, service: str | None = None, **options: Any) -> ExecResult:
        """Execute a command in one of the containers."""
        assert service in {"main", "judge"}
        return await self.exec(command, **options)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file."""
        shutil.copy(source_path, self._container.place(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy a directory, with its paths as they are here."""
        self._container.put(Path(source_dir), target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file back."""
        shutil.copy(self._container.place(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a directory back."""
        shutil.copytree(self._container.place(source_dir), target_dir, dirs_exist_ok=True)

    async def service_download_dir(
        self, source_dir: str, target_dir: Path | str, *, service: str | None = None
    ) -> None:
        """Copy a directory of one of the containers back."""
        assert service in {"main", "judge"}
        await self.download_dir(source_dir, target_dir)

    async def stop_service(self, service: str) -> None:
        """End what the agent has left in its container."""
        assert service == "main"
        self._container.end_programs()
