"""A search for channels: every system call that the filter lets through is tried for a mark that another process finds.

A writer makes the calls; a reader makes them too, before, after and at the same time, and what any of them answers must
not depend on whether somebody wrote. What is tried is read from the compiled filter (``sandbox.allowed``), so a call
that is allowed one day is tried that day. Besides the reader, which is a policy, this process looks for marks on a file
that only somebody outside could find. How long a call takes is not looked at.
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
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import EpisodeJob, Recording
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.seccomp import Allowed, allowed_calls, call_name, policy_filter

OUTPUT, FILE, DIRECTORY, NULL = 1, 10, 11, 12
BUFFER, PATH, TIMEOUT, MAPPED = 0x2_0000_0000, 0x2_0001_0000, 0x2_0002_0000, 0x2_0003_0000
PLACES = (FILE, DIRECTORY, NULL, BUFFER, PATH, TIMEOUT, MAPPED)
"""What ``policy.py`` sets up, in the order in which it is given: descriptors of a library's file, the
file's directory and the null device; memory to be written, the file's path, a short time, the file's first page."""
OFFERED = (
    (FILE, DIRECTORY, NULL, OUTPUT, PATH, MAPPED, 0),
    (0, 1, PATH, BUFFER, 4096),
    (0, BUFFER, 4096),
    (0, TIMEOUT),
    (0, FILE, BUFFER),
    (0,),
)
"""Values of the six arguments, where the filter allows them."""
COMMANDS = {
    "fcntl": (1, (*range(64), *range(1024, 1044))),
    "flock": (1, (1, 2, 5, 6, 8)),
    "prctl": (0, range(1, 80)),
    "madvise": (2, (*range(32), 100, 101)),
    "futex": (1, (*range(14), *range(128, 142))),
    "mmap": (3, (0x22, 0x01)),
}
"""Commands of calls, their place among the arguments, and values to be tried where the filter allows them."""
TRIES, TRIES_THAT_BLOCK = 1260, 60
"""The most tries of one way through the filter; each is interrupted after a millisecond."""
MAY_BLOCK = {
    "pause", "rt_sigsuspend", "rt_sigtimedwait", "nanosleep", "clock_nanosleep", "futex", "poll", "ppoll", "select",
    "pselect6", "read", "readv", "pread64", "preadv", "write", "writev",
}  # fmt: skip
OWN_AFFAIRS = {
    "exit", "exit_group", "rt_sigreturn", "clone", "munmap", "mprotect", "mremap", "brk", "close", "dup2", "dup3",
    "rseq", "set_robust_list", "rt_sigaction", "rt_sigprocmask", "sigaltstack", "alarm", "setitimer", "write", "writev",
    "tgkill",
}  # fmt: skip
"""Calls that only a writer makes: they would end or blind a reader, and show nothing of other processes."""
CLOCKS = {
    "clock_gettime", "gettimeofday", "time", "times", "getitimer", "getrandom", "nanosleep", "clock_nanosleep", "ppoll",
    "pselect6", "select",
}  # fmt: skip
"""Calls whose answers always differ: times, and remaining times."""
NUMBERS = {"getpid", "getppid", "gettid", "getpgrp"}
"""Calls whose answers differ, too, where process numbers are the machine's (level process)."""
LIMITS = Limits(load_s=60.0, reset_s=60.0, act_s=60.0, episode_s=120.0, memory_mb=1024)
BESIDE_S = 0.25
"""Seconds for which a writer goes on with each call while a reader reads: some times what reading takes."""
TRIES_AT_ONCE = 40
"""The most tries of one way through the filter by a reader who reads while somebody writes."""
BASELINES = 3
GROUP = 10
"""Number of calls that are made between two reads."""
F_GET_RW_HINT = 1035
LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Probe:
    """One way through the filter, and how it is tried; encoded as it is for the policy."""

    name: str
    """The system call's name, and the way's place among that call's."""
    number: int
    tries: Sequence[Sequence[int]]
    """The six arguments of each try."""

    @property
    def system_call(self) -> str:
        """The system call's name alone."""
        return self.name.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Channel:
    """A mark that was found."""

    written_by: tuple[str, ...]
    """The system calls that were made before or meanwhile; one of them left it. ``any`` where a reader did."""
    found_by: str
    """The call that answers differently, or what outside does."""
    at_once: bool
    """Whether reader and writer lived at the same time."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    calls: tuple[str, ...]
    """Every way through the filter that was tried."""
    unsteady: frozenset[str]
    """System calls that answer differently although nobody wrote, but for those that do by their nature."""
    channels: tuple[Channel, ...]


@dataclass(slots=True)
class _Player:
    """A sandbox in which writers play, or readers."""

    spec: EnvironmentSpec
    root: Path
    executor: LocalExecutor
    _count: int = 0

    def play(self, calls: Sequence[Probe], library: str, seconds: float = 0.0) -> tuple[dict[str, int], str]:
        """Try calls in one episode; return a checksum for each, none where it didn't end well, and why it didn't."""
        self._count += 1
        checkpoint = self.root / f"checkpoint-{self._count}"
        checkpoint.mkdir()
        source = files("evopolicygym.checks.channel_search") / "policy.py"
        (checkpoint / "policy.py").write_bytes(source.read_bytes())
        written = [asdict(call) for call in calls]
        plan = {"library": library, "seconds": seconds, "places": PLACES, "calls": written}
        (checkpoint / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        grounds = self.executor.grounds
        schemas = grounds.observation_schema, grounds.action_schema
        context = PolicyContext(self.spec.name, 0, 1, 0, self.spec.max_steps, *schemas)
        job = EpisodeJob(0, 0, 0, self.root / f"episode-{self._count}", Recording.OUTPUT)
        [(_, episode)] = self.executor.play(checkpoint, context, [job], lambda _job, _why: None)
        printed = (self.root / f"episode-{self._count}" / "stdout.txt").read_text(encoding="utf-8")
        why = episode.failure.message if episode.failure else ""
        return (json.loads(printed) if printed.startswith("{") else {}), why


@dataclass(slots=True)
class _Search:
    """A search under way."""

    plan: Sequence[Probe]
    library: str
    writer: _Player
    reader: _Player
    progress: Callable[[str], None]
    by_nature: frozenset[str]
    """System calls that answer differently every time."""
    unsteady: set[str] = field(default_factory=set)

    def read(self, calls: Sequence[Probe]) -> dict[str, int | str]:
        """Return what calls answer, and what is seen outside; raise ``SandboxError`` where that can't be read."""
        found, why = self.reader.play(calls, self.library)
        if len(found) < len(calls):
            raise SandboxError(f"The reader of a search for channels did not end well: {why or 'it printed nothing'}.")
        return {**found, **_outside(self.library)}

    def one_after_another(self) -> Iterator[Channel]:
        """Write by a group of calls, then read."""
        calls = _readable(self.plan)
        untouched = _outside(self.library)
        steady = self._steady(calls)
        yield from (Channel(("any",), name, at_once=False) for name in _changed(untouched, _outside(self.library)))
        by_call = self._by_call()
        for start in range(0, len(by_call), GROUP):
            group = by_call[start : start + GROUP]
            for written in group:
                self.progress(f"writing by {written[0].system_call}")
                self.writer.play(written, self.library)
            names = tuple(written[0].system_call for written in group)
            yield from (Channel(names, item, at_once=False) for item in _changed(steady, self.read(calls)))

    def side_by_side(self) -> Iterator[Channel]:
        """Read for as long as somebody writes, call by call."""
        calls = [replace(call, tries=_some(call.tries)) for call in _readable(self.plan)]
        steady = self._steady(calls)
        for written in self._by_call():
            name = written[0].system_call
            self.progress(f"writing by {name} while another reads")
            writer = Thread(target=self.writer.play, args=(written, self.library, BESIDE_S), name="writer")
            writer.start()
            try:
                while writer.is_alive():
                    seen = self.read(calls)
                    yield from (Channel((name,), item, at_once=True) for item in _changed(steady, seen))
            finally:
                writer.join()

    def _steady(self, calls: Sequence[Probe]) -> dict[str, int | str]:
        """Return what is answered alike while nobody writes; note what is not, and should be."""
        self.progress("reading while nobody writes")
        seen = [self.read(calls) for _ in range(BASELINES)]
        alike = {name: value for name, value in seen[0].items() if all(item[name] == value for item in seen)}
        names = {name: name.partition("#")[0] for name in seen[0]}
        self.unsteady |= {names[name] for name in seen[0].keys() - alike.keys()} - self.by_nature
        return {name: value for name, value in alike.items() if names[name] not in self.by_nature}

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
    """Search a level for channels between policies, one after another and side by side; ``progress`` hears of steps.

    ``program`` is the level's compiled filter, where it has one of its own; ``library`` names the module whose file is
    opened by all; ``only`` names the system calls that are tried, where not all are. Raises ``SandboxError`` where the
    level can't work here, filters no system calls, or its reader can't play.
    """
    program, guaranteed = program or policy_filter(), choose(level).backend.guarantees
    if program is None or Guarantee.SYSTEM_CALLS_FILTERED not in guaranteed:
        raise SandboxError(f"No system calls are filtered at level {level!r} here: there is nothing to search.")
    by_nature = CLOCKS | (set() if Guarantee.PROCESS_NUMBERS_PRIVATE in guaranteed else NUMBERS)
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
        found = _Search(plan, library, player("writers"), player("readers"), progress, frozenset(by_nature))
        channels = (*found.one_after_another(), *found.side_by_side())
    return SearchResult(tuple(call.name for call in plan), frozenset(found.unsteady), tuple(dict.fromkeys(channels)))


def _readable(plan: Sequence[Probe]) -> list[Probe]:
    return [call for call in plan if call.system_call not in OWN_AFFAIRS]


def _some(tries: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    return Random(0).sample(tries, min(len(tries), TRIES_AT_ONCE))  # noqa: S311 - any that are spread will do


def _plan(ways: Iterator[Allowed]) -> Iterator[Probe]:
    """Yield what is tried of each way through the filter."""
    count: dict[int, int] = {}
    for way in ways:
        count[way.number] = count.get(way.number, 0) + 1
        name = call_name(way.number)
        values = [way.values(place, offered) for place, offered in enumerate(OFFERED)]
        if name in COMMANDS:
            place, commands = COMMANDS[name]
            values[place] = list(dict.fromkeys((*way.values(place, commands), *values[place])))
        most = TRIES_THAT_BLOCK if name in MAY_BLOCK else TRIES
        tries = (item[::-1] for item in product(*reversed(values)))
        kept = islice((item for item in tries if not (name == "madvise" and _holds_programs(*item[:2]))), most)
        yield Probe(f"{name}#{count[way.number]}", way.number, list(kept))


def _holds_programs(begin: int, length: int) -> bool:
    """Return whether the addresses may hold the reader's own code: a program that can't be moved lies below 4 GiB."""
    return begin < BUFFER <= begin + length


def _changed(before: Mapping[str, int | str], after: Mapping[str, int | str]) -> list[str]:
    return [name for name, value in before.items() if after[name] != value]


def _outside(library: str) -> dict[str, int | str]:
    """Return what somebody outside of any sandbox sees of the file that writers have open."""
    place = import_module(library).__file__ or ""
    writable = os.access(place, os.W_OK)
    with Path(place).open("rb+" if writable else "rb") as file:
        status = os.fstat(file.fileno())
        return {
            "its write hint": _asked(file.fileno(), F_GET_RW_HINT, bytes(8)),
            "its locks": _asked(file.fileno(), fcntl.F_GETLK, LOCK) if writable else "",
            "its status": f"{status.st_mode} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}",
            "its attributes": str(os.listxattr(file.fileno())),
        }


def _asked(descriptor: int, command: int, argument: bytes) -> str:
    try:
        return str(fcntl.fcntl(descriptor, command, argument))
    except OSError as error:
        return str(error)
