"""Run directories that were made to harm whoever looks at them in a browser, each in its own way, by name."""

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import chdir, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bundles import Files
from diagnosed import BUNDLES, known_run, recorded
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import AgentEnded, EpisodePlayed, Event, RunOpened, SubmissionCharged
from evopolicygym.core.rollout import Failure
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord

CANARY = "canary"
"""The function of the page that no run may call."""
SECRET = "the-canary-sings"  # noqa: S105 - it opens nothing
MARKUP = (
    f"<img src=x onerror={CANARY}()><script>{CANARY}()</script><svg onload={CANARY}()>"
    f"<a href=\"javascript:{CANARY}()\">x</a>'\"><iframe srcdoc='<script>parent.{CANARY}()</script>'>"
)
LINK = f"[press](javascript:{CANARY}()) javascript:{CANARY}() data:text/html,<script>{CANARY}()</script>"
BIDI = "\u202egnp.exe\u2066\u200f\ufeff\x1b]0;owned\x07\x9b2J"
LONG = "a" * 10_000
HUGE = 30 << 30
SVG_IMAGE = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{CANARY}()"><script>{CANARY}()</script></svg>'
WRONG = (None, True, -1, 1e308, "", MARKUP, [], {}, [[]], {"__proto__": MARKUP})
"""Values of wrong types."""


def hostile_events(change: Callable[[Event], Event]) -> list[Event]:
    """Return the events of the run that is known by hand, each changed."""
    return [change(event) for event in known_run()]


def _with(kind: type, **changes: Any) -> Callable[[Event], Event]:
    return lambda event: replace(event, **changes) if isinstance(event, kind) else event


def _agent(**changes: Any) -> Callable[[Path], None]:
    agent = AgentConfig(**{"name": "command", **changes})
    return lambda root: _record(root, _with(RunOpened, agent=agent))


def _record(
    root: Path, change: Callable[[Event], Event] = lambda event: event, files: Mapping[str, Files] = BUNDLES
) -> None:
    recorded(root, hostile_events(change), files)


def _task(root: Path, **changes: Any) -> None:
    def changed(event: Event) -> Event:
        if not isinstance(event, RunOpened):
            return event
        return replace(event, task=replace(event.task, environment=replace(event.task.environment, **changes)))

    _record(root, changed)


def _failures(root: Path) -> None:
    def changed(event: Event) -> Event:
        if not isinstance(event, EpisodePlayed) or event.episode.failure is None:
            return event
        failure = Failure(event.episode.failure.reason, MARKUP, 1, f"{MARKUP}\n{LINK}")
        return replace(event, episode=replace(event.episode, failure=failure))

    _record(root, changed)


def _files(root: Path) -> None:
    name = f"x{MARKUP.replace('/', '')}"[:200]
    _record(
        root, files={**BUNDLES, "b": {f"{name}.py": MARKUP, "policy.py": f"# {MARKUP}\n{BIDI}\n", "x.html": MARKUP}}
    )


def _beside(root: Path, lay: Callable[[RunPaths], object]) -> None:
    _record(root)
    paths = RunPaths(root)
    paths.logs.mkdir(exist_ok=True)
    lay(paths)


def _feedback(paths: RunPaths) -> None:
    published = paths.published_feedback(1)
    (published / "episodes" / "ep_002").mkdir(parents=True)
    for name in ("stdout.txt", "stderr.txt"):
        (published / "episodes" / "ep_002" / name).write_text(f"{MARKUP}\n{LINK}\n{BIDI}")
    (published / "summary.json").write_text(json.dumps({"__proto__": MARKUP, "constructor": MARKUP, MARKUP: LINK}))


def _transcript(paths: RunPaths) -> None:
    lines = [{"role": MARKUP, "text": MARKUP}, {"role": "assistant", "text": LINK}, {"role": "tool", "text": BIDI}]
    paths.transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + MARKUP)


def _in_place(paths: RunPaths, make: Callable[[Path], object]) -> None:
    """Lay something in place of a transcript, a policy, a summary and a film."""
    (checkpoint, *_) = sorted(paths.checkpoints.iterdir())
    film = paths.films / "train" / "submit_000" / "case_000.mp4"
    for path in (paths.transcript, checkpoint / "policy.py", paths.published_feedback(0) / "summary.json", film):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)


def _socket(path: Path) -> None:
    """Bind a socket from its own directory: a socket's address holds 107 bytes at most."""
    with closing(socket.socket(socket.AF_UNIX)) as bound, chdir(path.parent):
        bound.bind(path.name)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def _link_out(root: Path, name: str) -> None:
    """Lay a link to the directory beside the runs in place of a folder of a run."""
    _record(root)
    path = root / name
    if path.exists():
        path.rename(root / f"{name}-before")
    path.symlink_to(root.parent.parent / "outside")


def _link_whole(root: Path) -> None:
    root.mkdir()
    for name in ("journal.jsonl", "run.json"):
        (root / name).symlink_to(root.parent.parent / "outside" / "secret.json")


def _cycle(root: Path) -> None:
    _record(root)
    (root / "films").symlink_to(".")
    (root / "logs").symlink_to("logs")
    (root / "around").symlink_to("..")


def _names_that_lead_out(root: Path) -> None:
    _record(
        root,
        lambda event: (
            replace(event, checkpoint=f"../../../outside/{event.checkpoint}") if hasattr(event, "checkpoint") else event
        ),
    )


def _document(root: Path) -> dict[str, Any]:
    record: RunRecord = recorded(root, known_run())
    document: dict[str, Any] = json.loads(record.paths.document.read_text())
    record.paths.journal.unlink()
    return document


def _alone(root: Path) -> None:
    document = _document(root)
    document["agent"] = {**document["agent"], "name": MARKUP, "label": LINK}
    (root / "run.json").write_text(json.dumps(document))


def _numbers(root: Path) -> None:
    _document(root)
    text = (root / "run.json").read_text()
    (root / "run.json").write_text(text.replace("5.0", "1e308").replace("4.0", "-0.0").replace("6.0", "-1e308"))


def _not_numbers(root: Path) -> None:
    _document(root)
    text = (root / "run.json").read_text()
    (root / "run.json").write_text(text.replace("5.0", "NaN").replace("4.0", "1e999"))


def _wrong_types(root: Path) -> None:
    """Lay a run for each field of run.json, each with a value of another type."""
    document = _document(root)
    (root / "run.json").unlink()
    for place, name in enumerate(document):
        for value in (WRONG[place % len(WRONG)], WRONG[(place + 5) % len(WRONG)]):
            at = root / f"{name}-{WRONG.index(value)}"
            at.mkdir(exist_ok=True)
            (at / "run.json").write_text(json.dumps({**document, name: value}))


def _truncated(root: Path) -> None:
    _record(root)
    journal = RunPaths(root).journal
    whole = journal.read_bytes()
    RunPaths(root).document.unlink()
    journal.write_bytes(whole[: len(whole) * 2 // 3])


def _bytes(paths: RunPaths) -> None:
    _in_place(paths, lambda path: path.write_bytes(b"\xff\xfe\x80\x00" * 400 + MARKUP.encode()))


def _bytes_document(root: Path) -> None:
    _document(root)
    (root / "run.json").write_bytes(b'{"run_id": "\xff\xfe"}')


def _deep(root: Path) -> None:
    root.mkdir()
    (root / "run.json").write_text("[" * 200_000)
    (root / "journal.jsonl").write_text("[" * 200_000)


HOSTILE_RUNS: Mapping[str, Callable[[Path], None]] = {
    "agent": _agent(model=MARKUP),
    "label": _agent(label=MARKUP),
    "effort": _agent(effort=LINK),
    "options": _agent(options={MARKUP: MARKUP, "__proto__": LINK}),
    "program": _agent(command=("/bin/sh", "-c", MARKUP)),
    "bidi": _agent(model=BIDI),
    "long": _agent(model=LONG),
    "family": partial(_task, family=MARKUP),
    "hypothesis": partial(
        _record, change=_with(SubmissionCharged, hypothesis=f"{MARKUP}\n{LINK}", settings={MARKUP: MARKUP})
    ),
    "failures": _failures,
    "end": partial(_record, change=_with(AgentEnded, message=f"{MARKUP}\n{LINK}")),
    "findings": partial(_record, change=_with(RunOpened, findings={MARKUP: MARKUP}, versions={MARKUP: LINK})),
    "files": _files,
    "feedback": partial(_beside, lay=_feedback),
    "transcript": partial(_beside, lay=_transcript),
    "image": partial(_beside, lay=partial(_in_place, make=lambda path: path.write_text(SVG_IMAGE))),
    "bytes": partial(_beside, lay=_bytes),
    "pipe": partial(_beside, lay=partial(_in_place, make=os.mkfifo)),
    "socket": partial(_beside, lay=partial(_in_place, make=_socket)),
    "device": partial(_beside, lay=partial(_in_place, make=lambda path: path.symlink_to("/dev/zero"))),
    "sparse": partial(_beside, lay=partial(_in_place, make=_sparse)),
    "cycle": _cycle,
    "link-out-checkpoints": partial(_link_out, name="checkpoints"),
    "link-out-logs": partial(_link_out, name="logs"),
    "link-out-films": partial(_link_out, name="films"),
    "link-whole": _link_whole,
    "names-that-lead-out": _names_that_lead_out,
    "document-alone": _alone,
    "document-bytes": _bytes_document,
    "numbers": _numbers,
    "not-numbers": _not_numbers,
    "wrong-types": _wrong_types,
    "truncated": _truncated,
    "deep": _deep,
}
"""Lays a hostile run, by name; the run lies below a directory that has ``outside`` beside it."""


def lay_hostile_runs(below: Path) -> Path:
    """Lay all of them below ``runs``, and a secret ``outside``; return the directory of runs."""
    (below / "outside").mkdir(parents=True)
    for name in ("secret.json", "policy.py", "agent.log"):
        (below / "outside" / name).write_text(json.dumps({"secret": SECRET}))
    (below / "runs").mkdir()
    for name, lay in HOSTILE_RUNS.items():
        lay(below / "runs" / name)
    return below / "runs"
