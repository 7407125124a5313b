"""What a policy can see and do from inside: probes that play as policies behind each wall, and what they bring back."""

import json
import os
import platform
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.zygote import ENVIRONMENT
from playground import Playground, one_worker, policy
from simulators import spec

TRY = """
import ctypes, json, resource, socket, subprocess, threading
def attempt(do, *args, **kwargs):
    try:
        do(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__
    return "done"
def show(**found):
    print(json.dumps(found))
"""

FORKS = """
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(600)
    os._exit(0)
print(child)
"""


@pytest.fixture(scope="module", params=["bubblewrap", "process"])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker at each level that promises something."""
    with one_worker(request.param, spec("Plain", 1), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A worker whose policies are in namespaces of their own."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path_factory.mktemp("walled")) as ground:
        yield ground


def probe(ground: Playground, body: str) -> dict[str, str]:
    """Play a policy whose reset tries something and shows what came of it."""
    found: dict[str, str] = json.loads(ground.play_one(policy(reset=body, top=TRY)).read())
    return found


def test_no_network(yard: Playground) -> None:
    """No socket of any family can be made."""
    families = "('AF_INET', 'AF_INET6', 'AF_UNIX', 'AF_NETLINK', 'AF_VSOCK')"
    found = probe(yard, f"show(**{{name: attempt(socket.socket, getattr(socket, name)) for name in {families}}})")

    assert {"PermissionError"} == set(found.values())


@pytest.mark.needs_root
def test_no_other_processes(yard: Playground) -> None:
    """Nothing can be forked, run, signalled or traced; threads can be started."""
    body = """
        show(fork=attempt(os.fork), run=attempt(subprocess.run, ["/bin/true"]), kill=attempt(os.kill, 1, 9),
             spawn=attempt(os.posix_spawn, "/x", ["/x"], {}), execute=attempt(os.execv, "/x", ["/x"]),
             kill_all=attempt(os.kill, -1, 9), thread=attempt(threading.Thread(target=int).start))
    """
    found = probe(yard, body)

    assert found.pop("thread") == "done"
    assert {"PermissionError"} == set(found.values())


def test_only_its_own_threads_are_signalled(yard: Playground) -> None:
    """A policy may signal its own threads, as abort does, but no thread of another process."""
    body = """
        tgkill = {"aarch64": 131}.get(os.uname().machine, 234)
        signal = lambda process: ctypes.CDLL(None).syscall(tgkill, process, process, 0)
        show(own=signal(os.getpid()), parent=signal(os.getppid()))
    """
    found = probe(yard, body)

    assert found == {"own": 0, "parent": -1}


@pytest.mark.needs_root
def test_limits_stay(yard: Playground) -> None:
    """A policy can raise none of its limits, nor its priority, nor choose its processor."""
    body = """
        show(memory=attempt(resource.setrlimit, resource.RLIMIT_AS, (-1, -1)), nice=attempt(os.setpriority, 0, 0, -5),
             realtime=attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),
             affinity=attempt(os.sched_setaffinity, 0, {0, 1}))
    """
    found = probe(yard, body)

    assert {"memory", "nice", "realtime", "affinity"} == set(found)
    assert {"done"}.isdisjoint(found.values())


def test_nothing_is_writable(walled: Playground) -> None:
    """No directory takes a file, none can be made or mounted, and no memory can be shared by name."""
    body = """
        places = [at for top in ("/usr", "/policy") for at, _, _ in os.walk(top)]
        places += ["/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/home", "/run"]
        wrote = [at for at in places if attempt(open, os.path.join(at, "mark"), "w") == "done"]
        show(places=str(len(places) > 20), wrote=str(wrote), made=attempt(os.mkdir, "/policy/new"),
             changed=attempt(os.chmod, "policy.py", 0o777), memory=attempt(os.memfd_create, "x"))
    """
    found = probe(walled, body)

    assert found == {
        "places": "True",
        "wrote": "[]",
        "made": "PermissionError",
        "changed": "PermissionError",
        "memory": "PermissionError",
    }


def test_nothing_is_writable_without_namespaces(yard: Playground) -> None:
    """At every level Landlock or the size limit of files keeps a policy from leaving a word."""
    if yard.executor.info.findings["landlock"] == "not in this kernel":
        pytest.skip("this kernel has no Landlock")
    body = """
        def write(at):
            with open(os.path.join(at, "mark"), "w") as file:
                file.write("was here")
        show(**{at: attempt(write, at) for at in (".", "/tmp", "/var/tmp", "/dev/shm")})
    """
    found = probe(yard, body)

    assert {"done"}.isdisjoint(found.values())


def test_what_can_be_seen(walled: Playground) -> None:
    """A policy sees an interpreter, its libraries, its own files and two devices; no process, no home, no settings."""
    body = """
        places = ("proc", "sys", "home", "root", "tmp", "etc", "var", "usr", "dev/null", "dev/urandom", "dev/shm")
        show(there=[place for place in places if os.path.exists("/" + place)], here=[os.getcwd(), *os.listdir()])
    """
    found = probe(walled, body)

    assert found["there"] == ["usr", "dev/null", "dev/urandom"]
    assert sorted(found["here"]) == ["/policy", "__pycache__", "policy.py"]


def test_host_files_are_out_of_reach(yard: Playground) -> None:
    """Accounts, other programs' memory and the worker's own directory can't be read."""
    if yard.executor.info.findings["landlock"] == "not in this kernel":
        pytest.skip("this kernel has no Landlock")
    hidden = ("/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", str(yard.root / "scratch"), __file__)
    found = probe(yard, f"show(**{{path: attempt(os.open, path, os.O_RDONLY) for path in {hidden!r}}})")

    assert {"done"}.isdisjoint(found.values())


def test_no_variables_but_ours(yard: Playground) -> None:
    """The environment of a policy holds what the zygote was given and nothing of the host's."""
    found = probe(yard, "show(names=sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))")

    assert sorted({*ENVIRONMENT, *arithmetic.variables(), "PYTHONPATH"}) == found["names"]


def test_no_descriptors_but_ours(yard: Playground) -> None:
    """A policy has its three standard streams and its two pipes, and nothing else that is open."""
    listed = "[number for number in range(256) if attempt(fcntl.fcntl, number, fcntl.F_GETFD) == 'done']"
    found = probe(yard, f"import fcntl; show(open={listed})")

    assert found["open"] == [0, 1, 2, 3, 4]


def test_no_simulators(yard: Playground) -> None:
    """Neither a simulator nor this project can be imported."""
    names = ("gymnasium", "mujoco", "minigrid", "highway_env", "Box2D", "pygame", "evopolicygym", "pydantic", "pip")
    found = probe(yard, f"show(**{{name: attempt(__import__, name) for name in {names!r}}})")

    assert {"ModuleNotFoundError"} == set(found.values())


def test_the_python_is_this_one(yard: Playground) -> None:
    """A policy runs in the Python that the record names, though the system has another of the same minor version."""
    found = probe(yard, "import platform, sys; show(build=sys.version, version=platform.python_version())")

    assert found == {"build": sys.version, "version": platform.python_version()}


def test_numpy_and_scipy_work(yard: Playground) -> None:
    """The allowed distributions can be imported and used, linear algebra and the standard library's modules too."""
    body = """
        import scipy.optimize, sqlite3, decimal
        root = scipy.optimize.brentq(lambda x: x * x - 2, 0, 2)
        show(root=round(float(root), 6), solved=np.linalg.solve(np.eye(2), [1.0, 2.0]).tolist())
    """
    assert probe(yard, body) == {"root": 1.414214, "solved": [1.0, 2.0]}


def test_without_a_wall_nothing_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Level none confines nothing, and says so."""
    with one_worker("none", spec("Plain", 1), tmp_path_factory.mktemp("open")) as ground:
        found = probe(ground, "show(socket=attempt(socket.socket), read=attempt(open, '/etc/passwd'))")
        info = ground.executor.info

    assert (found, info.isolation) == ({"socket": "done", "read": "done"}, "none")
    assert "unverified" in info.findings["warning"]


def test_a_child_that_outlives_its_policy_holds_up_nobody(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where forking is possible, a child that keeps the outputs open delays no episode and plays in no other."""
    with one_worker("none", spec("Plain", 1), tmp_path_factory.mktemp("daemon")) as ground:
        forks = policy(reset=FORKS)
        first, second = ground.play_one(forks), ground.play_one(policy())
        child = int(first.read())
        outlived = Path(f"/proc/{child}").exists()
        os.kill(child, signal.SIGKILL)

    assert (first.episode.failure, second.episode.failure, outlived) == (None, None, True)
