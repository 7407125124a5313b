"""An experiment: the runs that share one secret, and so the same cases.

The secret is made when the experiment begins and kept in the user's state directory, never in a run or a workspace. In
the directory of runs there is only the experiment's name for it.
"""

import json
import os
import secrets
from collections.abc import Collection, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evopolicygym.core import cases as case_rules
from evopolicygym.core import regular_file
from evopolicygym.core.cases import (
    NONCE,
    PUBLIC_KEY,
    SECRET_BYTES,
    SEED_BITS,
    SHORT_SEED_BITS,
    SIZES,
    CaseSet,
    Split,
    SplitSource,
    derive,
    identity_of_secret,
    nonce_key,
)
from evopolicygym.core.directories import not_kept, state_directory
from evopolicygym.core.errors import RecordError, StorageError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.interface import draw_interface, interface_key
from evopolicygym.core.task import Task
from evopolicygym.core.text import printable
from evopolicygym.records import atomic
from evopolicygym.records.paths import EXPERIMENT, experiment_directory
from evopolicygym.records.reader import (
    EXPERIMENT_FILE,
    SHARED_MARK,
    experiment_directory_of,
    experiment_name,
    is_of_same_owner,
    is_secret_shared,
)

REVEALED_FILE = "revealed.json"
SEED_BITS_KEY = "seed_bits"
REVEALED_MARK = "revealed"
"""In the state directory: a file of this name says that the secret was published, wherever that lies now."""
LEDGER_FILE = "runs.jsonl"
"""In the state directory: the runs that the experiment began on this machine, a line each.

The first line says since when they are listed: from the experiment's beginning, where it began here and not before runs
were listed. A line is on disk before its run's record is opened.
"""
SECRET_VARIABLE, SECRET_FILE_VARIABLE = "EVOPOLICYGYM_SECRET", "EVOPOLICYGYM_SECRET_FILE"
"""Variables that hand an experiment's secret to a machine: its text, and a file that holds the text."""
MOST_BYTES = 64 << 20
"""Of such a file: it may hold the cases of some environments, 10 a seed."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The runs that an experiment began on this machine."""

    since: str
    """A time: runs that were opened before may not be listed; empty where all are."""
    runs: tuple[str, ...]
    """Their ids, in the order in which they were opened or gathered."""
    gathered: Mapping[str, str] = field(default_factory=dict)
    """Of runs that were gathered and not begun here: the hash of the last line that each event log had then, by id."""
    nonces: frozenset[str] = frozenset()
    """Their nonces, the empty one included; at most one."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A secret and the name it goes by."""

    identity: str
    secret: bytes
    seed_bits: int = SHORT_SEED_BITS
    """Of the seeds of its private cases: 31 where it began before they had 128."""
    read: Mapping[str, CaseSet] = field(default_factory=dict)
    """Cases by environment that were read from a directory, where they were revealed with the secret."""
    nonce: str = ""
    """The nonce of a board; empty without one."""

    @property
    def is_bound(self) -> bool:
        """Whether its identity is that of its secret: not of experiments that began before identities were bound."""
        return self.identity == identity_of_secret(self.secret)

    def cases(self, environment: str, split: SplitSource) -> CaseSet:
        """Return the cases of one environment; those of a directory as they were when the first run began."""
        match split:
            case SplitSource.PRIVATE:
                return derive(self.key(split), environment, self.seed_bits)
            case SplitSource.PUBLIC:
                return derive(PUBLIC_KEY, environment)
            case SplitSource.DIRECTORY:
                return self.read.get(environment) or _kept_cases(self.identity, environment)

    def key(self, split: SplitSource) -> bytes:
        """Return what policies' seeds and the commitment's salt are derived from: of a public split, known to all."""
        if split is SplitSource.PUBLIC:
            return PUBLIC_KEY
        return nonce_key(self.secret, self.nonce) if self.nonce else self.secret


def begin(runs: Path, name: str, nonce: str = "", split: SplitSource = SplitSource.PRIVATE) -> Experiment:
    """Return the experiment of this name below a directory of runs; make it, with a new secret, where there is none.

    Raises ``UsageError``, before anything is written, for an invalid experiment name, for another nonce than its runs
    have, and where the secret is another user's or machine's, unless the split is public and needs none; and
    ``StorageError`` where runs can't be written there.
    """
    directory = experiment_directory(runs, name)
    file = directory / EXPERIMENT_FILE
    try:
        if file.exists():
            return _with_nonce(_begun(file, split), nonce)
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Can't write runs to {directory}: {error.strerror}. Name another experiment: --experiment NAME, or give "
            f"another directory: --runs DIR"
        ) from error
    secret = secrets.token_bytes(SECRET_BYTES)
    identity = identity_of_secret(secret)
    _keep(identity, "secret.json", json.dumps({"secret": secret.hex(), SEED_BITS_KEY: SEED_BITS}))
    _keep(identity, LEDGER_FILE, _ledger_line(since=""))
    try:
        atomic.create_text(file, json.dumps({"experiment": identity}) + "\n")
    except FileExistsError:  # another run of this experiment began at the same moment
        return _with_nonce(_begun(file, split), nonce)
    return Experiment(identity, secret, SEED_BITS, nonce=nonce)


def _begun(file: Path, split: SplitSource) -> Experiment:
    """Return an experiment that has begun; of another user, only the public split, which needs no secret."""
    identity = _identity(file)
    try:
        return load_experiment(identity)
    except UsageError as error:
        if split is SplitSource.PUBLIC:
            return Experiment(identity, PUBLIC_KEY)
        raise UsageError(
            f"{error} If another user or machine began it, name another experiment: --experiment NAME, or give another "
            f"directory: --runs DIR. --split public needs no secret."
        ) from None


def describe_lost_secret(run: Path, opened: RunOpened) -> str:
    """Return that a run's hidden cases can't be played here, and what can still be done; empty where they can be."""
    try:
        of_run(run, opened)
    except UsageError as error:
        return (
            f"{error} Without the secret the run can't be resumed or replayed. As it is, it can still be read and "
            f"checked: show, verify, leaderboard, export. To play hidden cases, begin another experiment: evopolicygym "
            f"run {opened.task.environment.name} --experiment NAME"
        )
    except RecordError:
        return ""  # told where its cases are read
    return ""


def _with_nonce(experiment: Experiment, nonce: str) -> Experiment:
    """Return an experiment with its board's nonce; raise ``UsageError`` for another than its runs have."""
    _refuse_other_nonce(experiment.identity, nonce)
    if nonce:
        refuse_unbound(experiment)
    return replace(experiment, nonce=nonce)


def check_nonce(runs: Path, name: str, nonce: str) -> None:
    """Raise ``UsageError`` where runs that an experiment began on this machine have another nonce."""
    file = experiment_directory(runs, name) / EXPERIMENT_FILE
    if file.exists():
        _refuse_other_nonce(_identity(file), nonce)


def _refuse_other_nonce(identity: str, nonce: str) -> None:
    ledger = ledger_of(identity)
    others = (ledger.nonces if ledger else frozenset()) - {nonce}
    if others:
        expected, given = (f"nonce {text}" if text else "no nonce" for text in (min(others), nonce))
        raise UsageError(
            f"Invalid nonce: expected {expected}, as other runs of this experiment have, got {given}. Begin another "
            f"experiment: --experiment NAME"
        )


def refuse_unbound(experiment: Experiment) -> None:
    """Raise ``UsageError`` unless the identity is that of the secret, so that a board may rely on it."""
    if not experiment.is_bound:
        raise UsageError(
            f"Invalid experiment: expected an identity that follows from its secret, got {experiment.identity}. It "
            f"began before there were nonces. Begin another experiment: --experiment NAME"
        )


def publish_identity(runs: Path, name: str) -> str:
    """Return the identity of an experiment, for a board; the experiment begins where there is none.

    Raises as ``begin`` does, and ``UsageError`` for an experiment whose identity says nothing of its secret.
    """
    file = experiment_directory(runs, name) / EXPERIMENT_FILE
    experiment = load_experiment(_identity(file)) if file.exists() else begin(runs, name)
    refuse_unbound(experiment)
    return experiment.identity


def share_secret(runs: Path, name: str) -> str:
    """Return the text that gives another machine an experiment's secret; the experiment begins where there is none.

    Whoever has the text knows every hidden case. Raises as ``begin`` does.
    """
    experiment = begin(runs, name)
    _keep(experiment.identity, SHARED_MARK, "")
    return json.dumps(
        {
            "name": name,
            "experiment": experiment.identity,
            "secret": experiment.secret.hex(),
            SEED_BITS_KEY: experiment.seed_bits,
        }
    )


def accept_secret(runs: Path, name: str, environment: MutableMapping[str, str] = os.environ) -> bool:
    """Begin an experiment with the secret that the environment's variables give; return whether they give any.

    The variables are removed, so that no program that is started later inherits them. Raises ``UsageError``, before
    anything is written, where they give what is no secret, or another experiment's.
    """
    text = _given_secret(environment)
    if text is None:
        return False
    file = experiment_directory(runs, name) / EXPERIMENT_FILE
    try:
        document = json.loads(text)
        identity, secret = str(document["experiment"]), bytes.fromhex(document["secret"])
        given, bits = str(document["name"]), _seed_bits(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"Invalid secret in {SECRET_VARIABLE} or {SECRET_FILE_VARIABLE}: expected the text that "
            f"'evopolicygym suites secret {name}' writes."
        ) from None
    if given != name or not EXPERIMENT.fullmatch(identity) or len(secret) != SECRET_BYTES:
        raise UsageError(
            f"Invalid secret: expected that of experiment {name!r}, got that of {given!r}. Unset {SECRET_VARIABLE} and "
            f"{SECRET_FILE_VARIABLE}, or name the experiment: --experiment NAME"
        )
    if file.exists() and _identity(file) != identity:
        raise UsageError(
            f"{file.parent} holds runs of another experiment than the secret is of. Give another directory: --runs DIR"
        )
    with suppress(UsageError):  # where the secret is not on this machine yet
        if load_experiment(identity).secret != secret:
            raise RecordError(f"Your state directory holds another secret of experiment {identity} than the given one.")
    _keep(identity, SHARED_MARK, "")
    _keep(identity, "secret.json", json.dumps({"secret": secret.hex(), SEED_BITS_KEY: bits}))
    _name_experiment(file, identity)
    return True


def _given_secret(environment: MutableMapping[str, str]) -> str | None:
    text, file = environment.pop(SECRET_VARIABLE, ""), environment.pop(SECRET_FILE_VARIABLE, "")
    if text or not file:
        return text or None
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"Invalid {SECRET_FILE_VARIABLE}: {file} can't be read: {error}.") from error


def adopt_experiment(directory: Path, identity: str) -> None:
    """Make a directory that of an experiment that began elsewhere; raise ``UsageError`` where it is another's."""
    file = directory / EXPERIMENT_FILE
    if not file.exists():
        _name_experiment(file, identity)
    if _identity(file) != identity:
        raise UsageError(
            f"{directory} holds runs of another experiment of this name. Give another directory: --runs DIR"
        )


def _name_experiment(file: Path, identity: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            atomic.create_text(file, json.dumps({"experiment": identity}) + "\n")
    except OSError as error:
        raise StorageError(f"Can't write {file}: {error.strerror}. Give another directory: --runs DIR") from error


def identity_of(directory: Path) -> str:
    """Return the identity of an experiment's directory; raise ``RecordError`` where it has none."""
    return _identity(directory / EXPERIMENT_FILE)


def is_shared(identity: str) -> bool:
    """Return whether other machines hold the experiment's secret as well; ``RecordError`` for an invalid identity."""
    _check_name("an experiment's identity", identity)
    return is_secret_shared(identity)


def of_run(run: Path, opened: RunOpened) -> Experiment:
    """Return a run's experiment: as this machine knows it, or else as it was revealed; of a public split, as is.

    Raises ``UsageError`` where its secret is neither revealed nor on this machine.
    """
    if opened.nonce and (opened.split is not SplitSource.PRIVATE or not NONCE.fullmatch(opened.nonce)):
        raise RecordError(
            f"The run of the {opened.split} split has an invalid nonce: {printable(opened.nonce[:120])!r}."
        )
    if opened.split is SplitSource.PUBLIC:
        return Experiment(opened.experiment, PUBLIC_KEY)
    try:
        own = load_experiment(opened.experiment)
        if opened.split is SplitSource.DIRECTORY:
            own.cases(opened.task.environment.name, opened.split)  # they may not be on this machine
    except UsageError:
        if experiment := revealed(run, opened.experiment):
            return replace(experiment, nonce=opened.nonce)
        raise
    return replace(own, nonce=opened.nonce)


def committed_cases(opened: RunOpened, experiment: Experiment) -> CaseSet:
    """Return a run's cases; raise ``RecordError`` unless they, and its interface, are those that it committed to."""
    environment, key = opened.task.environment.name, experiment.key(opened.split)
    cases = experiment.cases(environment, opened.split)
    if case_rules.commitment(cases, case_rules.salt(key, environment)) != opened.commitment:
        raise RecordError("The secret's cases are not those that the run committed to when it was opened.")
    if opened.interface != _drawn_interface(opened, key):
        raise RecordError("The run's interface is not the one that the experiment's secret draws.")
    return cases


def _drawn_interface(opened: RunOpened, key: bytes) -> Mapping[str, Any]:
    """Return the interface that an experiment's key draws for the recorded spaces."""
    recorded, environment = opened.interface, opened.task.environment
    if not recorded:
        return {}
    schemas = recorded["observation"]["schema"], recorded["action"]["schema"]
    return draw_interface(
        interface_key(key, environment.name), opened.task.interface, *schemas, environment.reward_components
    )


def secret_files(run: Path, identity: str) -> tuple[Path, ...]:
    """Return the files that the cases of a run of an experiment may be read from; they need not exist."""
    _check_name("an experiment's identity", identity)
    kept = state_directory() / identity
    directory = experiment_directory_of(run.resolve())
    published = (directory / REVEALED_FILE, directory / EXPERIMENT_FILE) if directory else ()
    return kept / "secret.json", *sorted(kept.glob("cases-*.json")), *published


def load_experiment(identity: str) -> Experiment:
    """Return the experiment of this identity; raise ``UsageError`` where its secret is not on this machine.

    Raises ``RecordError`` for an identity that would lead elsewhere.
    """
    _check_name("an experiment's identity", identity)
    kept = state_directory() / identity / "secret.json"
    try:
        document = json.loads(kept.read_text(encoding="utf-8"))
        return Experiment(identity, bytes.fromhex(document["secret"]), _seed_bits(document))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"The secret of experiment {identity} is not on this machine: {kept} does not exist. Hidden cases can only "
            f"be played where it is; copy that file from where the experiment began."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{kept} can't be read as a secret: {error}") from error


def list_run(opened: RunOpened, gathered: str = "") -> None:
    """List a run among those that its experiment began here, before it is opened; may raise ``StorageError``.

    ``gathered`` is the hash of the last line of a run that was played elsewhere and is gathered here.
    """
    fields: dict[str, str | bool] = {"run_id": opened.run_id, "time": opened.time}
    if gathered:
        fields |= {"gathered": True, "last": gathered}
    if opened.nonce:
        fields["nonce"] = opened.nonce
    file = state_directory() / opened.experiment / LEDGER_FILE
    if not file.exists():
        _keep(opened.experiment, LEDGER_FILE, _ledger_line(since=opened.time))
    try:
        with regular_file.appender(file) as lines:
            lines.write(_ledger_line(**fields).encode())
            lines.flush()
            atomic.disk.flush(lines.fileno())
    except OSError as error:
        raise not_kept("The list of the experiment's runs", error) from error


def ledger_of(identity: str) -> Ledger | None:
    """Return the runs that an experiment began on this machine; None where they are not listed here.

    Raises ``RecordError`` where the list can't be read, or the identity would lead elsewhere.
    """
    _check_name("an experiment's identity", identity)
    file = state_directory() / identity / LEDGER_FILE
    try:
        first, *runs = [json.loads(line) for line in regular_file.read(file, MOST_BYTES).splitlines() if line]
        begun = {str(run["run_id"]) for run in runs if run.get("gathered") is not True}
        gathered = {str(run["run_id"]): str(run["last"]) for run in runs if str(run["run_id"]) not in begun}
        nonces = frozenset(str(run.get("nonce", "")) for run in runs)
        return Ledger(str(first["since"]), tuple(str(run["run_id"]) for run in runs), gathered, nonces)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"{file} can't be read as the list of an experiment's runs: {error}") from error


def keep_cases(experiment: Experiment, cases: CaseSet, directory: Path, task: Task) -> None:
    """Keep the cases that were read from a directory with the secret, so that a run can be resumed without it.

    Raises ``UsageError`` where they are fewer than the task asks for, or others than runs of this experiment played.
    """
    asked = {
        Split.TRAIN: min(task.train_cases, SIZES[Split.TRAIN]),
        Split.VALIDATION: task.validation_cases,
        Split.HELD_OUT: task.held_out_cases,
    }
    for split, count in asked.items():
        if len(cases.seeds[split]) < count:
            raise UsageError(f"{directory} holds {len(cases.seeds[split])} {split} cases; this run asks for {count}.")
    kept = _cases_file(experiment.identity, task.environment.name)
    text = json.dumps({split.value: list(seeds) for split, seeds in cases.seeds.items()})
    if kept.exists() and kept.read_text(encoding="utf-8") != text:
        raise UsageError(
            f"Runs of this experiment played other cases of {task.environment.name} than {directory} holds now; begin "
            f"another experiment with --experiment NAME."
        )
    _keep(experiment.identity, kept.name, text)


def existing_experiment(runs: Path, name: str) -> Path:
    """Return the directory of an experiment that exists; raise ``UsageError`` if none has this name."""
    directory = experiment_directory(runs, name)
    if not (directory / EXPERIMENT_FILE).exists():
        known = sorted(path.parent.name for path in runs.glob(f"*/{EXPERIMENT_FILE}"))
        raise UsageError(f"There is no experiment {name!r} in {runs}. Known: {', '.join(known) or 'none'}.")
    return directory


def reveal(runs: Path, name: str) -> Path:
    """Publish an experiment's secret beside its runs; return the file. From then on its cases are hidden no more."""
    directory = existing_experiment(runs, name)
    experiment = load_experiment(_identity(directory / EXPERIMENT_FILE))
    kept = sorted((state_directory() / experiment.identity).glob("cases-*.json"))
    document = {
        "experiment": experiment.identity,
        "secret": experiment.secret.hex(),
        SEED_BITS_KEY: experiment.seed_bits,
        "cases": {file.stem.removeprefix("cases-"): json.loads(file.read_text(encoding="utf-8")) for file in kept},
    }
    _keep(experiment.identity, REVEALED_MARK, "")
    atomic.write_text(directory / REVEALED_FILE, json.dumps(document, indent=2) + "\n")
    return directory / REVEALED_FILE


def is_revealed(runs: Path, name: str) -> bool:
    """Return whether the secret of an experiment that was begun before is published."""
    directory = experiment_directory(runs, name)
    marked = state_directory() / _identity(directory / EXPERIMENT_FILE) / REVEALED_MARK
    return (directory / REVEALED_FILE).exists() or marked.exists()


def missing_runs(ids_by_experiment: Mapping[str, Collection[str]]) -> dict[str, tuple[int, int]]:
    """Return how many runs of each experiment are not among those found, and how many it began on this machine.

    Of experiments whose runs are not listed here, or that lack none, nothing is returned.
    """
    missing = {}
    for identity, ids in ids_by_experiment.items():
        with suppress(RecordError, UsageError):
            ledger = ledger_of(identity)
            if ledger and (count := len(set(ledger.runs).difference(ids))):
                missing[identity] = count, len(set(ledger.runs))
    return missing


def revealed(run: Path, identity: str) -> Experiment | None:
    """Return the experiment of a run as it was revealed in the experiment's directory, or None."""
    pair = _revealed(run, identity)
    return pair[1] if pair else None


def revealed_file(run: Path, identity: str) -> Path | None:
    """Return the file in the experiment's directory of a run that reveals it, or None."""
    pair = _revealed(run, identity)
    return pair[0] if pair else None


def _revealed(run: Path, identity: str) -> tuple[Path, Experiment] | None:
    run = run.resolve()
    directory = experiment_directory_of(run)
    if directory is None or not experiment_name(run, identity):
        return None
    file = directory / REVEALED_FILE
    if not regular_file.is_there(file) or not is_of_same_owner(file, run):
        return None
    try:
        document = json.loads(regular_file.read(file, MOST_BYTES))
        if document["experiment"] != identity:
            return None
        read = {name: _case_set(name, splits) for name, splits in document["cases"].items()}
        return file, Experiment(identity, bytes.fromhex(document["secret"]), _seed_bits(document), read)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"{file} can't be read as a revealed experiment: {error}") from error


def _seed_bits(document: Mapping[str, Any]) -> int:
    """Return how many bits an experiment's seeds have; raise ``ValueError`` for a number that none has."""
    bits = document.get(SEED_BITS_KEY, SHORT_SEED_BITS)
    if bits not in {SHORT_SEED_BITS, SEED_BITS}:
        raise ValueError(f"Invalid {SEED_BITS_KEY} {bits!r}: expected {SHORT_SEED_BITS} or {SEED_BITS}.")
    return int(bits)


def _ledger_line(**fields: str | bool) -> str:
    return json.dumps(fields) + "\n"


def _identity(file: Path) -> str:
    try:
        return str(json.loads(regular_file.read(file, MOST_BYTES))["experiment"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{file} can't be read as an experiment's name: {error}") from error


def _keep(identity: str, name: str, text: str) -> None:
    directory = state_directory() / identity
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write_text(directory / name, text)
        (directory / name).chmod(0o600)
    except OSError as error:
        raise not_kept(f"{name} of the experiment", error) from error


def _check_name(what: str, name: str) -> None:
    """Raise ``RecordError`` where a name, which a record from elsewhere may hold, names no file in a directory."""
    if not EXPERIMENT.fullmatch(name):
        raise RecordError(f"{name!r} is not valid as {what}: expected letters, digits, '.', '_' and '-'.")


def _cases_file(identity: str, environment: str) -> Path:
    _check_name("an environment's name", environment)
    return state_directory() / identity / f"cases-{environment}.json"


def _kept_cases(identity: str, environment: str) -> CaseSet:
    file = _cases_file(identity, environment)
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"The cases that this run read from a directory are not on this machine: {file}.") from error
    return _case_set(environment, document)


def _case_set(environment: str, document: Mapping[str, list[int]]) -> CaseSet:
    return CaseSet(environment, {Split(split): tuple(seeds) for split, seeds in document.items()})
