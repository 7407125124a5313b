"""Finished runs of several entries on several tasks, with journals and checkpoints: what a report is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bundles import Files
from diagnosed import FROM_NOTHING, closing, failing, recorded, submitted
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import AgentEnded, AgentStarted, Event
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.task import BudgetRule, EnvironmentSpec, Task
from evopolicygym.records.post_hoc import PostHoc, write_post_hoc
from evopolicygym.records.reader import RunRecord
from evopolicygym.specs import catalog
from fakes import TIME, opening

BUDGET = 32
ENTRIES = ("tuner", "neutral", "codex")


def bundles(level: int) -> Mapping[str, Files]:
    """Return the checkpoints that a run submits: structural, parametric and empty changes."""
    grown = "".join(f"def plan_{at}(x):\n    return x if x > {at} else -x\n\n" for at in range(level))
    return {
        "a": {"policy.py": f"GAIN = 1\n\n{grown}"},
        "b": {"policy.py": f"GAIN = 2\n\n{grown}"},
        "c": {"policy.py": "import nothing\n"},
        "d": {"policy.py": f"GAIN = 3\n\n{grown}{grown.replace('plan', 'look')}"},
        "e": {"policy.py": f"GAIN = 3  # as it was\n\n{grown}{grown.replace('plan', 'look')}"},
    }


def events_of(
    entry: str, environment: EnvironmentSpec, level: int, seed: int, model: str = "", cost: float | None = None
) -> list[Event]:
    """Return all events of a run of an entry, the better the higher its level."""
    random = np.random.default_rng([level, seed, len(environment.name)])
    low = environment.random_anchor.mean if environment.random_anchor else 0.0
    scale = 0.1 * abs(low) + 1.0

    def returns(height: float, count: int) -> list[float]:
        return [round(float(low + scale * (height + random.normal() / 3)), 4) for _ in range(count)]

    usage = {} if cost is None else {"input": 9000 * cost, "output": 1000 * cost, "cost": cost}
    run_id = f"{len(entry)}-{environment.name}-{level}-{seed}-{BUDGET}"
    task = Task(environment, BudgetRule(BUDGET), validation_cases=4, held_out_cases=8, train_cases=16)
    events = [
        opening(run_id=run_id, task=task, agent=AgentConfig(entry, model), seed=seed, commitment=environment.name),
        AgentStarted(TIME, 0),
        *submitted(0, range(2), returns(0.2, 2), "a"),
        *failing(submitted(1, range(4), returns(0.6 * level, 4), "b"), 1, FailureReason.ERROR),
        *submitted(2, [2], [], "c"),
        *submitted(3, range(8), returns(level, 8), "d"),
        *failing(submitted(4, range(1), returns(level, 1), "e"), 0, FailureReason.TIMEOUT),
        *submitted(5, range(16), returns(level, 16), "e"),
        AgentEnded(TIME, 0, "finished", usage=usage),
    ]
    heights = {"a": 0.2, "b": 0.6 * level, "d": 1.1 * level, "e": level}
    return closing(events, {name: returns(one, 4) for name, one in heights.items()}, returns(level, 8))


def write_reported(
    below: Path,
    entries: Sequence[str] = ENTRIES,
    tasks: Sequence[str] = ("acrobot", "door_key", "reacher"),
    repeats: int = 2,
) -> list[RunRecord]:
    """Write finished runs of entries of falling strength; every second one has a model that costs something."""
    found = []
    for task in tasks:
        environment = catalog.load(task) if task in catalog.names() else replace(FROM_NOTHING, name=task)
        for place, entry in enumerate(entries):
            for seed in range(repeats):
                level = len(entries) - place
                cost = 0.5 + 2.0 * place + 0.1 * seed if place % 2 else None
                events = events_of(entry, environment, level, seed, "a-model" if place % 2 else "", cost)
                root = below / f"entry-{place}" / environment.name / str(seed)
                found.append(recorded(root, events, bundles(level + 1)))
                if place == 0:
                    names = {one.charged.checkpoint for one in found[-1].state.candidates}
                    chosen = found[-1].state.selected
                    others = {
                        name: PostHoc((1.0 * level,) * 8, {})
                        for name in sorted(names)
                        if chosen and name != chosen.checkpoint
                    }
                    write_post_hoc(found[-1].paths, others)
    return found
