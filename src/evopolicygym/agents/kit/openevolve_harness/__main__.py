"""Runs OpenEvolve, unmodified, until the agent that started this process terminates it."""

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
"""More than any budget allows: the budget ends the search."""
NEVER = 10**9
"""The checkpoint interval: an interrupted search starts over."""
WAIT_S = 7 * 24 * 3600
"""The evaluation timeout: the judge has its own limits."""
ISLANDS = 2
"""With about thirty candidates, more islands would have only a few each."""
MIGRATION = 8
"""Generations between migrations: the default of 50 would never be reached."""
POPULATION, ARCHIVE = 64, 8
"""Room for all candidates of a run, and for its best quarter."""
TOP, DIVERSE = 2, 1
"""Further programs shown in a question: policies are long."""
MOST_CODE = 50_000
"""Maximum length of a candidate in characters: the default of 10,000 would cut off large policies."""
LOOK_S = 1.0


def main() -> None:
    """Configure the library by the agent's settings, and run it."""
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
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
        diff_based_evolution=False,  # policies are short, and models unfamiliar with the diff format fail at it
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
        # One at a time: the judge already plays a candidate's episodes on all cores.
        evaluator=EvaluatorConfig(timeout=WAIT_S, max_retries=0, cascade_evaluation=False, parallel_evaluations=1),
    )
    evolution = OpenEvolve(
        initial_program_path=str(program), evaluation_file=link.__file__, config=config, output_dir=str(output)
    )
    asyncio.run(evolution.run())


def _end_with(parent: int) -> None:
    """Kill this process group once the agent's process has ended."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
