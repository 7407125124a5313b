"""Runs OpenEvolve, unmodified, until the agent that started this process ends it."""

import asyncio
import os
import signal
import time
from pathlib import Path
from threading import Thread

from openevolve.config import (
    Config,
    DatabaseConfig,
    EvaluatorConfig,
    LLMConfig,
    LLMModelConfig,
    PromptConfig,
)
from openevolve.controller import OpenEvolve

from evopolicygym.agents.kit.openevolve_harness import link

ITERATIONS = 100_000
"""More than any budget: the episodes are what ends a search."""
NEVER = 10**9
"""Checkpoints of the library are not kept: a search that is interrupted begins anew."""
WAIT_S = 7 * 24 * 3600
"""The judge has limits of its own; the library is to wait for it."""
ISLANDS = 2
"""With some thirty candidates, more islands would have a handful each."""
MIGRATION = 8
"""Generations of an island between migrations: the default of 50 would never come."""
POPULATION, ARCHIVE = 64, 8
"""All candidates of a run are kept, and its best quarter is drawn from most."""
TOP, DIVERSE = 2, 1
"""Other programs that a question shows: policies are long, and few."""
MOST_CODE = 50_000
"""Characters of a candidate; the default of 10 000 would cut large policies off."""


LOOK_S = 1.0


def main() -> None:
    """Set the library up as the agent says, and run it."""
    Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    settings = link.ask("settings")
    seed, output = int(settings["seed"]) % 2**32, Path(settings["directory"])
    output.mkdir(parents=True, exist_ok=True)
    program = output / "initial.py"
    program.write_text(settings["starter"], encoding="utf-8")
    config = Config(
        max_iterations=ITERATIONS,
        checkpoint_interval=NEVER,
        random_seed=seed,
        language="python",
        diff_based_evolution=False,  # a policy is short, and models without practice in the format miss its diffs
        max_code_length=MOST_CODE,
        llm=LLMConfig(models=[LLMModelConfig(name="model", init_client=link.Client)]),
        prompt=PromptConfig(system_message=settings["brief"], num_top_programs=TOP, num_diverse_programs=DIVERSE),
        database=DatabaseConfig(
            num_islands=ISLANDS,
            migration_interval=MIGRATION,
            population_size=POPULATION,
            archive_size=ARCHIVE,
            random_seed=seed,
            log_prompts=False,
        ),
        # One at a time: the judge plays a candidate's episodes on all cores by itself.
        evaluator=EvaluatorConfig(timeout=WAIT_S, max_retries=0, cascade_evaluation=False, parallel_evaluations=1),
    )
    evolution = OpenEvolve(
        initial_program_path=str(program), evaluation_file=link.__file__, config=config, output_dir=str(output)
    )
    asyncio.run(evolution.run())


def _leave_with(parent: int) -> None:
    """End this process and all of its own once the agent's is gone: it can't end them any more."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
