"""The options of a run that say what is played: which environment, how much of it, on which cases.

They are options like those of ``run_options.py``, and follow from their declarations as those do.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from evopolicygym.core.option import Option, Spelling

CASES = "Task and cases"
DEFAULT_EXPERIMENT = "default"


class TaskOptions(TypedDict, total=False):
    """What is played: how much of it, on which cases."""

    budget: Annotated[
        int,
        Option(
            help="Train episodes that the agent may spend.",
            default=128,
            group=CASES,
            compared_as="episode budget",
            held_as="budget.episodes",
            recorded_as="budget",
        ),
    ]
    validation: Annotated[
        int,
        Option(
            help="Hidden cases that pick the checkpoint, 1 to 64.",
            default=16,
            group=CASES,
            compared_as="number of validation cases",
            held_as="validation_cases",
            recorded_as="validation_cases",
            of_cases=True,
        ),
    ]
    held_out: Annotated[
        int,
        Option(
            help="Hidden cases that score the picked checkpoint, 1 to 256.",
            default=32,
            group=CASES,
            compared_as="number of held-out cases",
            held_as="held_out_cases",
            recorded_as="held_out_cases",
            of_cases=True,
        ),
    ]
    films: Annotated[
        int,
        Option(
            help="Films of its train episodes that the agent may ask for.",
            details="[films](../use/films.md#films-for-an-agent) of its train episodes that the agent may ask for",
            default=0,
            group=CASES,
            compared_as="films that an agent may ask for",
            held_as="films",
            recorded_as="films",
        ),
    ]
    imports: Annotated[
        Sequence[str],
        Option(
            help="A module whose import registers the environment's id; may be given several times.",
            details="a module whose import registers the environment's [id](../use/packs.md#any-registered-id); may be "
            "given several times",
            default=[],
            group=CASES,
            metavar="MODULE",
            spelling=Spelling.SEVERAL,
            flag="import",
            in_suites=False,
        ),
    ]
    make: Annotated[
        Mapping[str, Any],
        Option(
            help="An argument of gymnasium.make for an environment named by its id; may be given several times.",
            details="`NAME=VALUE`, an argument of `gymnasium.make` for an environment that is named by "
            "[its id](../use/packs.md#any-registered-id); may be given several times",
            default={},
            group=CASES,
            metavar="NAME=VALUE",
            spelling=Spelling.PAIRS,
            in_suites=False,
        ),
    ]
    policy_packages: Annotated[
        Sequence[str],
        Option(
            help="Installed packages that policies may import besides numpy and scipy.",
            details="`NAME[,NAME]`, installed packages that [policies may import]"
            "(../use/agents.md#what-policies-can-import) besides numpy and scipy",
            default=[],
            group=CASES,
            metavar="NAME[,NAME]",
            spelling=Spelling.COMMAS,
            compared_as="packages that policies may import",
            held_as="policy_packages",
            recorded_as="policy_packages",
        ),
    ]
    split: Annotated[
        str,
        Option(
            help="Where cases come from: private, public, or a directory with train.json, valid.json, heldout.json.",
            details="where cases come from: `private`, `public`, or a directory with `train.json`, `valid.json` "
            "and `heldout.json`",
            default="private",
            group=CASES,
        ),
    ]
    experiment: Annotated[
        str,
        Option(
            help="Runs of one experiment play the same cases.",
            suite_help="The experiment that the suite's runs belong to. Default: the suite's name.",
            default=DEFAULT_EXPERIMENT,
            group=CASES,
        ),
    ]
    seed: Annotated[
        int,
        Option(
            help="Seed of the agent's and the policies' random numbers, not of the cases; 0 to 4294967295.",
            suite_help="Seed of the first repeat; each further repeat takes the next.",
            default=0,
            group=CASES,
        ),
    ]
