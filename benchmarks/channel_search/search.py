"""A search for channels between policies: marks that a policy leaves by an allowed system call and another finds.

A writer makes all system calls that the filter allows; a reader makes them before, after and at the same time. No
result may depend on whether the writer wrote. The calls are read from the compiled filter. This process also looks for
marks on a file that are only visible outside of a sandbox. The duration of calls is not compared.
"""

import fcntl
import json
import os
import platform
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

from channel_search.compiled_filter import Allowed, allowed_calls, call_name
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import EpisodeJob, Recording, Rollout
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.seccomp import policy_filter

OUTPUT, FILE, DIRECTORY, NULL = 1, 10, 11, 12
BUFFER, PATH, TIMEOUT, MAPPED = 0x2_0000_0000, 0x2_0001_0000, 0x2_0002_0000, 0x2_0003_0000
PLACES = (FILE, DIRECTORY, NULL, BUFFER, PATH, TIMEOUT, MAPPED)
"""Values that ``policy.py`` sets up: descriptors of a library's file, the file's directory and the null device;
addresses of writable memory, the file's path, a short time and the file's first page."""
OFFERED = (
    (FILE, DIRECTORY, NULL, OUTPUT, PATH, MAPPED, 0),
    (0, 1, PATH, BUFFER, 4096),
    (0, BUFFER, 4096),
    (0, TIMEOUT),
    (0, FILE, BUFFER),
    (0,),
)
"""Values of the six arguments to try if the filter allows them."""
COMMANDS = {
    "fcntl": (1, (*range(64), *range(1024, 1044))),
    "flock": (1, (1, 2, 5, 6, 8)),
    "prctl": (0, range(1, 80)),
    "madvise": (2, (*range(32), 100, 101)),
    "futex": (1, (*range(14), *range(128, 142))),
    "mmap": (3, (0x22, 0x01)),
}
"""Index of a call's command argument, and its values to try if the filter allows them."""
TRIES, TRIES_THAT_BLOCK = 1260, 60
"""Most tries of one way through the filter; each is interrupted after a millisecond."""
MAY_BLOCK = {
    "pause", "rt_sigsuspend", "rt_sigtimedwait", "nanosleep", "clock_nanosleep", "futex", "poll", "ppoll", "select",
    "pselect6", "read", "readv", "pread64", "preadv", "write", "writev",
}  # fmt: skip
OWN_AFFAIRS = {
    "exit", "exit_group", "rt_sigreturn", "clone", "munmap", "mprotect", "mremap", "brk", "close", "dup2", "dup3",
    "rseq", "set_robust_list", "rt_sigaction", "rt_sigprocmask", "sigaltstack", "alarm", "setitimer", "write", "writev",
    "tgkill",
}  # fmt: skip
"""Calls that only a writer makes: they would end or break a reader, and show nothing of other processes."""
CLOCKS = {
    "clock_gettime", "gettimeofday", "time", "times", "getitimer", "getrandom", "nanosleep", "clock_nanosleep", "ppoll",
    "pselect6", "select",
}  # fmt: skip
"""Calls whose results always differ."""
NUMBERS = {"getpid", "getppid", "gettid", "getpgrp"}
"""Calls whose results differ if process numbers are the machine's (backend process)."""
LIMITS = Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=120.0, memory_mb=1024)
BESIDE_S = 0.25
"""Seconds for which a writer repeats each call while a reader reads: several times as long as reading takes."""
TRIES_AT_ONCE = 40
"""Most tries of one way through the filter by a reader beside a writer."""
BASELINES = 3
GROUP = 10
"""Number of calls between two reads."""
F_GET_RW_HINT = 1035
LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Probe:
    """One way through the filter and its tries; encoded as JSON for the policy."""

    name: str
    """The system call's name and the index of the way among that call's ways."""
    number: int
    tries: Sequence[Sequence[int]]
    """The six arguments of each try."""

    @property
    def system_call(self) -> str:
        """The system call's name."""
        return self.name.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Channel:
    """A mark that was found."""

    written_by: tuple[str, ...]
    """The system calls of which one left it, or ``any``."""
    found_by: str
    """The call whose result changed, or the state of the file that did."""
    at_once: bool
    """Whether reader and writer ran at the same time."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    calls: tuple[str, ...]
    """Every way through the filter that was tried."""
    unsteady: frozenset[str]
    """System calls whose results differed without a writer, except those whose results always differ."""
    channels: tuple[Channel, ...]


@dataclass(slots=True)
class _Player:
    """Plays writers or readers in one sandbox."""

    spec: EnvironmentSpec
    root: Path
    executor: LocalExecutor
    _count: int = 0

    def play(self, calls: Sequence[Probe], library: str, seconds: float = 0.0) -> tuple[dict[str, int], str]:
        """Make calls in one episode; return a checksum for each (none if the episode failed) and the failure."""
        self._count += 1
        checkpoint = self.root / f"checkpoint-{self._count}"
        checkpoint.mkdir()
        (checkpoint / "policy.py").write_bytes(Path(__file__).with_name("policy.py").read_bytes())
        plan = {"library": library, "seconds": seconds, "places": PLACES, "calls": [asdict(call) for call in calls]}
        (checkpoint / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        info = self.executor.info
        schemas = info.observation_schema, info.action_schema
        context = PolicyContext(self.spec.name, 0, 1, 0, self.spec.max_steps, *schemas)
        job = EpisodeJob(0, 0, 0, self.root / f"episode-{self._count}", Recording.OUTPUT)
        [(_, _, episode)] = self.executor.play([Rollout(checkpoint, context, [job])], lambda *_: None)
        output = (self.root / f"episode-{self._count}" / "stdout.txt").read_text(encoding="utf-8")
        failure = episode.failure.message if episode.failure else ""
        return (json.loads(output) if output.startswith("{") else {}), failure


@dataclass(slots=True)
class _Search:
    """A search in progress."""

    plan: Sequence[Probe]
    library: str
    writer: _Player
    reader: _Player
    progress: Callable[[str], None]
    always_differ: frozenset[str]
    """System calls whose results always differ."""
    unsteady: set[str] = field(default_factory=set)

    def read(self, calls: Sequence[Probe]) -> dict[str, int | str]:
        """Return the results of calls and the state of the file outside; raise ``SandboxError`` if the reader fails."""
        checksums, failure = self.reader.play(calls, self.library)
        if len(checksums) < len(calls):
            raise SandboxError(f"The reader of the search for channels failed: {failure or 'it printed nothing'}.")
        return {**checksums, **_outside(self.library)}

    def one_after_another(self) -> Iterator[Channel]:
        """Write by a group of calls, then read."""
        calls = _readable(self.plan)
        untouched = _outside(self.library)
        steady = self._steady(calls)
        yield from (Channel(("any",), name, at_once=False) for name in _changed(untouched, _outside(self.library)))
        by_call = self._by_call()
        for start in range(0, len(by_call), GROUP):
            group = by_call[start : start + GROUP]
            for probes in group:
                self.progress(f"writing by {probes[0].system_call}")
                self.writer.play(probes, self.library)
            names = tuple(probes[0].system_call for probes in group)
            yield from (Channel(names, item, at_once=False) for item in _changed(steady, self.read(calls)))

    def side_by_side(self) -> Iterator[Channel]:
        """Read while a writer writes, call by call."""
        calls = [replace(call, tries=_some(call.tries)) for call in _readable(self.plan)]
        steady = self._steady(calls)
        for probes in self._by_call():
            name = probes[0].system_call
            self.progress(f"writing by {name} while another reads")
            writer = Thread(target=self.writer.play, args=(probes, self.library, BESIDE_S), name="writer")
            writer.start()
            try:
                while writer.is_alive():
                    results = self.read(calls)
                    yield from (Channel((name,), item, at_once=True) for item in _changed(steady, results))
            finally:
                writer.join()

    def _steady(self, calls: Sequence[Probe]) -> dict[str, int | str]:
        """Return the results that are equal in several reads without a writer; add the others to ``unsteady``."""
        self.progress("reading while nobody writes")
        reads = [self.read(calls) for _ in range(BASELINES)]
        equal = {name: value for name, value in reads[0].items() if all(item[name] == value for item in reads)}
        names = {name: name.partition("#")[0] for name in reads[0]}
        self.unsteady |= {names[name] for name in reads[0].keys() - equal.keys()} - self.always_differ
        return {name: value for name, value in equal.items() if names[name] not in self.always_differ}

    def _by_call(self) -> list[list[Probe]]:
        numbers = dict.fromkeys(call.number for call in self.plan)
        return [[call for call in self.plan if call.number == number] for number in numbers]


def search(
    level: str,
    spec: EnvironmentSpec,
    progress: Callable[[str], None] = lambda _what: None,
    program: bytes | None = None,
    library: str = "json",
    only: Collection[str] = (),
) -> SearchResult:
    """Search a backend for channels between policies, one after another and side by side.

    ``progress`` is called with a description of each step. ``program`` is the backend's compiled filter (default: the
    package's); ``library`` names the module whose file writers and readers open; ``only`` names the system calls to try
    (default: all). Raises ``SandboxError`` if the backend doesn't work here, filters no system calls, or the reader
    fails.
    """
    program, guaranteed = program or policy_filter(), choose(level).backend.guarantees
    if program is None or Guarantee.SYSTEM_CALLS_FILTERED not in guaranteed:
        raise SandboxError(f"The sandbox backend {level!r} filters no system calls here: there is nothing to search.")
    always_differ = CLOCKS | (set() if Guarantee.PROCESS_NUMBERS_PRIVATE in guaranteed else NUMBERS)
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="evopolicygym-channels-")))

        def player(name: str) -> _Player:
            (place / name).mkdir()
            workers, log = place / name / "workers", place / name / "simulators.log"
            executor = stack.enter_context(LocalExecutor(ExecutorConfig(spec, LIMITS, level, workers, log, 1)))
            return _Player(spec, place / name, executor)

        plan = [
            item for item in _plan(allowed_calls(program, platform.machine())) if not only or item.system_call in only
        ]
        trial = _Search(plan, library, player("writers"), player("readers"), progress, frozenset(always_differ))
        channels = (*trial.one_after_another(), *trial.side_by_side())
    return SearchResult(tuple(call.name for call in plan), frozenset(trial.unsteady), tuple(dict.fromkeys(channels)))


def _readable(plan: Sequence[Probe]) -> list[Probe]:
    return [call for call in plan if call.system_call not in OWN_AFFAIRS]


def _some(tries: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    return Random(0).sample(tries, min(len(tries), TRIES_AT_ONCE))  # noqa: S311 - no secret


def _plan(ways: Iterator[Allowed]) -> Iterator[Probe]:
    """Yield the tries of each way through the filter."""
    count: dict[int, int] = {}
    for way in ways:
        count[way.number] = count.get(way.number, 0) + 1
        name = call_name(way.number)
        values = [way.values(index, offered) for index, offered in enumerate(OFFERED)]
        if name in COMMANDS:
            index, commands = COMMANDS[name]
            values[index] = list(dict.fromkeys((*way.values(index, commands), *values[index])))
        limit = TRIES_THAT_BLOCK if name in MAY_BLOCK else TRIES
        tries = (item[::-1] for item in product(*reversed(values)))
        safe = (item for item in tries if not (name == "madvise" and _may_contain_code(*item[:2])))
        yield Probe(f"{name}#{count[way.number]}", way.number, list(islice(safe, limit)))


def _may_contain_code(start: int, length: int) -> bool:
    """Return whether addresses may contain the reader's code: a program that isn't relocatable lies below 4 GiB."""
    return start < BUFFER <= start + length


def _changed(before: Mapping[str, int | str], after: Mapping[str, int | str]) -> list[str]:
    return [name for name, value in before.items() if after[name] != value]


def _outside(library: str) -> dict[str, int | str]:
    """Return the state of the file that writers open, as seen outside of any sandbox."""
    path = import_module(library).__file__ or ""
    writable = os.access(path, os.W_OK)
    with Path(path).open("rb+" if writable else "rb") as file:
        status = os.fstat(file.fileno())
        return {
            "its write hint": _call_fcntl(file.fileno(), F_GET_RW_HINT, bytes(8)),
            "its locks": _call_fcntl(file.fileno(), fcntl.F_GETLK, LOCK) if writable else "",
            "its status": f"{status.st_mode} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}",
            "its attributes": str(os.listxattr(file.fileno())),
        }


def _call_fcntl(descriptor: int, command: int, argument: bytes) -> str:
    try:
        return str(fcntl.fcntl(descriptor, command, argument))
    except OSError as error:
        return str(error)
