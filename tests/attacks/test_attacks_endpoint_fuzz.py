"""Random requests against a judge in a process of its own: none is charged, none breaks it, and others are answered."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from evopolicygym.records.paths import RunPaths
from fakes import PATIENCE_S
from places import SUPPORT

MEDIAN_S, WORST_S = 0.1, 2.0
"""Within which another client is answered: half of the time, and always."""
GROWTH_KB = 8192
"""By which the judge's memory may grow, however much is asked."""

words = some.text(max_size=20)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | words,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
fields = some.dictionaries(some.sampled_from(["env_instances", "wait", "key", "seed"]), values, max_size=4)
texts = (values | fields).map(lambda value: json.dumps(value).encode())
bodies = some.binary(max_size=200) | texts | some.builds(lambda text, end: text[:end], texts, some.integers(0, 60))
methods = some.sampled_from(["POST"] * 6 + ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"])
paths = some.sampled_from(["/submit"] * 6 + ["/finish", "/info", "/task", "/submissions", "/submissions/0", "/x", "//"])
kinds = some.sampled_from(["application/json"] * 4 + ["", "text/plain", "application/json; charset=utf-16"])


@dataclass
class StandingJudge:
    """A judge in a process of its own, asked over one connection that is opened again where it was closed."""

    process: "subprocess.Popen[str]"
    address: httpx2.URL
    paths: RunPaths
    client: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.connection()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.host, self.address.port, timeout=PATIENCE_S)

    def status(self, method: str, path: str, body: bytes, kind: str) -> int:
        self.client.request(method, self.address.path + path, body, {"Content-Type": kind})
        answer = self.client.getresponse()
        answer.read()
        return answer.status

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[StandingJudge]:
    """Start a judge whose budget allows no submission as small as any that is asked for."""
    command = [sys.executable, SUPPORT / "standing_judge.py", tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        standing = StandingJudge(process, httpx2.URL(process.stdout.readline().strip()), RunPaths(tmp_path))
        yield standing
        standing.client.close()
        process.communicate()
    assert process.returncode == 0


@contextmanager
def bystander(judge: StandingJudge) -> Iterator[list[float]]:
    """Have another client ask for /info all the while; its seconds of waiting are there when it has ended.

    It is a process of its own: in this one it would wait for the drawing of requests too.
    """
    command = [sys.executable, SUPPORT / "bystander.py", str(judge.address)]
    waited_s: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield waited_s
        told, _ = process.communicate()
    assert process.returncode == 0
    waited_s.extend(json.loads(told))


def ask_much(judge: StandingJudge, count: int) -> list[float]:
    """Ask so many requests beside another client; see that none is charged, and return how long the other waited."""
    statuses: set[int] = set()

    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(methods, paths, bodies, kinds)
    def ask(method: str, path: str, body: bytes, kind: str) -> None:
        statuses.add(judge.status(method, path, body, kind))
        assert max(statuses) < 500

    before = judge.paths.journal.read_bytes()
    files = {path: path.stat().st_size for path in judge.paths.root.rglob("*")}
    judge.client.close()  # else it might be let go as idle before the first request is drawn
    with bystander(judge) as waited_s:
        statuses.add(judge.status("POST", "/submit", b"{}", "text/plain"))  # a body of another kind is drawn seldom
        ask()

    assert {200, 400, 404, 405, 415} <= statuses
    assert before == judge.paths.journal.read_bytes()
    assert files == {path: path.stat().st_size for path in judge.paths.root.rglob("*")}
    return waited_s


def test_whatever_is_asked_is_answered(judge: StandingJudge) -> None:
    """No request breaks the judge, is charged, or keeps another client from an answer."""
    assert ask_much(judge, 300)


@pytest.mark.nightly
def test_whatever_is_asked_costs_little(judge: StandingJudge) -> None:
    """However much is asked, the judge keeps no memory, and another client doesn't wait for long."""
    for number in range(200):  # so that what is loaded and kept once is loaded
        judge.status("POST", "/submit", b"{" * number, "application/json")
    memory_kb = judge.memory_kb()
    waited_s = ask_much(judge, 10_000)
    growth_kb = judge.memory_kb() - memory_kb
    typical_s, worst_s = median(waited_s), max(waited_s)
    print(f"{len(waited_s)} requests beside 10,000: answered in {typical_s * 1e3:.1f} ms (median),")
    print(f"{worst_s * 1e3:.1f} ms (worst); the judge's memory grew by {growth_kb} KiB")

    assert growth_kb < GROWTH_KB
    assert typical_s < MEDIAN_S
    assert worst_s < WORST_S
