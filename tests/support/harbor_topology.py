"""A Harbor task without containers: its judge and its agent are processes of this machine.

The files of the task are used as they are, but for the paths that containers have, which lie below one directory here,
the judge's port, and the user that it steps down to. It imports the standard library alone, as Harbor's Python runs it
too, and then the judge is another Python's.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

OF_CONTAINERS = re.compile(r"(?<![\w./-])/(workspace|socket|outcome|records|logs|tests|solution|judge)\b")
LISTEN, USER = "127.0.0.1:8000", "USER = 1000"
PYTHON = "EVOPOLICYGYM_TEST_PYTHON"
"""The variable that names the Python which the judge runs by, where it isn't this one."""
PATIENCE_S = 240.0


class Container:
    """A container's files below a directory of this machine, and programs that run there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._programs: list[subprocess.Popen[str]] = []
        self._python = os.environ.get(PYTHON, sys.executable)

    def place(self, path: str) -> Path:
        """Return where a container's path lies here."""
        return Path(self._mapped(path))

    def put(self, source: Path, path: str) -> None:
        """Copy a directory of the task into the container."""
        shutil.copytree(source, self.place(path), dirs_exist_ok=True)
        for script in (*self.place(path).glob("*.sh"), *self.place(path).glob("*.py")):
            script.write_text(self._mapped(script.read_text(encoding="utf-8")), encoding="utf-8")

    def started(
        self, command: str, directory: Path, output: int | None = None, **variables: str
    ) -> "subprocess.Popen[str]":
        """Start a command of the container's."""
        environment = self._environment(variables)
        line = ["/bin/bash", "-c", self._mapped(command)]
        self._programs.append(
            subprocess.Popen(
                line,
                cwd=directory,
                env=environment,
                text=True,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        )
        return self._programs[-1]

    def end_programs(self) -> None:
        """End what started commands have left behind, as stopping the container does."""
        for program in self._programs:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        self._programs.clear()

    def end(self) -> None:
        """Remove the container."""
        self.end_programs()
        shutil.rmtree(self.root, ignore_errors=True)

    def _mapped(self, text: str) -> str:
        return OF_CONTAINERS.sub(lambda found: f"{self.root}/{found[1]}", text)

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        here = {name: value for name, value in os.environ.items() if not name.startswith("EVOPOLICYGYM_")}
        return {**here, "PATH": f"{Path(self._python).parent}:{here['PATH']}", **variables}


class VerifierContainer(Container):
    """The verifier's container, whose image has the task's tests."""

    def __init__(self, tests: Path) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="harbor")))
        self.put(tests, "/tests")


class Topology(Container):
    """A task whose judge is started: the agent's and the judge's containers, which share some directories."""

    def __init__(self, task: Path) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="harbor")))
        self.task, self.verifier = task, VerifierContainer(task / "tests")
        self.document = tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))
        for name in ("agent", "artifacts", "verifier"):
            (self.root / "logs" / name).mkdir(parents=True)
            (self.root / "logs" / name).chmod(0o777)  # Harbor mounts them into the agent's container for any user
        self.put(task / "environment" / "judge", "/judge")
        judge = self.root / "judge" / "judge.py"
        text = judge.read_text(encoding="utf-8").replace(USER, f"USER = {os.getuid()}")
        judge.write_text(text.replace(LISTEN, f"127.0.0.1:{_free_port()}"), encoding="utf-8")
        command = json.loads((self.root / "judge" / "Dockerfile").read_text().splitlines()[-1].removeprefix("CMD "))
        with (self.root / "judge.log").open("wb") as log:
            line = [self._python, "-I", str(judge), *command]
            self.judge = subprocess.Popen(line, stderr=log, env=self._environment({}), start_new_session=True)

    @property
    def workspace(self) -> Path:
        """Where the agent works, once the judge is healthy, as the compose file says."""
        until = time.monotonic() + PATIENCE_S
        while not ((file := self.root / "workspace" / "judge.env").is_file() and file.stat().st_size):
            assert self.judge.poll() is None, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.05)
        return file.parent

    @property
    def said(self) -> str:
        """What the judge's container has printed."""
        return (self.root / "judge.log").read_text(encoding="utf-8")

    def solve(self) -> None:
        """Be Harbor's oracle."""
        self.put(self.task / "solution", "/solution")
        self.started("/solution/solve.sh", self.workspace).wait(PATIENCE_S)

    def collect(self) -> int:
        """Call what Harbor calls in the judge's container once the agent is gone; return its exit code."""
        (hook,) = self.document["verifier"]["collect"]
        assert hook["service"] == "judge"
        return self.started(hook["command"], self.root).wait(PATIENCE_S)

    def end_agent(self, left: "subprocess.Popen[bytes]") -> None:
        """End a process of the agent's container, which Harbor stops before it collects if the verifier is separate."""
        if self.document["verifier"]["environment_mode"] == "separate":
            left.kill()

    def fetch(self) -> None:
        """Do what Harbor does before it verifies: fetch the judge's outcome and lay it in the verifier's container.

        The directory of the verifier's logs is the one that the agent's container had, emptied.
        """
        verifier_logs = self.root / "logs" / "verifier"
        for planted in verifier_logs.iterdir():
            shutil.rmtree(planted) if planted.is_dir() and not planted.is_symlink() else planted.unlink()
        (self.verifier.root / "logs").mkdir()
        (self.verifier.root / "logs" / "verifier").symlink_to(verifier_logs)  # a mount
        shutil.copytree(self.root / "logs" / "artifacts", self.verifier.place("/logs/artifacts"), symlinks=True)
        if self.artifacts().is_dir():
            shutil.copytree(self.artifacts(), self.verifier.place("/outcome"))

    def verifying(self) -> "subprocess.Popen[str]":
        """Start the verifier in its container."""
        self.fetch()
        return self.verifier.started("exec /tests/test.sh", self.verifier.root)

    def verify(self) -> int:
        """Call that; return its exit code."""
        return self.verifying().wait(PATIENCE_S)

    def artifacts(self) -> Path:
        """Return where the one directory lies that Harbor fetches from the judge's container."""
        (artifact,) = self.document["artifacts"]
        assert artifact["service"] == "judge"
        return self.place(artifact["source"])

    def read(self, name: str) -> Any:
        """Return a document that the verifier wrote."""
        return json.loads((self.root / "logs" / "verifier" / name).read_bytes())

    def kill_served(self) -> None:
        """Kill the program that serves the run, and nothing else of the judge's container."""
        children = Path(f"/proc/{self.judge.pid}/task/{self.judge.pid}/children").read_text(encoding="utf-8").split()
        (self.workspace / "judge.env").unlink()
        for child in children:
            os.kill(int(child), signal.SIGKILL)

    def end(self) -> None:
        """Remove all containers."""
        os.killpg(self.judge.pid, signal.SIGKILL)
        self.judge.wait()
        self.verifier.end()
        super().end()


@contextmanager
def topology(task: Path) -> Iterator[Topology]:
    """Yield a task whose judge is started; end and remove all of it."""
    started = Topology(task)
    try:
        yield started
    finally:
        started.end()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
