"""The workspace of a run's agent: the template's files and a starter policy, in the run directory or elsewhere.

An agent from outside can do to its workspace whatever its user can. So the directory is held open while the run is
played: what is submitted is read from it and from nothing else, and feedback is written into it by descriptors that
follow no link.
"""

import fcntl
import os
import platform
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.core import regular_file
from evopolicygym.core.agent import NOTES, SYSTEM
from evopolicygym.core.beneath import open_directory, write_file
from evopolicygym.core.directories import neutral_directory, not_kept
from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.run import Stage
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import FILMS_A_SUBMISSION, Setting
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Limits
from evopolicygym.judge_client.seat import CLOSED_FILE
from evopolicygym.judge_client.workspace_files import DIRECTORY, NEW_FILE, remove
from evopolicygym.records.paths import RunPaths, submission_name
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.skill import copy_skill
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.sandbox.packages import policy_library
from evopolicygym.sandbox.program.view import PACKAGES

TEMPLATE, CLIENT = files("evopolicygym.runs") / "workspace_template", files("evopolicygym.judge_client")
"""The files of a new workspace, and the client beside ``judge``, which imports it."""
EXECUTABLE = ("judge",)
RULES, BEFORE_BUDGET, AFTER_FEEDBACK = "AGENTS.md", "\n## The budget\n", "\n## What counts\n"
"""The file that an agent reads first, and the lines before which it reads what this run has and others don't."""
"""The directory of the workspace's files that holds the starter policy, and nothing else."""
FEEDBACK = "feedback"
MOST_PATH = 1 << 12
NAME_IT = "Say where it lies now with --workspace DIR."
SAMPLE = "sample-"
"""How names of the directories begin that hold the workspace and the home of a turn without memory."""


def create_workspace(
    paths: RunPaths,
    films: int = 0,
    policy_packages: Collection[str] = (),
    feedback: FeedbackProfile = FeedbackProfile.FULL,
) -> None:
    """Make a run's directories and put the template's files into its workspace.

    Its agent may have so many films and sees this of its episodes; its policies may import these besides what all may.
    """
    for directory in (paths.workspace, paths.notes, paths.feedback, paths.checkpoints, paths.staging, paths.logs):
        directory.mkdir(parents=True, exist_ok=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for source, target in ((TEMPLATE, paths.workspace), (CLIENT, paths.workspace / CLIENT.name)):
        with as_file(source) as directory:
            shutil.copytree(directory, target, dirs_exist_ok=True, ignore=ignored)
    for name in EXECUTABLE:
        (paths.workspace / name).chmod(0o755)
    if policy_packages:
        (paths.workspace / PACKAGES).mkdir()
        python = ".".join(platform.python_version_tuple()[:2])
        _insert_section(paths, "packages.md", BEFORE_BUDGET, names=", ".join(policy_packages), python=python)
    _insert_section(paths, "episodes.md" if feedback.shows_episodes else "returns.md", AFTER_FEEDBACK)
    if films:
        _insert_section(paths, "films.md", AFTER_FEEDBACK, films=films, a_submission=FILMS_A_SUBMISSION)


def add_skill(paths: RunPaths, source: Path, identity: str) -> None:
    """Hand a skill to the agent, and have its rules say so; raise ``UsageError`` if it has changed meanwhile."""
    copy_skill(source, paths.workspace, identity)
    _insert_section(paths, "skill.md", BEFORE_BUDGET)


def describe_sample(paths: RunPaths, budget: BudgetRule) -> None:
    """Have an agent's rules say that it makes one submission, and works without memory."""
    _insert_section(paths, "sample.md", BEFORE_BUDGET, fewest=budget.min_per_submission, most=budget.most)


def link_packages(paths: RunPaths, policy_packages: Collection[str]) -> None:
    """Have the workspace lead to what policies may import, for an agent that no namespace shows it to."""
    for name, path in policy_library(policy_packages).paths.items():
        (paths.workspace / PACKAGES / name).symlink_to(path)


def _insert_section(paths: RunPaths, name: str, heading: str, **values: object) -> None:
    """Put one of our texts into an agent's rules, before a heading."""
    rules = paths.workspace / RULES
    text = (files("evopolicygym.runs") / name).read_text(encoding="utf-8").format(**values)
    before, separator, after = rules.read_text(encoding="utf-8").partition(heading)
    rules.write_text(f"{before}\n{text}{separator}{after}", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class AgentWorkspace:
    """The directory that an agent works in, held open."""

    paths: RunPaths
    directory: Path
    descriptor: int

    def capture(self, limits: Limits, settings: Mapping[str, Setting]) -> str:
        """Take a checkpoint of ``system/``, with some parameters of the policy set, and return its name.

        Raises ``RequestRefused`` where it can't be taken, or another directory or a link lies in the workspace's place.
        """
        self._check_place()
        return capture(Path(SYSTEM), self.paths.checkpoints, limits, self.descriptor, settings)

    def deliver(self, submit_index: int) -> None:
        """Copy a submission's feedback into a workspace that is not the record's own, unless it is there.

        Where it can't be written, the agent does without: the record has it, and the judge's answers do not need it.
        """
        if self.directory != self.paths.workspace:
            with suppress(OSError), open_directory(FEEDBACK, self.descriptor) as feedback:
                _copy_feedback(self.paths.published_feedback(submit_index), submission_name(submit_index), feedback)

    @contextmanager
    def open(self) -> Iterator[Path]:
        """Yield the directory, which is the same in all turns of the agent."""
        yield self.directory

    def _check_place(self) -> None:
        """Raise ``RequestRefused`` unless workspace and feedback are the directories that they were."""
        try:
            here = self.directory.lstat()
            if not os.path.samestat(here, os.fstat(self.descriptor)):
                raise _refused("workspace", "another directory or a link lies in its place; put the first one back")
            os.close(os.open(FEEDBACK, DIRECTORY, dir_fd=self.descriptor))
        except OSError as error:
            raise _refused(Path(error.filename).name, str(error.strerror)) from error


@contextmanager
def open_workspace(paths: RunPaths, directory: Path | None = None, latest: str = "") -> Iterator[AgentWorkspace]:
    """Hold the directory that a run's agent works in.

    ``directory`` is the one that a user names now; where it is new or empty, a workspace is laid in it, with the policy
    of ``latest``, the last submission's checkpoint, where there is one. Without ``directory``, it is that of last time,
    and else the record's own. Raises ``UsageError`` where it is not the workspace of a run, or another run holds it.
    """
    if directory and _is_new(directory):
        _create_served_workspace(paths, directory, latest)
    path = directory or workspace_directory(paths)
    try:
        descriptor = os.open(path, DIRECTORY)
    except OSError as error:
        raise UsageError(f"The run's workspace {path} can't be opened: {error.strerror}. {NAME_IT}") from error
    try:
        if missing := [name for name in (SYSTEM, FEEDBACK) if not (path / name).is_dir()]:
            raise UsageError(f"{path} is not the workspace of a run: it holds no {missing[0]}/. {NAME_IT}")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{path} is the workspace of another run, which is being played. {NAME_IT}") from error
        except OSError:  # a file system without locks
            pass
        if directory:
            paths.served_workspace.write_text(f"{path}\n", encoding="utf-8")
        yield AgentWorkspace(paths, path, descriptor)
    finally:
        os.close(descriptor)


def neutral_place(opened: RunOpened) -> Path:
    """Return where a run's agent works so that its mounts say nothing: their sources can be read in the sandbox.

    The name follows from what no agent knows, so that a resumed run finds the place again.
    """
    name = sha256(f"{opened.experiment}|{opened.run_id}".encode()).hexdigest()[:16]
    return neutral_directory() / name


@contextmanager
def open_neutral_workspace(paths: RunPaths, opened: RunOpened, latest: str) -> Iterator[AgentWorkspace]:
    """Hold a run's workspace in its neutral place; the place must be given up by ``leave_neutral_place``."""
    directory = neutral_place(opened)
    _make_neutral_place(directory)
    with open_workspace(paths, directory / paths.workspace.name, latest) as workspace:
        yield workspace


def _make_neutral_place(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_kept("The workspace of a task without names", error) from error


def leave_neutral_place(paths: RunPaths, opened: RunOpened) -> None:
    """Move what the agent wrote from a run's neutral place, if it has one, into the record's own workspace.

    The agent's processes have ended. Files that can't be copied, such as sockets, are lost.
    """
    directory = neutral_place(opened)
    if not directory.is_dir():
        return
    with open_directory(paths.workspace) as own:
        for name in (SYSTEM, NOTES):
            if (directory / paths.workspace.name / name).is_dir():
                remove(name, own)
                with suppress(shutil.Error, OSError):
                    shutil.copytree(directory / paths.workspace.name / name, paths.workspace / name, symlinks=True)
    paths.served_workspace.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


class SampleWorkspaces:
    """Where an agent without memory works: each turn has a new directory, and a new home beside it."""

    def __init__(self, paths: RunPaths, directory: Path | None = None) -> None:
        """Make the directories in a neutral place of the run, by default in its directory."""
        self._paths, self._place = paths, directory or paths.root
        self._current: AgentWorkspace | None = None

    @contextmanager
    def open(self) -> Iterator[Path]:
        """Make the workspace of a turn and yield it; remove it and the home in the end.

        What a killed process left is removed before, and so is the name of the last turn's conversation.
        """
        _make_neutral_place(self._place)
        for left in self._place.glob(f"{SAMPLE}*"):
            shutil.rmtree(left, ignore_errors=True)
        self._paths.conversation.unlink(missing_ok=True)
        with TemporaryDirectory(prefix=SAMPLE, dir=self._place, ignore_cleanup_errors=True) as parent:
            directory = Path(parent, self._paths.workspace.name)
            ignored = shutil.ignore_patterns("submit_*")
            shutil.copytree(self._paths.workspace, directory, symlinks=True, ignore=ignored)
            descriptor = os.open(directory, DIRECTORY)
            self._current = AgentWorkspace(self._paths, directory, descriptor)
            try:
                yield directory
            finally:
                self._current = None
                os.close(descriptor)

    def capture(self, limits: Limits, settings: Mapping[str, Setting]) -> str:
        """Take a checkpoint of the turn's ``system/``, as ``AgentWorkspace.capture`` does."""
        if self._current is None:
            raise _refused("workspace", "no turn is under way")
        return self._current.capture(limits, settings)

    def deliver(self, submit_index: int) -> None:
        """Leave a submission's feedback in the record alone: the turn ends with it."""


def refuse_occupied(directory: Path) -> None:
    """Raise ``UsageError`` where no workspace can be laid: at what is no directory, or in one that holds something."""
    if not _is_new(directory):
        raise UsageError(
            f"No workspace can be laid in {directory}: it holds {next(directory.iterdir()).name}. Name a directory "
            f"that is new or empty; to resume a run: evopolicygym resume RUN."
        )


def _is_new(directory: Path) -> bool:
    """Return whether a directory is not there, or holds nothing; raise ``UsageError`` where it can't be one."""
    try:
        return not any(directory.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UsageError(f"No workspace can be laid at {directory}: {error.strerror}.") from error


def _create_served_workspace(paths: RunPaths, directory: Path, latest: str) -> None:
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(
            paths.workspace, directory, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("submit_*")
        )
        if latest:
            shutil.rmtree(directory / SYSTEM)
            shutil.copytree(paths.checkpoint(latest), directory / SYSTEM)
    except OSError as error:
        raise UsageError(f"No workspace can be laid in {directory}: {error}.") from error


def workspace_directory(paths: RunPaths) -> Path:
    """Return where a run's agent worked last: in a directory that a user named, and else in the record's workspace."""
    try:
        return Path(regular_file.read(paths.served_workspace, MOST_PATH, paths.root).decode().strip())
    except FileNotFoundError:
        return paths.workspace


def run_of_workspace(directory: Path, below: Path) -> RunPaths | None:
    """Return the paths of the run that has a workspace: the run whose directory contains it, or one below a directory.

    A finished run counts only if no other has the workspace.
    """
    path = directory.parent.resolve() / directory.name
    contains = RunPaths(path.parent)
    if contains.workspace == path and contains.journal.is_file():
        return contains
    runs = [RunPaths(root.resolve()) for root in find_runs(below) if workspace_directory(RunPaths(root)) == path]
    unfinished = (paths for paths in runs if read_run(paths.root).state.stage is not Stage.FINISHED)
    return next(unfinished, runs[-1] if runs else None)


def write_closed(paths: RunPaths, reason: str, *, over: bool) -> None:
    """Write into the agent's workspace why the run was closed; where that can't be written, the agent does without."""
    document = dumps({"reason": reason, "over": over}).encode() + b"\n"
    with suppress(OSError), open_directory(workspace_directory(paths)) as at:
        write_file(CLOSED_FILE, document, at)


def _copy_feedback(source: Path, name: str, at: int) -> None:
    """Copy a directory of ours into one that is open, unless its name is taken there; half of it is never seen."""
    unfinished = f".{name}"
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=at, follow_symlinks=False)
        return
    shutil.rmtree(unfinished, ignore_errors=True, dir_fd=at)
    _copy_directory(source, unfinished, at)
    os.rename(unfinished, name, src_dir_fd=at, dst_dir_fd=at)


def _copy_directory(source: Path, name: str, at: int) -> None:
    os.mkdir(name, dir_fd=at)
    with open_directory(name, at) as target:
        for path in sorted(source.iterdir()):
            if path.is_dir():
                _copy_directory(path, path.name, target)
            else:
                with (
                    path.open("rb") as read,
                    os.fdopen(os.open(path.name, NEW_FILE, 0o644, dir_fd=target), "wb") as new,
                ):
                    shutil.copyfileobj(read, new)


def _refused(name: str, why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_CHECKPOINT, f"The {name} can't be used: {why}; nothing was charged.")
