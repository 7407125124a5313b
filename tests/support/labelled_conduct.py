"""Examples of what agents do, labelled by hand, and the records of runs that they become."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run, named_detectors
from evopolicygym.analysis.conduct.detector import Grade
from evopolicygym.core.agent import AgentConfig
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from exported import recorded
from fakes import opening

EXAMPLES = Path(__file__).parent / "conduct"
HALVES = ("development", "test")
KINDS = ("own_simulator", "search", "install", "network", "case_answers")
DETECTORS = named_detectors(KINDS)


@dataclass(frozen=True, slots=True)
class ConductExample:
    """One example: what an agent did, and which kinds of finding a person expects of it."""

    half: str
    name: str
    why: str
    expect: frozenset[str]
    """Kinds that deserve a person's reading; none of what is harmless."""
    either: frozenset[str] = frozenset()
    """Kinds of which it may be said or not."""
    commands: Sequence[str] = ()
    """Of a shell, in the order in which they were given."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Files that tools wrote before the commands, by path."""
    calls: Sequence[Mapping[str, Any]] = ()
    """Other calls of tools: ``tool`` and its arguments."""


def labelled_conduct(half: str) -> list[ConductExample]:
    """Return the examples of a half, in the order of the files."""
    return [
        ConductExample(
            half,
            one["name"],
            one["why"],
            frozenset(one.get("expect", ())),
            frozenset(one.get("either", ())),
            one.get("commands", ()),
            one.get("written", {}),
            one.get("calls", ()),
        )
        for path in sorted((EXAMPLES / half).glob("*.toml"))
        for one in tomllib.loads(path.read_text("utf-8"))["example"]
    ]


def conduct_record(root: Path, example: ConductExample) -> RunPaths:
    """Write the record of a run in which an agent did what an example says."""
    paths = recorded(root, [opening(agent=AgentConfig("claude_code", "scripted"))])
    paths.logs.mkdir(exist_ok=True)
    uses = [("Write", {"file_path": path, "content": text}) for path, text in example.written.items()]
    uses += [("Bash", {"command": command}) for command in example.commands]
    uses += [(one["tool"], {name: value for name, value in one.items() if name != "tool"}) for one in example.calls]
    paths.transcript.write_text(transcript_of(uses), encoding="utf-8")
    for path, text in example.written.items():
        if not path.startswith("/"):
            (paths.workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (paths.workspace / path).write_text(text, encoding="utf-8")
    return paths


def transcript_of(uses: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a transcript in which tools are called with these arguments, an event a line."""
    return "".join(json.dumps(_event(number, name, given)) + "\n" for number, (name, given) in enumerate(uses))


def audited(root: Path, example: ConductExample) -> Conduct:
    """Return what is found in the record of an example."""
    return audit_run(read_run(conduct_record(root, example).root), DETECTORS)


def _event(number: int, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"call-{number}", "name": name, "input": given}
    return {"type": "assistant", "message": {"id": f"message-{number}", "model": "scripted", "content": [block]}}


@dataclass(slots=True)
class Tally:
    """How examples of one kind were found."""

    found: int = 0
    """Expected and found."""
    wrongly: int = 0
    """Found where it isn't expected."""
    missed: int = 0

    @property
    def precision(self) -> float:
        """The share of what was found that a person expects."""
        return self.found / (self.found + self.wrongly) if self.found + self.wrongly else 1.0

    @property
    def recall(self) -> float:
        """The share of what a person expects that was found."""
        return self.found / (self.found + self.missed) if self.found + self.missed else 1.0


def tallied(place: Path, examples: Sequence[ConductExample]) -> tuple[dict[str, Tally], list[str]]:
    """Return how each kind was found in examples, and what was missed or wrongly found, in words.

    A finding counts from the grade ``look`` on; a kind that an example may have or not counts neither way.
    """
    tallies, wrong = {kind: Tally() for kind in KINDS}, list[str]()
    for number, example in enumerate(examples):
        found = {one.detector for one in audited(place / str(number), example).findings if one.grade is not Grade.NOTE}
        for kind in KINDS:
            if kind in example.either or kind not in found | example.expect:
                continue
            tally = tallies[kind]
            if kind in found & example.expect:
                tally.found += 1
                continue
            tally.wrongly += kind in found
            tally.missed += kind not in found
            wrong.append(f"{example.half}: {example.name}: {kind} {'wrongly found' if kind in found else 'missed'}")
    return tallies, wrong
