"""What training sessions cost: sessions an hour and submissions a second, against the bare simulator.

``python benchmarks/training_sessions.py [TASK …] [--at-once 1,16,128] [--seconds 30]`` plays sessions by the server's
HTTP, each of three submissions of four episodes, with hidden validation and held-out, and prints a row for each number
of sessions at once. The bare simulator is played by one process on each core with the same policy and neither sandbox
nor record. Wall time says little on a busy machine, so processor time is measured, too: of an episode, with all that
sessions, server and sandboxes take. ``--leaks N`` opens and closes N sessions instead, and prints what the server has.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

import numpy as np

from evopolicygym.environments.environment import Environment
from evopolicygym.specs import catalog

TASKS = ("cartpole", "acrobot", "reacher")
SUBMISSIONS, EPISODES, VALIDATION, HELD_OUT = 3, 4, 4, 8
EPISODES_OF_SESSION = SUBMISSIONS * EPISODES + VALIDATION + HELD_OUT
"""All submissions have the same checkpoint, so validation is played once."""


TRAINED = ("cartpole", "pendulum")
HOLDS = "int(obs[2] + obs[3] / 2 > 0)"
"""What keeps cartpole's pole upright for a whole episode; in the other tasks, idle episodes are whole ones."""
POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return {action}
"""
OK = 200
PLAYED = 100
"""Of so many sessions that are opened to look for leaks, one is played."""


def policy_of(task: str) -> str:
    """Return the policy that sessions submit."""
    return POLICY.format(action=HOLDS if task == "cartpole" else catalog.load(task).idle_action)


def bare_episodes(task: str, seconds: float) -> tuple[float, float]:
    """Return the episodes a second of one process without anything around the simulator, and their processor time."""
    spec = catalog.load(task)
    environment, idle = Environment(spec), spec.idle_action
    action = np.asarray(idle, np.float32) if isinstance(idle, list) else idle
    played, began, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < began + seconds:
        obs, ended = environment.reset(played), False
        while not ended:
            act = int(obs[2] + obs[3] / 2 > 0) if task == "cartpole" else action
            obs, _, terminated, truncated, _ = environment.step(act)
            ended = terminated or truncated
        played += 1
    return played / (time.perf_counter() - began), (time.process_time() - used) / played


def bare(task: str, seconds: float) -> tuple[float, float]:
    """Return the episodes a second of all cores together, and the processor time of one."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores) as processes:
        found = list(processes.map(bare_episodes, [task] * cores, [seconds] * cores))
    return sum(rate for rate, _ in found), min(used for _, used in found)


def processor_s(pid: int) -> float:
    """Return the processor time of a process and its descendants, also of those that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = [
            int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
        ]
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(processor_s, children))


class Client:
    """One trainer's connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.netloc, timeout=3600)
        self._path, self._session = parts.path, ""

    def ask(self, path: str, body: object = None) -> dict[str, Any]:
        """Ask, and return the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "x-session-id": self._session}
        self._connection.request("GET" if body is None else "POST", f"{self._path}{path}", data, headers)
        with self._connection.getresponse() as response:
            found: dict[str, Any] = json.loads(response.read())
            if response.status != OK:
                raise SystemExit(str(found))
        self._session = found.get("session", self._session)
        return found

    def open(self, seed: int) -> None:
        """Open the session of a seed."""
        self._session = ""
        self.ask("/seed_session", {"seed": seed})

    def play(self, seed: int, policy: str) -> float:
        """Play a whole session; return the seconds in which it was opened."""
        began = time.perf_counter()
        self.open(seed)
        opened = time.perf_counter() - began
        self.ask("/write", {"path": "policy.py", "content": policy})
        for first in range(SUBMISSIONS):
            self.ask("/submit", {"episodes": EPISODES, "first_case": first})
        self.ask("/verify", {})
        return opened


@contextmanager
def served(task: str, sessions: int) -> Iterator[tuple[str, int]]:
    """Yield the address of a server of sessions of one task, in a process of its own, and that process's id."""
    split = "train" if task in TRAINED else "benchmark"
    command = [sys.executable, "-m", "evopolicygym", "train", "serve", "--json", "--listen", "127.0.0.1:0"]
    drawn = ["--split", split, "--task", task, "--interface", "standard", "--text", "full", "--budget", "16"]
    numbers = {"--validation": VALIDATION, "--held-out": HELD_OUT, "--sessions": sessions, "--wait": 3600}
    options = [str(word) for option in numbers.items() for word in option]
    with subprocess.Popen([*command, *drawn, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield json.loads("".join(iter(cast("IO[str]", process.stdout).readline, "}\n")) + "}")["url"], process.pid
        finally:
            process.send_signal(signal.SIGINT)


def measure(task: str, at_once: int, seconds: float) -> dict[str, float]:
    """Return what so many sessions at once come to."""
    policy, opened = policy_of(task), list[float]()
    with served(task, at_once) as (url, pid):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda seed: Client(url).play(seed, policy), range(4)))  # the simulators have started
        end = time.perf_counter() + seconds
        numbers, lock = iter(range(4, 1 << 30)), threading.Lock()

        def work(_: int) -> int:
            client, played = Client(url), 0
            while time.perf_counter() < end:
                with lock:
                    seed = next(numbers)
                opened.append(client.play(seed, policy))
                played += 1
            return played

        began, used = time.perf_counter(), processor_s(pid)
        with ThreadPoolExecutor(at_once) as threads:
            played = sum(threads.map(work, range(at_once)))
        took, used = time.perf_counter() - began, processor_s(pid) - used
    return {
        "sessions_an_hour": 3600 * played / took,
        "submissions_a_second": SUBMISSIONS * played / took,
        "episodes_a_second": EPISODES_OF_SESSION * played / took,
        "processor_s": used / (EPISODES_OF_SESSION * played),
        "open_s": sum(opened) / len(opened),
    }


def leaks(count: int) -> None:
    """Open, use and close many sessions, and print the server's memory, descriptors and threads on the way."""

    def now(pid: int) -> str:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        files, threads = len(list(Path(f"/proc/{pid}/fd").iterdir())), status["Threads"].strip()
        return f"{int(status['VmRSS'].split()[0]) / 1024:.0f} MiB, {files} descriptors, {threads} threads"

    with served("cartpole", 256) as (url, pid):
        client = Client(url)
        for number in range(count + 1):
            client.open(number)
            if number % PLAYED == 0:
                client.ask("/submit", {"episodes": 1})
                client.ask("/verify", {})
            elif number % 2:
                client.ask("/close_session", {})
            else:
                client.ask("/verify", {})
            if number % max(1, count // 10) == 0:
                print(f"{number:>7} sessions: {now(pid)}; open {client.ask('/status')['open']}", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS, metavar="TASK")
    parser.add_argument("--at-once", default="1,16,128")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--leaks", type=int, default=0)
    options = parser.parse_args()
    if options.leaks:
        leaks(options.leaks)
        return
    print(f"load average before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    print("task      at once  sessions/h  submissions/s  episodes/s  of bare  processor ms  of bare  opening ms")
    for task in options.tasks:
        for at_once in map(int, options.at_once.split(",")):
            limit, least = bare(task, min(5.0, options.seconds))
            found = measure(task, at_once, options.seconds)
            print(
                f"{task:<9} {at_once:>7}  {found['sessions_an_hour']:>10.0f}  {found['submissions_a_second']:>13.2f}  "
                f"{found['episodes_a_second']:>10.1f}  {found['episodes_a_second'] / limit:>7.2f}  "
                f"{1000 * found['processor_s']:>12.1f}  {least / found['processor_s']:>7.2f}  "
                f"{1000 * found['open_s']:>10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
