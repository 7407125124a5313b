"""Gathers what there is of an agent's conduct in a run's record: transcript, workspace, checkpoints."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from evopolicygym.analysis.conduct.finding import Place
from evopolicygym.analysis.conduct.left_files import left_files
from evopolicygym.analysis.conduct.material import Material
from evopolicygym.analysis.conduct.program import AgentProgram, Use, language_of
from evopolicygym.analysis.conduct.shell_history import ShellHistory, is_policy
from evopolicygym.analysis.conduct.transcript_calls import follow_transcript
from evopolicygym.core import regular_file
from evopolicygym.core.agent import IN_WORKSPACE, NOTES, SYSTEM
from evopolicygym.core.errors import RecordError
from evopolicygym.core.text import printable
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.transcripts.readers import READERS, WITHOUT, read_transcript

OURS = (IN_WORKSPACE - {NOTES, SYSTEM}) | {"packages", "judge.env"}
"""Names at the top of a workspace that are laid there for an agent."""
MOST_PATH = 4096


def gather(record: RunRecord) -> Material:
    """Return what an agent did and left, as far as its record holds it."""
    paths, root = record.paths, record.paths.root
    material = Material(roots=tuple(_roots(record)))
    left = dict(left_files(paths.workspace, root, OURS))
    history = ShellHistory(material, left)
    _transcript(record, history)
    history.finish()
    seen: set[str] = set()
    for name, files in _projects(record, left):
        _add_project(material, name, files, seen)
    modules = history.modules()
    for path, text in left.items():
        language = language_of(path)
        if language and not is_policy(path) and path not in history.ran and path not in history.written:
            material.add(AgentProgram(language, text, Place(f"workspace/{path}", 1), Use.LEFT, modules))
    return material


def _roots(record: RunRecord) -> Iterator[str]:
    yield "/workspace"
    yield str(record.paths.workspace.absolute())
    try:
        yield regular_file.read(record.paths.served_workspace, MOST_PATH, record.paths.root).decode().strip()
    except (OSError, RecordError, UnicodeDecodeError):
        return


def _transcript(record: RunRecord, history: ShellHistory) -> None:
    agent, paths, notes = record.state.opened.agent.name, record.paths, history.material.notes
    if agent not in READERS:
        notes.append(f"no transcript was read: {WITHOUT.get(agent, 'this agent has no reader')}")
        return
    try:
        found = read_transcript(agent, paths.transcript, paths.root)
    except RecordError as error:
        notes.append(f"no transcript was read: {printable(str(error))}")
        return
    if found is None:
        notes.append(f"no transcript was read: the record holds none of {agent}")
        return
    if found.unread:
        notes.append(f"{found.unread} lines of the transcript are no events and were left out")
    follow_transcript(found.steps, history, paths.transcript.relative_to(paths.root).as_posix())


def _projects(record: RunRecord, left: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every policy project: each checkpoint in the order of submissions, and what lies in ``system/``."""
    root = record.paths.root
    for name in dict.fromkeys(one.charged.checkpoint for one in record.state.submissions):
        try:
            directory = record.paths.checkpoint(name)
        except RecordError:
            continue
        yield f"checkpoints/{name}", dict(left_files(directory, root))
    yield "workspace/system", {path.partition("/")[2]: text for path, text in left.items() if is_policy(path)}


def _add_project(material: Material, name: str, files: dict[str, str], seen: set[str]) -> None:
    modules = {Path(path).stem: text for path, text in files.items() if path.endswith(".py")}
    for path, text in files.items():
        digest = hashlib.sha256(f"{path}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        if digest in seen:
            continue
        seen.add(digest)
        language = language_of(path)
        if language:
            place = Place(f"{name}/{path}", 1)
            material.add(AgentProgram(language, text, place, Use.POLICY, modules))
        else:
            material.data[path] = text
