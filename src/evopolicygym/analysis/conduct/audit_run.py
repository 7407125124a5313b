"""The audit of an agent's conduct in a run: gathers the material of the record and runs all detectors over it.

The material comes from the transcript, the workspace and the checkpoints. Files are read without following links and
within bounds.
"""

import hashlib
import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.detector import (
    DETECTORS,
    MOST_PROGRAM_BYTES,
    AgentProgram,
    AuditFinding,
    Detector,
    Grade,
    Location,
    Material,
    ToolUse,
    TranscriptState,
    Use,
    language_of,
)
from evopolicygym.analysis.conduct.python_program import read_program
from evopolicygym.analysis.conduct.shell_history import ShellHistory, add_nested_commands, is_policy
from evopolicygym.analysis.ranking.leaderboard import Leaderboard
from evopolicygym.analysis.ranking.score_table import Entry
from evopolicygym.analysis.tables.table import Cell, Column, Table, table_of
from evopolicygym.core import regular_file
from evopolicygym.core.agent import IN_WORKSPACE, NOTES, SYSTEM
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.text import counted, printable
from evopolicygym.records.conversation import ConversationStep, ToolCall
from evopolicygym.records.reader import Problem, RunRecord, read_run
from evopolicygym.records.transcripts import READERS, UNREADABLE, WITHOUT_MODEL, read_transcript

COMMAND = ("command", "cmd", "script")
PATH = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename")
CONTENT = ("content", "contents", "file_text", "text")
OLD = ("old_string", "oldString", "old_str")
NEW = ("new_string", "newString", "new_str")
DIRECTORY = ("workdir", "cwd", "directory", "dir_path")


def follow_transcript(steps: Iterable[ConversationStep], history: ShellHistory, file: str) -> None:
    """Add the effects of an agent's calls, in order."""
    for step in steps:
        for call in step.calls:
            _follow(call, history, Location(file, call.line))


def _follow(call: ToolCall, history: ShellHistory, location: Location) -> None:
    arguments = call.arguments
    if command := _command(arguments):
        history.follow(command, location, _first(arguments, DIRECTORY))
        return
    path = _first(arguments, PATH)
    if path and (content := _first(arguments, CONTENT)):
        history.write(path, content, location)
        return
    listed = arguments.get("edits")
    edits = [edit for edit in (listed if isinstance(listed, list) else [arguments]) if isinstance(edit, Mapping)]
    for edit in edits:
        history.edit(path, _first(edit, OLD), _first(edit, NEW), location)
    if path and any(_first(edit, OLD) for edit in edits):
        return
    if code := _first(arguments, ("code",)):
        history.run_python(code, location)
    history.material.tools.append(ToolUse(call.name, arguments, location))


def _command(arguments: Mapping[str, Any]) -> str:
    """Return the command of a shell that is called, whether it came as a text or as words."""
    for name in COMMAND:
        match arguments.get(name):
            case str(text):
                return text
            case [*words] if words and all(isinstance(word, str) for word in words):
                return shlex.join(words)
    return ""


def _first(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), "")


MOST_ENTRIES = 20_000
"""Limit on the entries of a directory, subdirectories included."""
MOST_DEPTH = 12
"""Directories within directories."""
MOST_BYTES = 32 << 20
"""Limit on the bytes read from a directory."""
MOST_DATA = 64 << 10
"""Bytes of a data file that are read."""
DATA = frozenset({".json", ".jsonl", ".csv", ".txt", ".toml", ".yaml", ".yml"})
"""Suffixes of data that a policy may read its answers from."""
SKIPPED = frozenset({".git", "__pycache__", "node_modules"})


def left_files(directory: Path, root: Path, skipped: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield programs and data below a directory by their POSIX paths; ``skipped`` are names at its top.

    Links, devices and unreadable files are skipped: the agent controls the directory.
    """
    left = MOST_BYTES
    for path in sorted(_below(directory, skipped)):
        is_data = path.suffix.lower() in DATA
        if not is_data and not language_of(path.name) and path.suffix:
            continue
        try:
            with regular_file.reader(path, root) as file:
                content = file.read(MOST_DATA if is_data else MOST_PROGRAM_BYTES)
        except (OSError, RecordError):
            continue
        left -= len(content)
        if left < 0:
            return
        yield path.relative_to(directory).as_posix(), content.decode("utf-8", "replace")


def _below(directory: Path, skipped: frozenset[str]) -> Iterator[Path]:
    entries, waiting = 0, [(directory, 0)]
    while waiting:
        at, depth = waiting.pop()
        try:
            with os.scandir(at) as listing:
                for entry in listing:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if entry.name in SKIPPED or (depth == 0 and entry.name in skipped):
                        continue
                    if stat.S_ISDIR(mode) and depth < MOST_DEPTH:
                        waiting.append((Path(entry.path), depth + 1))
                    elif stat.S_ISREG(mode):
                        yield Path(entry.path)
        except OSError:
            continue


OURS = (IN_WORKSPACE - {NOTES, SYSTEM}) | {"packages", "judge.env", "closed.json"}
"""Names at the top of a workspace that are laid there for an agent."""
MOST_PATH = 4096
NO_READER = "this agent has no reader"


def gather(record: RunRecord) -> Material:
    """Return the material of a run: what the agent did and left, as far as the record has it."""
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
            material.add(AgentProgram(language, text, Location(f"workspace/{path}", 1), Use.LEFT, modules))
    return material


def _roots(record: RunRecord) -> Iterator[str]:
    yield "/workspace"
    yield str(record.paths.workspace.absolute())
    try:
        yield regular_file.read(record.paths.served_workspace, MOST_PATH, record.paths.root).decode().strip()
    except (OSError, RecordError, UnicodeDecodeError):
        return


def _transcript(record: RunRecord, history: ShellHistory) -> None:
    """Follow a run's transcript, and note why it could not be read."""
    agent, paths, material = record.state.opened.agent.name, record.paths, history.material
    if agent in WITHOUT_MODEL:
        material.transcript = TranscriptState.NONE
        return
    try:
        transcript = read_transcript(agent, paths.transcript, paths.root) if agent in READERS else None
    except RecordError as error:
        material.note(f"no transcript was read: {printable(str(error))}")
        return
    if transcript is None:
        why = f"the record holds none of {agent}" if agent in READERS else UNREADABLE.get(agent, NO_READER)
        material.note(f"no transcript was read: {why}")
        return
    if transcript.unread:
        material.note(f"{transcript.unread} lines of the transcript are no events and were left out")
    if transcript.steps:
        material.transcript = TranscriptState.READ
    else:
        material.note("no transcript was read: none of its lines is an event")
    follow_transcript(transcript.steps, history, paths.transcript.relative_to(paths.root).as_posix())


def _projects(record: RunRecord, left: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every policy project: each checkpoint in the order of submissions, then ``system/``."""
    root = record.paths.root
    for name in dict.fromkeys(submission.charged.checkpoint for submission in record.state.submissions):
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
            location = Location(f"{name}/{path}", 1)
            material.add(AgentProgram(language, text, location, Use.POLICY, modules))
        else:
            material.data[path] = text


MOST_FINDINGS = 200
"""Limit on the findings of a detector in a run; a note counts the rest."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """The findings about an agent in a run."""

    findings: tuple[AuditFinding, ...]
    """The gravest first."""
    commands: int
    """Number of shell commands that were read."""
    programs: int
    """Number of programs that were read, the policy's included."""
    transcript: TranscriptState
    notes: tuple[str, ...] = ()
    """Notes on material that could not be read."""

    @property
    def is_audited(self) -> bool:
        """Whether what the agent did is known; else no finding means nothing."""
        return self.transcript is not TranscriptState.UNREAD

    @property
    def counts(self) -> Mapping[Grade, int]:
        """The number of findings by grade."""
        counted = Counter(finding.grade for finding in self.findings)
        return {grade: counted[grade] for grade in Grade}


def load_detectors(names: Sequence[str] = ()) -> Mapping[str, Detector]:
    """Return detectors by name, all by default; raise ``UnknownName`` for an unknown one."""
    return {name: DETECTORS.load(name) for name in names or DETECTORS.names()}


def audit_run(record: RunRecord, detectors: Mapping[str, Detector]) -> Conduct:
    """Return the detectors' findings about an agent, as far as the run's record has the material."""
    material = gather(record)
    add_nested_commands(material)
    unread = sum(program.language == "python" and read_program(program) is None for program in material.programs)
    if unread:
        material.note(f"{unread} Python programs can't be parsed, or are too large, and were left out")
    findings, notes = list[AuditFinding](), list(material.notes)
    for name, detector in detectors.items():
        distinct = _distinct(detector.look(material))
        if len(distinct) > MOST_FINDINGS:
            notes.append(f"{len(distinct) - MOST_FINDINGS} more findings of {name} are left out")
        findings += sorted(distinct, key=lambda finding: -finding.grade.rank)[:MOST_FINDINGS]
    ordered = sorted(findings, key=lambda finding: -finding.grade.rank)
    return Conduct(tuple(ordered), len(material.commands), len(material.programs), material.transcript, tuple(notes))


def _distinct(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Return findings, the same words of the same grade once, with how often they were found."""
    first: dict[tuple[str, str, str], AuditFinding] = {}
    for finding in findings:
        key = (finding.grade, finding.what, finding.words)
        known = first.get(key)
        first[key] = replace(known, times=known.times + 1) if known else finding
    return list(first.values())


GRAVEST_FIRST: Sequence[Grade] = (Grade.SERIOUS, Grade.LOOK, Grade.NOTE)
"""The order in which tables count findings."""


def audit_runs(
    roots: Iterable[Path], detectors: Mapping[str, Detector]
) -> tuple[dict[Path, tuple[str, Conduct]], list[Problem]]:
    """Return the findings and the entry of each run, and the runs that can't be read."""
    audits: dict[Path, tuple[str, Conduct]] = {}
    problems: list[Problem] = []
    for root in roots:
        try:
            record = read_run(root)
            audits[root] = record.state.opened.agent.entry, audit_run(record, detectors)
        except (EvoPolicyGymError, OSError) as error:
            problems.append(Problem(root, f"not audited: {printable(str(error))}"))
    return audits, problems


def conduct_counts(entry: Entry, audits: Mapping[Path, tuple[str, Conduct]]) -> dict[str, int] | None:
    """Return an entry's findings by grade, over how many audited runs, and how many runs could not be read.

    None if none of its runs was looked at: what was not audited is not clean.
    """
    conducts = _conducts(entry, audits)
    if not conducts:
        return None
    audited = sum(conduct.is_audited for conduct in conducts)
    counts = {grade.value: sum(conduct.counts[grade] for conduct in conducts) for grade in GRAVEST_FIRST}
    return {"audited": audited, "unread": len(conducts) - audited, **counts}


def _conducts(entry: Entry, audits: Mapping[Path, tuple[str, Conduct]]) -> list[Conduct]:
    """Return what was found of those runs of an entry that were looked at."""
    return [audits[run.root][1] for run in entry.runs if run.root in audits]


def serious_column(board: Leaderboard, audits: Mapping[Path, tuple[str, Conduct]]) -> Table:
    """Return the number of serious findings of each entry, to stand beside the ranks; empty where nothing was read."""
    rows = []
    for standing in board.standings:
        counts = conduct_counts(standing.entry, audits)
        was_read = counts is not None and (counts["audited"] or counts[Grade.SERIOUS])
        rows.append((standing.entry.shown, counts[Grade.SERIOUS] if counts and was_read else None))
    columns = Column("entry", "entry", is_text=True), Column("serious_findings", "serious findings")
    return Table("", columns, tuple(rows))


def conduct_notes(
    entries: Iterable[Entry], audits: Mapping[Path, tuple[str, Conduct]], *, with_sound: bool = False
) -> list[str]:
    """Return notes for a table: which entries have serious findings, and of which runs nothing could be read.

    ``with_sound`` adds those that have none, for a table without a column for it.
    """
    serious, unread, sound = list[str](), list[str](), list[str]()
    for entry in entries:
        conducts = _conducts(entry, audits)
        counts = [count for conduct in conducts if (count := conduct.counts[Grade.SERIOUS])]
        missing = sum(not conduct.is_audited for conduct in conducts)
        if counts:
            serious.append(f"{entry.shown} ({sum(counts)} in {len(counts)} of {counted(len(conducts), 'run')})")
        elif with_sound and (audited := len(conducts) - missing):
            sound.append(f"{entry.shown} ({counted(audited, 'run')})")
        if missing:
            unread.append(f"{entry.shown} ({missing} of {counted(len(conducts), 'run')})")
    return [
        *([f"Serious findings in what agents did: {'; '.join(serious)}."] if serious else []),
        *([f"Could not be audited, as no conversation could be read: {'; '.join(unread)}."] if unread else []),
        *([f"Audited, without serious findings: {'; '.join(sound)}."] if sound else []),
    ]


def conduct_table(board: Leaderboard, audits: Mapping[Path, tuple[str, Conduct]]) -> Table:
    """Return the findings by grade of each entry of a leaderboard that has runs which were looked at.

    A run whose transcript could not be read is counted apart: that nothing was found in it means nothing.
    """
    rows: list[tuple[Cell, ...]] = [
        (standing.entry.shown, *counts.values())
        for standing in board.standings
        if (counts := conduct_counts(standing.entry, audits))
    ]
    names = ("entry", "runs audited", "runs not read", *(grade.value for grade in GRAVEST_FIRST))
    return table_of("What agents did: findings by grade", names, rows)
