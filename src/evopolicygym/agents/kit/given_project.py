"""What agents share that play a policy which is there already: it becomes all of ``system/`` and is submitted once."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from evopolicygym.agents.kit.judge_client import JudgeClient


def replace(system: Path, files: Mapping[str, bytes]) -> None:
    """Have a directory hold these files, by their paths in it, and nothing else."""
    for old in system.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name, content in files.items():
        file = system / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def submit_once(judge: JudgeClient, key: str) -> None:
    """Submit the policy as it stands on as many train cases as one submission may have."""
    info = judge.info()
    judge.submit(info.cases(0, info.portion(info.episode_budget, info.episode_budget)), key)
