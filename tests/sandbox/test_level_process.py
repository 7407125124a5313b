"""What the level without namespaces takes from a policy and from an agent's program before any code of theirs runs."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from evopolicygym.agents.base import make
from evopolicygym.core.agent import AgentConfig, AgentEnd, Turn, Workspace
from evopolicygym.core.errors import AgentError
from evopolicygym.core.task import Limits
from evopolicygym.rollout.zygote import Zygote, create_worker_dir
from evopolicygym.sandbox.backends import process
from evopolicygym.sandbox.backends.process import NICE, THREADS
from evopolicygym.sandbox.base import Confinement, WorkerDirectory, ZygoteView
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.packages import policy_library
from fakes import PATIENCE_S, OpenRun, RunMaker
from playground import one_worker, policy
from simulators import spec

SETS = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
EMPTY = SETS - {"CapBnd"} if os.geteuid() else SETS
"""An ordinary user can't empty the bounding set, and gets nothing from it."""


def rights(process: int | str) -> dict[str, str]:
    """Return what the kernel says of a process: its capabilities and whether it can get more, and how nice it is."""
    lines = Path("/proc", str(process), "status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    kept = {name: text for name, text in fields.items() if name in {*SETS, "NoNewPrivs", "Seccomp"}}
    return {**kept, "nice": str(os.getpriority(os.PRIO_PROCESS, int(fields["Pid"])))}


def nicer(by: int) -> int:
    """Return how nice a process is that comes so much after this one, which no process can be without end."""
    return min(19, os.nice(0) + by)


class Bare(process.Backend):
    """The level on a machine that has neither Landlock nor seccomp."""

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        inside = super().policy_sandbox(ground, control, environment)
        kept = inside.confinement
        bare = Confinement(kept.limits, unprivileged=kept.unprivileged, nice=kept.nice)
        return ZygoteView(inside.process, inside.policy_path, bare)


@pytest.mark.needs_root
@pytest.mark.parametrize("backend", [process.Backend, Bare])
def test_a_zygote_has_no_privileges(backend: type[process.Backend], tmp_path: Path) -> None:
    """What policies are forked from has no capability, gets none, and comes after us; whatever else the machine has."""
    with Zygote(backend(), create_worker_dir(tmp_path / "ground", Limits(), policy_library())) as zygote:
        zygote.wait_until_ready()
        found = rights(zygote._view.process.pid)

    assert {name for name in EMPTY if int(found[name], 16)} == set()
    assert (found["NoNewPrivs"], found["nice"]) == ("1", str(nicer(NICE)))


LOOK = f"""
import json, os, resource, socket
fields = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
def attempt(what, *words):
    try:
        what(*words)
    except OSError as error:
        return type(error).__name__
    return "done"
print(json.dumps({{
    **{{name: int(fields[name], 16) for name in {sorted(SETS)}}},
    "NoNewPrivs": fields["NoNewPrivs"], "Seccomp": fields["Seccomp"], "nice": os.nice(0),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "core": resource.getrlimit(resource.RLIMIT_CORE),
    "raise": attempt(os.setpriority, os.PRIO_PROCESS, 0, -5), "raw": attempt(socket.socket, 17, 3),
}}))
"""


def turn(run: OpenRun, *words: str, stop: Event | None = None, **options: int) -> Turn:
    """Play one turn of a program at level process."""
    desk = Workspace(run.paths.workspace, run.paths.transcript, 0, "process")
    return make(AgentConfig("command", options=options, command=words)).play(desk, run.door, stop or Event())


@pytest.mark.needs_root
def test_a_program_has_no_privileges(new_run: RunMaker) -> None:
    """An agent's program has no capability and gets none, comes last, has limits, and its system calls are filtered."""
    run = new_run()
    ended = turn(run, sys.executable, "-c", LOOK)
    found = json.loads(run.paths.transcript.read_text(encoding="utf-8"))

    assert ended.end is AgentEnd.FINISHED
    assert [found[name] for name in sorted(SETS - ({"CapBnd"} if os.geteuid() else set()))] == [0] * (
        5 - bool(os.geteuid())
    )
    assert [found[name] for name in ("NoNewPrivs", "Seccomp", "nice")] == ["1", "2", nicer(10)]
    assert [found[name] for name in ("files", "core")] == [[1024, 16384], [0, 0]]
    assert [found[name] for name in ("raise", "raw")] == ["PermissionError", "OSError"]


def test_what_is_left_to_a_program_is_said(new_run: RunMaker) -> None:
    """What this level can't keep an agent's program from stands in the findings of its turn."""
    findings = turn(new_run(), "true").findings

    assert {"privileges", "not kept in"} <= findings.keys()


def test_what_is_left_to_a_policy_is_said() -> None:
    """What this level takes from a policy and leaves to it stands in its findings."""
    findings = choose("process").findings

    assert "privileges" in findings
    assert str(THREADS) in findings["threads"]


def test_a_program_that_is_not_there(new_run: RunMaker) -> None:
    """A program that does not exist is an agent's error, by its name."""
    with pytest.raises(AgentError, match="no-such-program"):
        turn(new_run(), "no-such-program")


def test_a_program_ends_with_who_started_it(new_run: RunMaker) -> None:
    """A program of a judge that is killed is killed with it."""
    run = new_run()
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom evopolicygym.core.agent import AgentLimits\n"
        "from evopolicygym.sandbox.program.plain import plain\n"
        "at = plain(('sleep', '600'), Path(sys.argv[1]), {'MARK': '1'}, AgentLimits(), confined=True)\n"
        "print(at.process.pid, flush=True)\ntime.sleep(600)"
    )
    words = [sys.executable, "-c", script, str(run.paths.workspace)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as judge:
        assert judge.stdout is not None
        handle = os.pidfd_open(int(judge.stdout.readline()))
        judge.kill()
    gone, _, _ = select.select([handle], [], [], PATIENCE_S)

    assert gone == [handle]


THREADS_WITHOUT_END = """
import _thread, threading
threading.stack_size(32 << 10)
"""


def test_threads_that_no_kernel_counts(tmp_path: Path) -> None:
    """Where no control group can be made, a policy of too many threads is ended, and the failure says so."""
    act = f"[_thread.start_new_thread(time.sleep, (600,)) for _ in range({THREADS + 50})]; time.sleep(600)"
    with one_worker("process", spec("Plain", 1), tmp_path, change="without_control_groups") as ground:
        episode = ground.play_one(policy(act=act, top=THREADS_WITHOUT_END)).episode

        assert episode.failure is not None
        assert f"{THREADS} threads" in episode.failure.message
