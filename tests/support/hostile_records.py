"""Records that somebody made to harm whoever reads them: laid below a directory, each run in its own way.

What they must not reach lies in a directory ``outside`` beside: a secret, and the place of a canary that any program
of a record would leave there if it were run.
"""

import json
import os
import socket
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from evopolicygym.core import cases
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource
from evopolicygym.core.event import (
    AgentEnded,
    AgentStarted,
    CheckpointSelected,
    EpisodePlayed,
    Event,
    RunClosed,
    RunOpened,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.spaces import Box, Discrete, to_schema
from evopolicygym.environments.versions import versions
from evopolicygym.records import journal
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from fakes import TIME, whole_run

SECRET = "the-canary-sings"  # noqa: S105 - it opens nothing
ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\x7f[bold][/oops]"
"""What a terminal would act on, and what a console might take for markup."""
HUGE = 30 << 30
POLICY = """
from pathlib import Path
try:
    Path({touched!r}).write_text("a policy ran unconfined")
except OSError:
    pass
class Policy:
    def __init__(self, context): pass
    def reset(self, *_): pass
    def act(self, _): return 0
"""


@dataclass(frozen=True, slots=True)
class Outside:
    """What lies beside the records."""

    root: Path

    @property
    def secret(self) -> Path:
        """A file that is nobody's business."""
        return self.root / "secret.py"

    @property
    def touched(self) -> Path:
        """Is there once any program of a record was run without a sandbox."""
        return self.root / "touched"

    def lay(self) -> None:
        """Make it."""
        (self.root / "private").mkdir(parents=True)
        self.secret.write_text(f"{SECRET} = 1\n", encoding="utf-8")
        (self.root / "private" / "key").write_text(SECRET, encoding="utf-8")

    def found(self) -> dict[str, bytes]:
        """Return all that lies there."""
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(self.root.rglob("*"))}


def foreign(root: Path, outside: Outside, change: Callable[[Event], Event] = lambda event: event) -> RunPaths:
    """Write a finished run of cartpole on public cases, at level ``none``, whose agent, policy and texts mean harm."""
    paths = RunPaths(root)
    names = {name: _checkpoint(paths, outside, name) for name in ("a", "b")}
    feedback = {}
    for index in range(2):
        paths.published_feedback(index).mkdir(parents=True)
        (paths.published_feedback(index) / "summary.json").write_text(json.dumps({"note": ESCAPES}), encoding="utf-8")
        feedback[index] = feedback_sha256(paths.published_feedback(index))
    events = [change(_hostile(event, names, feedback, outside)) for event in _events()]
    _write(paths, events)
    for name in ("agent.log", "model.jsonl", "simulators.log"):
        paths.logs.mkdir(exist_ok=True)
        (paths.logs / name).write_text(ESCAPES, encoding="utf-8")
    return paths


def unfinished(root: Path, outside: Outside) -> RunPaths:
    """Write a run that stopped in the middle, whose agent would be started by resuming it."""
    paths = foreign(root, outside)
    _write(paths, list(journal.read(paths.journal).events[:4]))
    return paths


def forged_line(paths: RunPaths, text: bytes) -> None:
    """Add a line to a journal, whose chain fits, with an event of any text."""
    contents = paths.journal.read_bytes()
    last = sha256(contents.splitlines(keepends=True)[-1]).hexdigest()
    head = f'{{"sequence":{contents.count(10)},"previous":"{last}","length":{len(text)},"checksum":"'
    paths.journal.write_bytes(
        contents + f'{head}{sha256(text).hexdigest()}","event":'.encode() + text + b"}\n",
    )


def a_link(path: Path, outside: Outside) -> None:
    """Lay a link to the secret, or to a private directory."""
    path.symlink_to(outside.secret if path.suffix else outside.root / "private")


def a_pipe(path: Path, _outside: Outside) -> None:
    """Lay a pipe that nobody writes into."""
    os.mkfifo(path)


def a_socket(path: Path, _outside: Outside) -> None:
    """Lay a socket that nobody listens on."""
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(path))


def a_sparse_file(path: Path, _outside: Outside) -> None:
    """Lay a file of 30 GB that takes no room."""
    with path.open("wb") as file:
        file.truncate(HUGE)


def deep_json(path: Path, _outside: Outside) -> None:
    """Lay brackets in brackets."""
    path.write_bytes(b"[" * 200_000)


KINDS = (a_link, a_pipe, a_socket, a_sparse_file, deep_json)
"""What may lie in place of a file."""


def in_place_of(path: Path, kind: Callable[[Path, Outside], None], outside: Outside) -> None:
    """Lay something in place of a file or directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}-before"))
    else:
        path.unlink(missing_ok=True)
    kind(path, outside)


def lay_deep(root: Path, kind: Callable[[Path, Outside], None], outside: Outside) -> None:
    """Lay a run in which one kind of thing stands in place of all that lies deeper than its journal and run.json."""
    for path in _deep(foreign(root, outside)):
        in_place_of(path, kind, outside)


def lay_all(runs: Path, kind: Callable[[Path, Outside], None], outside: Outside) -> None:
    """Lay runs in which one kind of thing stands in place of the journal, of run.json, and of all that lies deeper."""
    in_place_of(foreign(runs / "journal", outside).journal, kind, outside)
    in_place_of(foreign(runs / "document", outside).document, kind, outside)
    only = RunPaths(runs / "only-document")
    foreign(only.root, outside).journal.unlink()
    in_place_of(only.document, kind, outside)
    lay_deep(runs / "deep", kind, outside)
    going = unfinished(runs / "going", outside)
    for path in (going.lock, going.transcript, going.logs / "simulators.log"):
        in_place_of(path, kind, outside)
    above = foreign(runs / "experiment" / "run", outside)
    for name in ("experiment.json", "revealed.json"):
        in_place_of(above.root.parent / name, kind, outside)


def lay_linked_directories(runs: Path, outside: Outside) -> None:
    """Lay runs in which whole directories are links, and a checkpoint that holds one beside its hashed files."""
    for name in ("checkpoints", "evaluation", "workspace", "workspace/feedback", "logs", "films", "staging"):
        in_place_of(foreign(runs / name.replace("/", "-"), outside).root / name, a_link, outside)
    whole = foreign(runs / "beside", outside)
    for checkpoint in whole.checkpoints.iterdir():
        (checkpoint / "data").symlink_to(outside.root / "private")


def lay_broken(runs: Path, outside: Outside) -> None:
    """Lay runs whose journals hold events that mean nothing, and whose archives unpack to too much."""
    for place, text in enumerate((b"{", b"[]", b"[" * 200_000, b'{"kind":[]}', b'{"kind":"run_opened"}', b"9" * 5000)):
        forged_line(foreign(runs / f"event-{place}", outside), text)
    steps = foreign(runs / "steps", outside)
    selected = max(steps.checkpoints.iterdir()).name
    for position in range(3):
        directory = steps.hidden_episode(Split.HELD_OUT, selected, position)
        directory.mkdir(parents=True)
        with zipfile.ZipFile(directory / "steps.npz", "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("actions.npy", bytes(64 << 20))
            archive.writestr("rewards.npy", bytes(64 << 20))
    (steps.root / "post_hoc.json").write_text('{"schema_version": 3, "checkpoints": {"a": 1}}', encoding="utf-8")


def lay_names_that_lead_out(runs: Path, outside: Outside) -> None:
    """Lay runs whose journals name checkpoints, experiments and environments that lie elsewhere."""
    up = f"../../../{outside.root.name}/private"

    def checkpoint(event: Event) -> Event:
        return replace(event, checkpoint=f"{up}/{event.checkpoint}") if hasattr(event, "checkpoint") else event

    def opened(**changes: Any) -> Callable[[Event], Event]:
        return lambda event: replace(event, **changes) if isinstance(event, RunOpened) else event

    spec = replace(catalog.load("cartpole"), name=up)
    foreign(runs / "checkpoint", outside, checkpoint)
    foreign(runs / "identity", outside, opened(experiment=up, split=SplitSource.PRIVATE))
    foreign(runs / "directory", outside, opened(experiment="ab", split=SplitSource.DIRECTORY))
    foreign(
        runs / "environment",
        outside,
        lambda event: (
            replace(event, task=replace(event.task, environment=spec)) if isinstance(event, RunOpened) else event
        ),
    )


def lay_own_simulators(runs: Path, outside: Outside) -> None:
    """Lay runs whose environments would import a module, or hand a known simulator a file."""
    for place, changes in enumerate(({"imports": ("canary_module",)}, {"arguments": {"render_mode": "human"}})):
        spec = replace(catalog.load("cartpole"), **changes)

        def change(event: Event, spec: Any = spec) -> Event:
            if not isinstance(event, RunOpened):
                return event
            return replace(event, task=replace(event.task, environment=spec), isolation="canary_module:Backend")

        foreign(runs / f"simulator-{place}", outside, change)


def lay_foreign(runs: Path, outside: Outside) -> None:
    """Lay a finished and an unfinished run that mean harm by what they say and name alone."""
    foreign(runs / "finished", outside)
    unfinished(runs / "unfinished", outside)


def _deep(paths: RunPaths) -> list[Path]:
    """Return files below a run's directory that verbs read, and some that only may be there."""
    selected = max(path.name for path in paths.checkpoints.iterdir())
    return [
        paths.root / "post_hoc.json",
        paths.logs / "agent.log",
        paths.logs / "model.jsonl",
        paths.checkpoint(selected) / "policy.py",
        paths.published_feedback(0) / "summary.json",
        paths.published_feedback(0) / "episodes" / "ep_000" / "trajectory.jsonl",
        paths.published_feedback(0) / "episodes" / "ep_001" / "steps.npz",
        paths.published_feedback(0) / "episodes" / "ep_000" / "stdout.txt",
        paths.hidden_episode(Split.HELD_OUT, selected, 0) / "steps.npz",
        paths.films / "held_out" / selected[:16] / "case_000.mp4",
        paths.films / "held_out" / selected[:16] / "case_000.json",
    ]


def _checkpoint(paths: RunPaths, outside: Outside, name: str) -> str:
    directory = paths.checkpoints / "new"
    directory.mkdir(parents=True)
    (directory / "policy.py").write_text(POLICY.format(touched=str(outside.touched)) + f"# {name}\n", encoding="utf-8")
    named = name_of(directory)
    directory.rename(paths.checkpoints / named)
    return named


def _events() -> list[Event]:
    opened, *rest = whole_run()
    ended = AgentEnded(TIME, 0, "crashed", ESCAPES, seconds=1.0)
    closed = next(place for place, event in enumerate(rest) if isinstance(event, RunClosed))
    return [opened, AgentStarted(TIME, 0), *rest[:closed], ended, *rest[closed:]]


def _hostile(event: Event, names: dict[str, str], feedback: dict[int, str], outside: Outside) -> Event:
    match event:
        case RunOpened():
            spec = catalog.load("cartpole")
            task = replace(event.task, environment=spec)
            touch = ("/bin/sh", "-c", f"touch {outside.touched}")
            public = cases.derive(PUBLIC_KEY, spec.name)
            return replace(
                event,
                task=task,
                agent=AgentConfig("command", f"model {ESCAPES}", command=(*touch, ESCAPES)),
                split=SplitSource.PUBLIC,
                commitment=cases.commitment(public, cases.salt(PUBLIC_KEY, spec.name)),
                versions=versions(spec),
                findings={ESCAPES: ESCAPES},
                isolation="none",
                observation_schema=to_schema(Box((4,), "float32", -1.0, 1.0)),
                action_schema=to_schema(Discrete(2)),
            )
        case EpisodePlayed(episode=episode):
            failure = Failure(FailureReason.ERROR, ESCAPES, 1, ESCAPES) if event.position == 1 else None
            return replace(event, checkpoint=names[event.checkpoint], episode=replace(episode, failure=failure))
        case SubmissionPublished():
            return replace(event, feedback_sha256=feedback[event.submit_index])
        case SubmissionCharged() | CheckpointSelected():
            return replace(event, checkpoint=names[event.checkpoint])
        case _:
            return event


def _write(paths: RunPaths, events: list[Event]) -> None:
    for file in (paths.journal, paths.document):
        file.unlink(missing_ok=True)
    with RunWriter(paths.root, events[0]) as writer:
        for event in events[1:]:
            writer.record(event, flush=False)
        with suppress(ValueError):
            writer.write_document()
