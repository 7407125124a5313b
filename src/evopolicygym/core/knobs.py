"""The knobs of an experiment: options of a run that decide what an agent is shown and allowed.

They are options like those of ``run_options.py``, and follow from their declarations as those do.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypedDict

from evopolicygym.core.option import DeclaredOption, Option, Spelling, declared_options
from evopolicygym.core.task import TRAIN_CASES

SHOWN = "What the agent is shown and allowed"


class Knobs(TypedDict, total=False):
    """What an agent is shown and allowed, which experiments vary."""

    text: Annotated[
        Literal["full", "terse"],
        Option(
            help="How much the task's text says of the environment: full, or terse without equations and constants.",
            details="how much [the task's text](../use/knobs.md#text) says of the environment: `full`, or `terse`, "
            "which has no equations, constants or advice",
            default="full",
            group=SHOWN,
            compared_as="text of the task",
        ),
    ]
    feedback: Annotated[
        Literal["full", "traces", "returns"],
        Option(
            help="What a submission leaves to read: full, traces (no films) or returns (no trajectories).",
            details="what [a submission leaves to read](../use/knobs.md#feedback): `full`, `traces` (no films) or "
            "`returns` (no trajectories)",
            default="full",
            group=SHOWN,
            compared_as="feedback",
            held_as="feedback",
            recorded_as="feedback",
        ),
    ]
    finish: Annotated[
        bool,
        Option(
            help="Let the agent end the run with episodes unspent.",
            details="lets the agent end the run with episodes unspent; an agent outside, and a person, always may",
            default=False,
            group=SHOWN,
            compared_as="whether the agent may finish early",
            held_as="finish_allowed",
            recorded_as="finish",
        ),
    ]
    min_episodes: Annotated[
        int,
        Option(
            help="The fewest episodes of one submission.",
            default=1,
            group=SHOWN,
            minimum=1,
            compared_as="fewest episodes of a submission",
            held_as="budget.min_per_submission",
        ),
    ]
    max_episodes: Annotated[
        int | None,
        Option(
            help="The most episodes of one submission.",
            default_shown="all that are left",
            group=SHOWN,
            minimum=1,
            compared_as="most episodes of a submission",
            held_as="budget.max_per_submission",
        ),
    ]
    max_submissions: Annotated[
        int | None,
        Option(
            help="The most submissions; the run closes with the last of them.",
            details="the most submissions; the run closes with the last of them, whatever is left of the budget",
            default_shown="no limit",
            group=SHOWN,
            minimum=1,
            compared_as="most submissions",
            held_as="budget.max_submissions",
        ),
    ]
    train_cases: Annotated[
        int,
        Option(
            help="Train cases that the agent may name, 1 to 1024.",
            default=TRAIN_CASES,
            group=SHOWN,
            compared_as="number of train cases",
            held_as="train_cases",
        ),
    ]
    policy_limits: Annotated[
        Mapping[str, float],
        Option(
            help="What a policy may use, such as act_s=2 or memory_mb=512; may be given several times.",
            details="`NAME=VALUE`, [what a policy may use](../use/knobs.md#policy-limits): `load_s`, `reset_s`, "
            "`act_s`, `episode_s`, `memory_mb`, `output_kb`, `checkpoint_mb` or `checkpoint_files`; may be given "
            "several times",
            default={},
            group=SHOWN,
            metavar="NAME=VALUE",
            spelling=Spelling.PAIRS,
            flag="policy_limit",
            compared_as="limits of a policy",
            held_as="limits",
        ),
    ]


KNOBS: tuple[DeclaredOption, ...] = declared_options(Knobs)
