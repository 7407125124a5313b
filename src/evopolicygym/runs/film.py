"""Films of a run's episodes: recorded actions are played again before a camera, and held against the journal.

Episodes whose actions were not recorded are played again by their policy first, in the sandbox, and then filmed as the
others. ``rollout/films/camera.py`` has the camera, ``records/films.py`` the files.
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
from evopolicygym.environments.simulator_code import code_of
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import installed
from evopolicygym.records.films import read_film, write_film
from evopolicygym.records.paths import RunPaths, episode_name, film_name
from evopolicygym.records.reader import read_run
from evopolicygym.records.trajectories import has_steps
from evopolicygym.rollout.films.filming import CameraOrder, needed, shoot
from evopolicygym.runs import experiment
from evopolicygym.runs.preflight import check_simulator, is_pinned
from evopolicygym.runs.replay import ReplayOptions, open_replay
from evopolicygym.runs.run import job_builder, other_versions

ALL = "all"


@dataclass(frozen=True, slots=True)
class FilmOptions:
    """What is to be filmed, and how."""

    split: Split = Split.HELD_OUT
    submission: int | None = None
    """None for the one that was selected."""
    cases: str = "0"
    """Places in the submission's train episodes or in the hidden split: ``0-3,7``, or ``all``."""
    directory: Path | None = None
    """None for ``films`` in the run's directory."""
    steps_per_frame: int = 1
    fps: float | None = None
    size: tuple[int, int] | None = None
    force: bool = False
    """Make films anew that are there already."""


@dataclass(frozen=True, slots=True)
class MadeFilm:
    """A film that is there now."""

    path: Path
    film: Film
    was_there: bool
    """Whether it had been made before."""
    isolation: str = ""
    """The level at which its policy played again for it; empty where its actions were recorded."""


def films(
    root: Path, wish: FilmOptions, means: ReplayOptions, advanced: Callable[[str, int, int], None]
) -> Iterator[MadeFilm]:
    """Make what is wished of a run and yield each film; ``advanced`` gets an episode, its steps, and of how many.

    Raises ``UsageError`` for what was not played, or can't be drawn here, ``EnvironmentFault`` where a renderer fails;
    the films before it stay.
    """
    record = read_run(root)
    state, paths = record.state, record.paths
    submission = _submission(state, wish)
    hidden = wish.split is not Split.TRAIN
    if hidden and state.stage is not Stage.FINISHED:
        raise UsageError(
            f"Films of {wish.split} cases need a finished run; {root} is {state.stage}. --split train films what the "
            f"agent has seen itself."
        )
    cases, below = _cases(state, submission, wish), wish.directory or paths.films
    checkpoint = submission.charged.checkpoint
    places = {case: below / film_name(wish.split, submission.index, checkpoint, case) for case in cases}
    there = {} if wish.force else _kept(state, wish.split, submission, places, below)
    due = [case for case in cases if case not in there]
    yield from (MadeFilm(places[case], film, was_there=True) for case, film in there.items())
    if not due:
        return
    check_simulator(root, state.opened, trusted=means.trusted)
    if wish.directory is None:
        with suppress(FileNotFoundError):
            for _ in regular_file.below(paths.films, root):  # nothing is written through a link that lies there
                pass
    variables = needed(state.opened.task.environment, pinned=is_pinned(state.opened))
    dealt = job_builder(state, experiment.of_run(root, state.opened))
    with tempfile.TemporaryDirectory(prefix="evopolicygym-film-") as scratch:
        unrecorded = [case for case in due if not has_steps(_files(paths, wish.split, submission, case), root)]
        again, isolation = _played_again(root, wish.split, submission, unrecorded, Path(scratch), means)
        for case in due:
            index = case if hidden else submission.charged.env_instances[case]
            files = _files(paths, wish.split, submission, case)
            scene = _Scene(state, wish, submission, case, dealt.cases.seed(wish.split, index), dealt.world_seed)
            actions = Path(scratch, episode_name(case)) if case in again else files
            film = scene.filmed(places[case], actions, variables, again.get(case), advanced)
            yield MadeFilm(places[case], film, was_there=False, isolation=isolation if case in again else "")


@dataclass(frozen=True, slots=True)
class _Scene:
    """One episode that is to be filmed."""

    state: RunState
    wish: FilmOptions
    submission: SubmissionState
    case: int
    seed: int
    world_seed: int

    def filmed(
        self,
        target: Path,
        actions: Path,
        variables: Mapping[str, str],
        again: Episode | None,
        advanced: Callable[[str, int, int], None],
    ) -> Film:
        """Film it, and say whether the film shows what was recorded."""
        recorded = _recorded(self.state, self.wish.split, self.submission, self.case)
        expected = recorded or (again and _as_recorded(again))

        def make(part: Path) -> Film:
            opened, wish = self.state.opened, self.wish
            steps, name = expected.length if expected else opened.task.environment.max_steps, f"case {self.case}"
            shot = shoot(
                CameraOrder(
                    spec=opened.task.environment,
                    seed=self.seed,
                    observation_schema=opened.observation_schema,
                    action_schema=opened.action_schema,
                    actions=actions,
                    target=part,
                    steps_per_frame=wish.steps_per_frame,
                    fps=wish.fps,
                    size=wish.size,
                    interface=opened.interface,
                    world_seed=self.world_seed,
                ),
                variables,
                lambda done: advanced(name, done, steps),
            )
            seen = (shot.trajectory_sha256, shot.episode_return)
            true = expected is not None and seen == (expected.trajectory_sha256, expected.episode_return)
            return Film(
                split=wish.split,
                submit_index=self.submission.index,
                checkpoint=self.submission.charged.checkpoint,
                case=self.case,
                shot=shot,
                recorded=recorded,
                same=None if true and recorded is None else true,
                played_again=again is not None,
                doubt="" if true else _doubt(opened),
            )

        return write_film(target, make)


def _kept(
    state: RunState, split: Split, submission: SubmissionState, places: Mapping[int, Path], below: Path
) -> dict[int, Film]:
    """Return the films that are there already, of the episodes as they are recorded now."""
    found = {case: film for case, place in places.items() if (film := read_film(place, below))}
    return {case: film for case, film in found.items() if film.recorded == _recorded(state, split, submission, case)}


def _as_recorded(episode: Episode) -> RecordedEpisode:
    return RecordedEpisode(episode.length, episode.episode_return, episode.trajectory_sha256)


def _submission(state: RunState, wish: FilmOptions) -> SubmissionState:
    if wish.submission is not None:
        if not 0 <= wish.submission < len(state.submissions):
            count = len(state.submissions)
            known = f"0 to {count - 1}" if count else "none so far"
            raise UsageError(f"There is no submission {wish.submission} in this run; it has: {known}.")
        return state.submissions[wish.submission]
    if state.selected is None:
        raise UsageError(
            f"The run has selected no submission; it is {state.stage}. Name one with --submission N, and --split train."
        )
    return state.submissions[state.selected.submit_index]


def _cases(state: RunState, submission: SubmissionState, wish: FilmOptions) -> Sequence[int]:
    """Return the places that are asked for; raise ``UsageError`` where there are none such."""
    what = f"submission {submission.index}"
    if submission.published is None or submission not in state.candidates:
        raise UsageError(f"There is nothing to film of {what}: it is {submission.status}.")
    count = len(submission.episodes) if wish.split is Split.TRAIN else state.cases(wish.split)
    if wish.cases == ALL:
        return range(count)
    try:
        return tuple(dict.fromkeys(parse_env_instances(wish.cases, count, count)))
    except RequestRefused:
        raise UsageError(
            f"Invalid cases {wish.cases!r}: expected numbers and ranges from 0 to {count - 1} with commas, or {ALL!r}; "
            f"{what} has {count} {wish.split} cases."
        ) from None


def _files(paths: RunPaths, split: Split, submission: SubmissionState, case: int) -> Path:
    """Return where the run keeps an episode."""
    if split is Split.TRAIN:
        return paths.train_episode(submission.index, submission.first_global_episode + case)
    return paths.hidden_episode(split, submission.charged.checkpoint, case)


def _recorded(state: RunState, split: Split, submission: SubmissionState, case: int) -> RecordedEpisode | None:
    hidden = state.rollout(split, submission.charged.checkpoint).episodes if split is not Split.TRAIN else ()
    episode = (hidden or submission.episodes)[case]
    return _as_recorded(episode) if episode else None


def _played_again(
    root: Path, split: Split, submission: SubmissionState, cases: Sequence[int], files: Path, means: ReplayOptions
) -> tuple[dict[int, Episode], str]:
    """Have the policy play what was not recorded, and its actions written; return the episodes, and at which level."""
    if not cases:
        return {}, ""
    try:
        with open_replay(root, means) as run:
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
    """Return which versions, and which code, are others here than those that the run was played with."""
    own = installed(opened.task.environment.pack) if opened.task.environment.pack else None
    if own:
        here = {name: version for name, version in own.versions.items() if name in opened.versions}
        return ", ".join(other_versions(opened, {**here, "python": own.python}, opened.simulator_code))
    return ", ".join(other_versions(opened, versions(opened.task.environment), code_of(opened.simulator_code)))
