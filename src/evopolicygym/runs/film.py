"""Films of a run's episodes: recorded actions are replayed in front of a camera and compared with the event log.

Episodes without recorded actions are first played again by their policy in the sandbox.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, RequestRefused, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.film import Film, RecordedEpisode
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.submission import parse_env_instances
from evopolicygym.environments.versions import code_of, versions
from evopolicygym.packs.installation import installed
from evopolicygym.records import experiment
from evopolicygym.records.films import read_film, write_film
from evopolicygym.records.paths import RunPaths, episode_name, film_name
from evopolicygym.records.reader import read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.records.trajectories import has_steps
from evopolicygym.rollout.films.filming import CameraOrder, camera_variables, shoot
from evopolicygym.runs.preflight import check_simulator, is_pinned
from evopolicygym.runs.replay import ReplayOptions, open_replay
from evopolicygym.runs.run import job_builder, other_versions

ALL = "all"


@dataclass(frozen=True, slots=True)
class FilmOptions:
    """Which episodes to film, and how."""

    split: Split = Split.HELD_OUT
    submission: int | None = None
    """None for the selected submission."""
    cases: str = "0"
    """Indices in the submission's train episodes or in the hidden split: ``0-3,7``, or ``all``."""
    directory: Path | None = None
    """None for ``films`` in the run directory."""
    steps_per_frame: int = 1
    fps: float | None = None
    size: tuple[int, int] | None = None
    force: bool = False
    """Replace existing films."""


@dataclass(frozen=True, slots=True)
class MadeFilm:
    """A film and how it was made."""

    path: Path
    film: Film
    was_there: bool
    """Whether it existed before."""
    isolation: str = ""
    """The isolation of the policy's replay; empty if its actions were recorded."""


def films(
    root: Path, options: FilmOptions, replay_options: ReplayOptions, on_progress: Callable[[str, int, int], None]
) -> Iterator[MadeFilm]:
    """Film a run's episodes and yield each film; ``on_progress`` gets an episode's name, steps done and total steps.

    Raises ``UsageError`` for episodes that were not played or can't be drawn here, ``EnvironmentFault`` if a renderer
    fails; earlier films are kept.
    """
    refuse_release(root)
    record = read_run(root)
    state, paths = record.state, record.paths
    submission = _submission(state, options)
    hidden = options.split is not Split.TRAIN
    if hidden and state.stage is not Stage.FINISHED:
        raise UsageError(
            f"Films of {options.split} cases need a finished run; {root} is {state.stage}. --split train films the "
            f"agent's own episodes."
        )
    cases, directory_path = _cases(state, submission, options), options.directory or paths.films
    checkpoint = submission.charged.checkpoint
    targets = {case: directory_path / film_name(options.split, submission.index, checkpoint, case) for case in cases}
    existing = {} if options.force else _existing_films(state, options.split, submission, targets, directory_path)
    missing = [case for case in cases if case not in existing]
    yield from (MadeFilm(targets[case], film, was_there=True) for case, film in existing.items())
    if not missing:
        return
    check_simulator(root, state.opened, trusted=replay_options.trusted)
    if options.directory is None:
        with suppress(FileNotFoundError):
            for _ in regular_file.below(paths.films, root):  # raises if there is a link
                pass
    variables = camera_variables(state.opened.task.environment, pinned=is_pinned(state.opened))
    builder = job_builder(state, experiment.of_run(root, state.opened))
    with tempfile.TemporaryDirectory(prefix="evopolicygym-film-") as scratch:
        unrecorded = [case for case in missing if not has_steps(_files(paths, options.split, submission, case), root)]
        replayed, isolation = _replay_episodes(
            root, options.split, submission, unrecorded, Path(scratch), replay_options
        )
        for case in missing:
            index = case if hidden else submission.charged.env_instances[case]
            files = _files(paths, options.split, submission, case)
            seed = builder.cases.seed(options.split, index)
            scene = _Scene(state, options, submission, case, seed, builder.world_seed)
            actions = Path(scratch, episode_name(case)) if case in replayed else files
            film = scene.film(targets[case], actions, variables, replayed.get(case), on_progress)
            yield MadeFilm(targets[case], film, was_there=False, isolation=isolation if case in replayed else "")


@dataclass(frozen=True, slots=True)
class _Scene:
    """An episode to film."""

    state: RunState
    options: FilmOptions
    submission: SubmissionState
    case: int
    seed: int
    world_seed: int

    def film(
        self,
        target: Path,
        actions: Path,
        variables: Mapping[str, str],
        replayed: Episode | None,
        on_progress: Callable[[str, int, int], None],
    ) -> Film:
        """Film the episode and compare it with the record."""
        recorded = _recorded_episode(self.state, self.options.split, self.submission, self.case)
        expected = recorded or (replayed and _recorded_of(replayed))

        def make(part: Path) -> Film:
            opened, options = self.state.opened, self.options
            steps, name = expected.length if expected else opened.task.environment.max_steps, f"case {self.case}"
            shot = shoot(
                CameraOrder(
                    spec=opened.task.environment,
                    seed=self.seed,
                    observation_schema=opened.observation_schema,
                    action_schema=opened.action_schema,
                    actions=actions,
                    target=part,
                    steps_per_frame=options.steps_per_frame,
                    fps=options.fps,
                    size=options.size,
                    interface=opened.interface,
                    world_seed=self.world_seed,
                ),
                variables,
                lambda done: on_progress(name, done, steps),
            )
            actual = (shot.trajectory_sha256, shot.episode_return)
            true = expected is not None and actual == (expected.trajectory_sha256, expected.episode_return)
            return Film(
                split=options.split,
                submit_index=self.submission.index,
                checkpoint=self.submission.charged.checkpoint,
                case=self.case,
                shot=shot,
                recorded=recorded,
                same=None if true and recorded is None else true,
                played_again=replayed is not None,
                doubt="" if true else _doubt(opened),
            )

        return write_film(target, make)


def _existing_films(
    state: RunState, split: Split, submission: SubmissionState, targets: Mapping[int, Path], directory_path: Path
) -> dict[int, Film]:
    """Return existing films that match the recorded episodes."""
    films = {case: film for case, path in targets.items() if (film := read_film(path, directory_path))}
    return {
        case: film for case, film in films.items() if film.recorded == _recorded_episode(state, split, submission, case)
    }


def _recorded_of(episode: Episode) -> RecordedEpisode:
    return RecordedEpisode(episode.length, episode.episode_return, episode.trajectory_sha256)


def _submission(state: RunState, options: FilmOptions) -> SubmissionState:
    if options.submission is not None:
        if not 0 <= options.submission < len(state.submissions):
            count = len(state.submissions)
            known = f"0 to {count - 1}" if count else "no submissions so far"
            raise UsageError(f"Unknown submission {options.submission}: this run has {known}.")
        return state.submissions[options.submission]
    if state.selected is None:
        raise UsageError(
            f"The run has selected no submission; it is {state.stage}. Name one with --submission N, and --split train."
        )
    return state.submissions[state.selected.submit_index]


def _cases(state: RunState, submission: SubmissionState, options: FilmOptions) -> Sequence[int]:
    """Return the indices to film; raise ``UsageError`` if they are invalid."""
    what = f"submission {submission.index}"
    if submission.published is None or submission not in state.candidates:
        raise UsageError(f"There is nothing to film of {what}: it is {submission.status}.")
    count = len(submission.episodes) if options.split is Split.TRAIN else state.cases(options.split)
    if options.cases == ALL:
        return range(count)
    try:
        return tuple(dict.fromkeys(parse_env_instances(options.cases, count, count)))
    except RequestRefused:
        raise UsageError(
            f"Invalid cases {options.cases!r}: expected numbers and ranges from 0 to {count - 1} with commas, or "
            f"{ALL!r}; {what} has {count} {options.split} cases."
        ) from None


def _files(paths: RunPaths, split: Split, submission: SubmissionState, case: int) -> Path:
    """Return the directory of an episode."""
    if split is Split.TRAIN:
        return paths.train_episode(submission.index, submission.first_global_episode + case)
    return paths.hidden_episode(split, submission.charged.checkpoint, case)


def _recorded_episode(state: RunState, split: Split, submission: SubmissionState, case: int) -> RecordedEpisode | None:
    hidden = state.rollout(split, submission.charged.checkpoint).episodes if split is not Split.TRAIN else ()
    episode = (hidden or submission.episodes)[case]
    return _recorded_of(episode) if episode else None


def _replay_episodes(
    root: Path,
    split: Split,
    submission: SubmissionState,
    cases: Sequence[int],
    files: Path,
    replay_options: ReplayOptions,
) -> tuple[dict[int, Episode], str]:
    """Replay episodes without recorded actions and record them; return the episodes and the isolation."""
    if not cases:
        return {}, ""
    try:
        with open_replay(root, replay_options) as run:
            first = submission if split is Split.TRAIN else run.record.state.first_with(submission.charged.checkpoint)
            return dict(run.play(split, first, cases, files)), run.isolation
    except RecordError as error:
        which = f"{split.value.replace('_', '-')} {'case' if len(cases) == 1 else 'cases'} {', '.join(map(str, cases))}"
        recorded = f" Recorded episodes need no replay: try --split train --submission {submission.index}."
        raise RecordError(
            f"The actions of {which} are not recorded, so the policy has to play again. {error}"
            f"{'' if split is Split.TRAIN else recorded}"
        ) from error


def _doubt(opened: RunOpened) -> str:
    """Describe the versions and code that differ from the run's."""
    own = installed(opened.task.environment.pack) if opened.task.environment.pack else None
    if own:
        here = {name: version for name, version in own.versions.items() if name in opened.versions}
        return ", ".join(other_versions(opened, {**here, "python": own.python}, opened.simulator_code))
    return ", ".join(other_versions(opened, versions(opened.task.environment), code_of(opened.simulator_code)))
